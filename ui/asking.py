"""How a question becomes a run: the sidebar's settings, checked, and the run that is made with them.

Knows the settings' widget keys and the engine's client; does not know how a run is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.errors import EmptyPrompt, EngineError, InvalidSetting
from engine.model import registry
from engine.serve.client import Ticket
from engine.trace import RunSettings, RunStatus
from ui import resources, state


def start_run(question: str, *, play: bool = True, changes: Mapping[str, Any] | None = None) -> None:
    """A new run with the sidebar's settings becomes the current one; a refusal becomes the notice of the next picture.

    `changes`: fields of RunSettings that are different in this one run, whatever the sidebar says.
    """
    previous = state.current_view()
    if not question.strip():
        state.notify(EmptyPrompt().info)
        return
    try:
        settings = replace(run_settings(), **(changes or {}))
        ticket = submit(question, settings, play=play, pace_s=state.pace_s())
    except EngineError as error:
        state.notify(error.info)
        return
    if previous is not None and previous.status != RunStatus.ENDED and state.may_steer():
        state.steer("cancel")
    state.adopt(ticket.run_id, ticket.key, question)


def start_raw(question: str) -> None:
    """As `start_run`, but without the chat template; the sidebar stays as it is."""
    start_run(question, changes={"use_chat_template": False})


def submit(question: str, settings: RunSettings, *, play: bool = True, pace_s: float = 0.0) -> Ticket:
    """A run of the chosen model that does not become the current one. Raises EngineError."""
    client, model, device = resources.engine(), state.get(state.MODEL), state.get(state.DEVICE)
    if client.model_status(model, device).state in {"absent", "failed"}:
        client.load_model(model, device)  # the run would bring it too; asked for here, the sidebar shows it coming
    return client.submit(question, settings, model=model, device=device, session=state.session_id(), play=play, pace_s=pace_s)


def run_settings() -> RunSettings:
    """The sidebar as settings of a run. Widgets check in the browser only, so every value is brought into its range again."""
    system = str(state.get(state.SYSTEM_TEXT)).strip() or None
    return RunSettings(
        max_new_tokens=int(_between(state.MAX_NEW, 1, state.MAX_NEW_LIMIT)),
        temperature=_between(state.TEMPERATURE, 0, state.TEMPERATURE_LIMIT),
        top_k=int(_between(state.TOP_K, 0, state.TOP_K_LIMIT)),
        top_p=_between(state.TOP_P, 0, 1),
        seed=int(_between(state.SEED, 0, state.SEED_LIMIT)),
        use_chat_template=bool(state.get(state.TEMPLATE)) and has_template(),
        system_prompt=system if state.get(state.SYSTEM_ON) else "",
    )


def has_template() -> bool:
    """Whether the chosen model can use a chat template. Before it is loaded the list of models says so; one that is not listed is
    believed to."""
    info = resources.engine().model_status(state.get(state.MODEL), state.get(state.DEVICE)).info
    if info is not None:
        return info.has_chat_template
    return next((spec.chat for spec in registry.MODELS if state.get(state.MODEL) == spec.key), True)


def _between(key: str, low: float, high: float) -> float:
    """The number of widget `key`, clamped. Raises InvalidSetting where it is no number at all."""
    value = state.get(key)
    if not isinstance(value, int | float) or value != value:
        raise InvalidSetting(field=key, value=str(value), allowed=f"{low} … {high}")
    return min(max(value, low), high)
