"""Sweeps as the app's client knows them: asked for, moving on point by point, cancelled, over.

Knows what a sweep has measured so far and for how long it is wanted; does not know how it is measured (engine.experiments) nor how
messages travel. What has been measured outlives the engine process, and the sweep's end; the sweeps that ended first leave first.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine import codec
from engine.errors import EngineLost, ErrorInfo, TooManySweeps, Unwatched
from engine.serve.checks import check_sweep
from engine.serve.protocol import BeginSweep, Message, StopSweep, SweepEnded, SweepMoved
from engine.sweep import SweepKind, SweepView, grown

SWEEPS_KEPT = 64
SWEEPS_LIVE = 8  # over all sessions: each takes turns
LEASES = 10  # of a run's: nothing but the page asks after a sweep, and its reader may look something up on another one


@dataclass(eq=False, slots=True)
class Sheet:
    """One sweep. `link`: number of the engine process that has it, None while it waits for one. `given_up`: it has been stopped because
    nobody looked."""

    view: SweepView
    wanted_until: float
    link: int | None = None
    given_up: bool = False


class SweepBook:
    """Thread-safe. `clock` gives seconds."""

    def __init__(self, lease_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s, self._clock = LEASES * lease_s, clock
        self._lock = threading.Lock()
        self._sheets: dict[str, Sheet] = {}  # the ended ones in the order in which they ended

    def add(self, view: SweepView) -> Sheet:
        """Raises TooManySweeps."""
        with self._lock:
            if sum(sheet.view.moving for sheet in self._sheets.values()) >= SWEEPS_LIVE:
                raise TooManySweeps(limit=SWEEPS_LIVE)
            sheet = self._sheets[view.sweep_id] = Sheet(view, self._clock() + self._lease_s)
            return sheet

    def look(self, sweep_id: str) -> SweepView | None:
        """Somebody is looking."""
        with self._lock:
            sheet = self._sheets.get(sweep_id)
            if sheet is None:
                return None
            sheet.wanted_until = self._clock() + self._lease_s
            return sheet.view

    def apply(self, event: SweepMoved | SweepEnded) -> None:
        """Write it down. What comes after the end is dropped."""
        with self._lock:
            sheet = self._sheets.get(event.sweep_id)
            if sheet is None or not sheet.view.moving:
                return
            if isinstance(event, SweepMoved):
                sheet.view = _moved(sheet.view, event)
                return
            sheet.view = replace(sheet.view, status=event.status, error=event.error, measuring=None)
            self._sheets[event.sweep_id] = self._sheets.pop(event.sweep_id)
            ended = [sweep_id for sweep_id, one in self._sheets.items() if not one.view.moving]
            for sweep_id in ended[:-SWEEPS_KEPT]:
                del self._sheets[sweep_id]

    def lose(self, link: int, exit_code: int) -> None:
        """The engine process number `link` has died: its sweeps have ended, with the points they have."""
        error = EngineLost(exit_code=exit_code).info
        for sweep_id in [sweep_id for sweep_id, sheet in list(self._sheets.items()) if sheet.link == link]:
            self.apply(SweepEnded(sweep_id, "failed", error))

    def stop_waiting(self, sweep_id: str, error: ErrorInfo | None) -> None:
        """End it here, if no engine process has it: there is nobody who could tell its end."""
        sheet = self._sheets.get(sweep_id)
        if sheet is not None and sheet.link is None:
            self.apply(SweepEnded(sweep_id, "stopped", error))

    def unwanted(self) -> list[str]:
        """Sweeps that go on although nobody has looked for a whole lease; each is named once."""
        now = self._clock()
        with self._lock:
            found = {
                sweep_id: sheet
                for sweep_id, sheet in self._sheets.items()
                if sheet.view.moving and sheet.wanted_until < now and not sheet.given_up
            }
            for sheet in found.values():
                sheet.given_up = True
        return list(found)


def _moved(view: SweepView, event: SweepMoved) -> SweepView:
    if event.model is not None:
        view = replace(view, model=event.model, lengths=event.lengths, conditions=event.conditions)
    if event.sample is not None:
        view = replace(view, points=grown(view.points, event.sample))
    if event.sample is not None or event.then is not None:
        view = replace(view, measuring=event.then)
    return replace(view, status=event.status)


class SweepDesk:
    """The sweeps of a client, which brings the book of them, `_post`, `_send` (for what a sheet begins with) and `_check_model`."""

    _sweeps: SweepBook

    def _post(self, message: Message) -> None:
        raise NotImplementedError

    def _send(self, data: bytes, entry: Sheet) -> None:
        raise NotImplementedError

    def _check_model(self, model: str) -> None:
        raise NotImplementedError

    def sweep(self, kind: SweepKind, lengths: Sequence[int], *, model: str, device: str = "auto", session: str) -> str:
        """Begin to measure; the model is loaded first if need be. Gives the sweep's id, with which it can be looked at and stopped.

        Raises InvalidSetting, LoneSurrogate, TooManySweeps; ModelNotFound for a model that visitors may not name.
        """
        for text in (model, device, session):
            codec.check_text(text)
        self._check_model(model)
        check_sweep(kind, lengths)
        sweep_id = secrets.token_urlsafe(16)
        created = datetime.now().astimezone().isoformat(timespec="milliseconds")
        command = BeginSweep(sweep_id, session, model, device, kind, tuple(lengths))
        self._send(codec.dump(command), self._sweeps.add(SweepView(sweep_id, kind, model, device, command.lengths, created)))
        return sweep_id

    def stop_sweep(self, sweep_id: str, error: ErrorInfo | None = None) -> None:
        """End it, also in the middle of a measurement; what has been measured stays. `error`: why, where it was not the reader's wish.
        One that still waits for an engine process has ended when this returns."""
        view = self._sweeps.look(sweep_id)
        if view is not None and view.moving:
            self._end_sweep(sweep_id, error)

    def sweep_view(self, sweep_id: str) -> SweepView | None:
        """What it has measured so far; None when it is unknown or has left the book. A sweep that nobody asks after for LEASES leases
        of a run is stopped."""
        return self._sweeps.look(sweep_id)

    def _give_up_sweep(self, sweep_id: str, error: ErrorInfo) -> None:
        self._sweeps.apply(SweepEnded(sweep_id, "failed", error))
        self._post(StopSweep(sweep_id))

    def _stop_unwanted_sweeps(self) -> None:
        for sweep_id in self._sweeps.unwanted():
            self._end_sweep(sweep_id, Unwatched().info)

    def _end_sweep(self, sweep_id: str, error: ErrorInfo | None) -> None:
        """First there, then here: the next process hears of the sweep and at once of its end."""
        self._post(StopSweep(sweep_id, error))
        self._sweeps.stop_waiting(sweep_id, error)
