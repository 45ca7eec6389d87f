"""What the machine can do, through AppTest: measured when asked for, kept, with date and conditions; and how near a run came to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.testing.v1 import AppTest

from engine.calibration import Calibration, Conditions
from engine.errors import EngineUnavailable
from engine.measure.flops import prefill_flops
from engine.measure.reading import step_reads
from engine.trace import RunSettings, RunStatus, RunView
from tests.app.visit import ask, go_to, open_app, view_of, words_of
from tests.samples import INFO, PREFILL, step
from ui import i18n, resources
from ui.sections.calibration import decode_reached, per_second, percent, prefill_reached

pytestmark = pytest.mark.usefixtures("engine_process")
KNOWN = Calibration(5e10, 2e10, 1e-7, "cpu", "float32", 2, "2026-03-04T10:20:30+01:00", Conditions(1024, 1 << 28, 5, "x 2", "2.13.0", 0.1))
ROOMY = replace(INFO, body_parameters=1_000_000, head_parameters=100_000)


def at_sweeps(language: str = "en") -> tuple[AppTest, RunView]:
    app = open_app(language)
    run = ask(app)
    go_to(app, "sweeps")
    assert not app.exception, app.exception
    return app, run


def pretend(monkeypatch: pytest.MonkeyPatch, found: Calibration | None) -> list[bool]:
    """The client knows `found`; gives the measurements asked for (again or not)."""
    asked: list[bool] = []

    def measure(model: str, device: str, again: bool = False) -> Calibration:
        asked.append(again)
        return replace(found or KNOWN, date="2026-05-06T07:08:09+01:00")

    monkeypatch.setattr(resources.engine(), "known_calibration", lambda model, device: found)
    monkeypatch.setattr(resources.engine(), "calibration", measure)
    return asked


def fitting(run: RunView, flops_per_s: float = 1e15, bytes_per_s: float = 1e15) -> Calibration:
    """As measured where this run was."""
    assert run.model is not None
    place = {"device": run.model.device, "dtype": run.model.dtype, "threads": run.model.prefill_threads}
    return replace(KNOWN, flops_per_s=flops_per_s, bytes_per_s=bytes_per_s, **place)


def test_it_is_measured_here_and_kept() -> None:
    """The real engine, its real worker: nothing is measured before it is asked for, and what is kept is there for another session."""
    app, run = at_sweeps()
    assert i18n.text("en", "calibration.invite") in words_of(app)
    assert app.button(key="calibrate").label == i18n.text("en", "calibration.measure")
    app.button(key="calibrate").click().run(timeout=60)
    assert not app.exception, app.exception
    found = resources.engine().known_calibration(run.model_id, run.device)
    assert found is not None
    assert found.date[:10] in words_of(app)
    assert per_second(found.bytes_per_s) in [metric.value for metric in app.metric]
    assert i18n.text("en", "calibration.reached") in words_of(app)
    other, _ = at_sweeps("zh")
    assert found.date[:16].replace("T", " ") in words_of(other)
    assert other.button(key="calibrate").label == i18n.text("zh", "calibration.again")


@pytest.mark.parametrize("language", i18n.LANGUAGES)
def test_it_says_when_and_how(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, KNOWN)
    app, _ = at_sweeps(language)
    said = words_of(app)
    assert [metric.value for metric in app.metric][:3] == ["50 GFLOP/s", "20 GB/s", "0.1 µs"]
    for part in ("2026-03-04 10:20", "` x 2 `", "1,024 × 1,024", "256.00 MiB", "float32", "2.13.0", "10%"):
        assert part in said, part
    assert i18n.text(language, "calibration.elsewhere") in said or i18n.text(language, "calibration.reached") in said


def test_a_busy_machine_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, replace(KNOWN, conditions=replace(KNOWN.conditions, load=0.9)))
    app, _ = at_sweeps()
    assert i18n.text("en", "calibration.busy", load="90%") in words_of(app)


def test_again_is_again_and_survives_a_language_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pretend(monkeypatch, KNOWN)
    app, _ = at_sweeps()
    assert asked == [], "nothing is measured unasked"
    app.button(key="calibrate").click().run()
    assert asked == [True]
    assert "2026-05-06 07:08" in words_of(app)
    app.segmented_control(key="language").set_value("zh").run()
    app.run()
    assert asked == [True], "a click is one measurement"
    assert "2026-05-06 07:08" in words_of(app)


def test_a_failure_is_told_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pretend(monkeypatch, KNOWN)

    def refuse(*_: object, **__: object) -> Calibration:
        asked.append(True)
        raise EngineUnavailable(detail="too many questions")

    monkeypatch.setattr(resources.engine(), "calibration", refuse)
    app, _ = at_sweeps()
    app.button(key="calibrate").click().run()
    assert not app.exception
    assert len(app.info) >= 1
    app.run()
    assert asked == [True]
    assert "2026-03-04 10:20" in words_of(app), "what was known is still known"


def test_a_run_is_held_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app, run = at_sweeps()
    pretend(monkeypatch, fitting(run))
    app.session_state["roofs"] = None
    app.run()
    said = words_of(app)
    assert i18n.text("en", "calibration.reached") in said
    assert i18n.text("en", "calibration.beyond") not in said
    pretend(monkeypatch, fitting(run, 1.0, 1.0))
    app.session_state["roofs"] = None
    app.run()
    assert words_of(app).count(i18n.text("en", "calibration.beyond")) == 2, "never above 100 % without a word"
    drawn = "\n".join(str(part.proto.body) for part in app.get("html"))
    assert drawn.count("≥ 100%") == 2, "and never with a number"


def test_a_rerun_while_it_is_measured_does_not_lose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is clicked meanwhile: the page is drawn anew right after the measurement, with its numbers and without another one."""
    asked = pretend(monkeypatch, KNOWN)
    measure = resources.engine().calibration

    def interrupted(model: str, device: str, again: bool = False) -> Calibration:
        here = get_script_run_ctx()
        assert here is not None
        here.script_requests.request_rerun(RerunData(query_string=here.query_string, page_script_hash=here.page_script_hash))
        return measure(model, device, again)

    monkeypatch.setattr(resources.engine(), "calibration", interrupted)
    app, _ = at_sweeps()
    app.button(key="calibrate").click().run()
    app.run()
    assert not app.exception
    assert asked == [True]
    assert "2026-05-06 07:08" in words_of(app)


def test_what_was_not_known_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another session may have measured meanwhile."""
    pretend(monkeypatch, None)
    app, _ = at_sweeps()
    assert i18n.text("en", "calibration.invite") in words_of(app)
    monkeypatch.setattr(resources.engine(), "known_calibration", lambda model, device: KNOWN)
    app.run()
    assert "2026-03-04 10:20" in words_of(app)


@pytest.mark.parametrize("change", ["recording", "dtype"])
def test_a_run_of_another_place_is_not(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app, run = at_sweeps()
    found = fitting(run)
    pretend(monkeypatch, found if change == "recording" else replace(found, dtype="float8"))
    other = replace(view_of(app), recording=change == "recording")
    monkeypatch.setattr(resources.engine(), "view", lambda run_id: other)
    app.session_state["roofs"] = None
    app.run()
    assert not app.exception
    assert i18n.text("en", "calibration.elsewhere") in words_of(app)
    assert i18n.text("en", "calibration.reached") not in words_of(app)


def test_without_a_model_in_memory_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app()
    app.session_state["model"] = "smollm2-135m"
    go_to(app, "sweeps")
    assert not app.exception
    assert app.button(key="calibrate").disabled
    assert i18n.text("en", "calibration.no_model") in words_of(app)


def test_the_shares_are_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RunView("r" * 22, "q", RunSettings(), "m", "", RunStatus.ENDED, ROOMY, (), PREFILL, (step(1), step(2)))
    reading = prefill_reached(KNOWN, made)
    assert reading.rate == pytest.approx(prefill_flops(ROOMY, 3) / 0.1)
    assert reading.share == pytest.approx(reading.rate / 5e10)
    writing = decode_reached(KNOWN, made)
    assert writing is not None
    one = step_reads(ROOMY, 4)
    assert writing.rate == pytest.approx((one.weights_bytes + one.notes_bytes) / 0.01), "both steps alike: bytes of one through its pass"
    assert one.weights_bytes == 4 * 1_100_000
    assert decode_reached(KNOWN, replace(made, steps=())) is None


def test_numbers_read_well() -> None:
    assert [percent(share) for share in (0.0017, 0.022, 0.5, 1.0, 1.0001)] == ["0.17%", "2.2%", "50%", "100%", "≥ 100%"]
    assert [per_second(rate) for rate in (6.59e8, 2.0e10, 3.9e12)] == ["0.659 GB/s", "20 GB/s", "3,900 GB/s"]
