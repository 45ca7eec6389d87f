"""The browser components as files: complete, worded in both languages, safe with any text, legible in light and dark."""

from __future__ import annotations

import importlib
import re
import tomllib
from types import ModuleType

import pytest
from streamlit.testing.v1 import AppTest

from ui.components.mount import ASSETS, SHARED_LABELS, SHARED_SCRIPTS, live_data, script, style

NAMES = (
    "progress",
    "token_strip",
    "notes",
    "cell",
    "candidates",
    "answer",
    "meters",
    "bytes_view",
    "clock",
    "reading",
    "step",
    "stages",
    "merges",
    "wrapping",
    "attention_map",
    "timeline",
    "branches",
    "pulse",
    "charts",
    "pace",
)
TEXTS = tomllib.loads((ASSETS.parent / "text" / "components.toml").read_text(encoding="utf-8"))
ENDS = "answer_end_"
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "fetch(",
    "http:",
    "https://",
    "\ufffd",
)
AA = 4.5


def read(name: str, kind: str) -> str:
    """One of a component's files; of its scripts, all that are its own."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ASSETS / name).glob(f"*.{kind}")))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"ui.components.{name}")


def labels_in(source: str, prefix: str) -> set[str]:
    return set(re.findall(rf"\b{prefix}_[a-z_0-9]+\b", source))


def shared_source() -> str:
    return "\n".join((ASSETS / "live" / f"{part}.js").read_text(encoding="utf-8") for part in SHARED_SCRIPTS)


def test_every_asset_folder_is_a_component_and_the_other_way_round() -> None:
    assert {path.name for path in ASSETS.iterdir() if path.is_dir()} == {*NAMES, "live"}
    assert {path.stem for path in (ASSETS / "live").glob("*.js")} == set(SHARED_SCRIPTS)


@pytest.mark.parametrize("name", NAMES)
def test_component_is_complete_and_inline(name: str) -> None:
    assert re.search(r'^<div class="ob [a-z]', read(name, "html"))
    assert len(re.findall(r"^export default function", script(name), re.MULTILINE)) == 1
    for text in (read(name, "html"), script(name), style(name)):
        assert "\n" in text.strip()  # a single line would be taken for a path
    assert not re.search(r"^\s*import\b", script(name), re.MULTILINE)
    assert "url(" not in style(name)
    assert "@import" not in style(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_reader_facing_word_in_the_markup(name: str) -> None:
    assert re.sub(r"<[^>]*>", "", read(name, "html")).strip() == ""


@pytest.mark.parametrize("name", NAMES)
def test_text_can_only_reach_the_page_as_text(name: str) -> None:
    assert [word for word in FORBIDDEN if word in script(name)] == []


@pytest.mark.parametrize("name", NAMES)
def test_handlers_are_assigned_not_added(name: str) -> None:
    assert "addEventListener" not in read(name, "js")
    assert shared_source().count("addEventListener") == 3  # visibility, the way to another page, the bar's orders: each once per page


@pytest.mark.parametrize("name", NAMES)
def test_python_is_told_only_through_live_which_says_nothing_on_the_way_to_another_page(name: str) -> None:
    assert not re.search(r"setTriggerValue|setStateValue", read(name, "js"))


@pytest.mark.parametrize("name", NAMES)
def test_labels_used_are_the_labels_declared(name: str) -> None:
    declared = module(name).LABELS
    assert len(declared) == len(set(declared))
    assert labels_in(read(name, "js"), name) == set(declared) - set(SHARED_LABELS)
    assert labels_in(read(name, "js"), "live") <= set(SHARED_LABELS)


def test_shared_labels_are_used() -> None:
    everything = shared_source() + "".join(read(name, "js") for name in NAMES)
    assert labels_in(everything, "live") == set(SHARED_LABELS)


def test_words_exist_in_both_languages_with_the_same_places() -> None:
    needed = {label for name in NAMES for label in module(name).LABELS}
    assert set(TEXTS) == {label for label in needed if not label.startswith(ENDS)}, "how a run ended is said by stops.toml and errors.toml"
    for key, words in TEXTS.items():
        assert set(words) == {"en", "zh"}, key
        places = [sorted(re.findall(r"\{(\w+)\}", words[language])) for language in ("en", "zh")]
        assert places[0] == places[1], key
        assert all(word.strip() for word in words.values()), key


@pytest.mark.parametrize("name", [*NAMES, "live"])
def test_every_place_of_a_label_is_filled(name: str) -> None:
    source = shared_source() if name == "live" else read(name, "js")
    for key, filled in re.findall(r"fill\(labels\.(\w+), \{([^{}]*)\}\)", source.replace("\n", " ")):
        given = set(re.findall(r"(?:^|,)\s*(\w+)\s*(?=[:,]|$)", re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", filled)).strip()))
        assert set(re.findall(r"\{(\w+)\}", TEXTS[key]["en"])) <= given, key


def test_a_missing_label_is_an_error_at_once() -> None:
    with pytest.raises(KeyError, match="clock_none"):
        live_data("run", "/runs/run/live", None, ("clock_none",), {})


def luminance(colour: str) -> float:
    """WCAG 2 relative luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(left: str, right: str) -> float:
    high, low = sorted((luminance(left), luminance(right)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("block", "paper"), [(0, "#FBF8F1"), (1, "#14171F")])
def test_small_type_is_legible(block: int, paper: str) -> None:
    rules = re.findall(r"\.ob(?:\.ob-dark)? \{(.*?)\n\}", (ASSETS / "live" / "live.css").read_text(encoding="utf-8"), re.DOTALL)
    colours = dict(re.findall(r"--ob-([a-z-]+): (#[0-9a-f]{6})", rules[block]))
    for role in ("prompt", "answer", "notes", "template", "good"):
        for ground in (paper, colours["card"], colours[f"{role}-wash"]):
            assert contrast(colours[f"{role}-text"], ground) >= AA, (role, ground)
    for ground in (paper, colours["card"], colours["notes-wash"]):
        assert contrast(colours["muted"], ground) >= AA, ground


def test_text_is_never_faded() -> None:
    """Opacity takes the contrast that the colours above were chosen for: only what carries no text of its own may have it."""
    faded = re.compile(r"([^{}]+)\{[^{}]*\bopacity: 0?\.\d")
    textless = (":disabled", ".k-faded", ".caret", ".ob-mark")  # buttons at rest, a swatch, a bar, marks for white space
    found = [rule.strip() for name in (*NAMES, "live") for rule in faded.findall(read(name, "css"))]
    assert [rule for rule in found if not rule.endswith(textless)] == []


def mount_all() -> None:
    """Runs inside AppTest: a script of its own, so it imports what it needs."""
    from importlib import import_module
    from pathlib import Path
    from tomllib import loads

    import numpy as np

    import ui.components
    from engine.findings import StageRow, Stages
    from tests.samples import token

    path = Path(ui.components.__file__).parents[2] / "assets" / "text" / "components.toml"
    labels = {key: words["zh"] for key, words in loads(path.read_text(encoding="utf-8")).items()}
    labels |= dict.fromkeys(import_module("ui.components.answer").LABELS, "…")
    for name in ("token_strip", "notes", "candidates", "answer", "meters", "bytes_view", "clock", "reading", "step"):
        getattr(import_module(f"ui.components.{name}"), name)(run_id=None, path="", key=name, labels=labels)
    tokens = [token(3), token(4)]
    import_module("ui.components.attention_map").attention_map(key="map", labels=labels, name="…", tokens=tokens, weights=np.eye(2))
    import_module("ui.components.cell").cell(key="cell", labels=labels, name="…", numbers=np.ones((2, 3, 4), np.float32))
    import_module("ui.components.branches").tree(run_id=None, path="", key="branches", labels=labels, branches=[])
    row = StageRow(3, b"A", "A", 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
    import_module("ui.components.stages").stages(
        key="stages", labels=labels, found=Stages(1, 0.0, 0, 1.0, (row,), 1, 1, 1, 0, 0, 0, 0, 0.5, 3, 3), own=True
    )
    import_module("ui.components.pulse").pulse(key="pulse", every_s=1.0)
    speeds = [("real", "…", 0.0)]
    import_module("ui.components.timeline").timeline(run_id=None, path="", key="timeline", labels=labels, speeds=speeds, speed="real")
    import_module("ui.components.charts").charts(run_id=None, path="", key="charts", labels=labels, chart="intervals")
    import_module("ui.components.pace").pace(run_id=None, path="", key="pace", labels=labels, ttft_s=1.0, tpot_s=0.1)
    known = {"status": None, "tokens": False, "prefill": False, "generated": None}
    result = import_module("ui.components.progress").progress(run_id=None, path="", key="progress", labels=labels, known=known)
    assert result.moved is None
    assert result.channel is None


def test_all_components_mount_without_a_run() -> None:
    app = AppTest.from_function(mount_all, default_timeout=20).run()
    assert not app.exception
