"""The rules of the house, as tests: who may import whom, how large things may grow, both languages everywhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("engine", "ui", "pages", "tests")
SOURCES = [*sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py")), ROOT / "app.py", ROOT / "launch.py"]
TEXTS = sorted((ROOT / "assets" / "text").glob("*.toml"))
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PAGE_LINES = 300, 40, 120

TORCH_FREE = {
    f"engine.{name}"
    for name in (
        *("trace", "findings", "errors", "settings", "codec", "run_settings", "usage", "sweep", "calibration", "stem"),
        *("serve.client", "serve.asks", "serve.protocol"),
        *("measure.flops", "measure.latency", "measure.reading", "measure.fit"),
        *("generate.detokenize", "model.registry", "model.shape", "kv.sizes", "generate.stages"),
    )
}
HEAVY = ("torch", "transformers", "tokenizers", "accelerate", "gguf")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> Iterator[str]:
    """Every module that `path` imports, anywhere in the file, `from a import b` giving both a and a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def rooms_of(path: Path) -> set[str]:
    """The project's own modules that `path` imports (`from engine import load_model` gives "engine")."""
    found = set()
    for name in imports_of(path):
        if name.split(".")[0] in {"engine", "ui", "pages"}:
            found.add(name if is_module(name) else name.rpartition(".")[0])
    return found


def in_room(*rooms: str) -> list[Path]:
    return [p for p in SOURCES if name_of(p).startswith(tuple(f"{room}." for room in rooms)) or name_of(p) in rooms]


def allowed(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


@pytest.mark.parametrize("path", in_room("engine"), ids=name_of)
def test_engine_knows_no_ui(path: Path) -> None:
    assert not [n for n in imports_of(path) if n.split(".")[0] in {"streamlit", "plotly", "pandas", "ui", "pages"}]


@pytest.mark.parametrize("path", in_room("ui", "pages"), ids=name_of)
def test_ui_knows_only_torch_free_rooms(path: Path) -> None:
    assert not [n for n in imports_of(path) if n.split(".")[0] in HEAVY]
    assert {n for n in rooms_of(path) if n.startswith("engine")} <= TORCH_FREE


@pytest.mark.parametrize("path", in_room("ui.figures", "ui.theme", "ui.i18n"), ids=name_of)
def test_pictures_are_pure(path: Path) -> None:
    assert rooms_of(path) <= {"engine.trace", "engine.findings", "engine.sweep", "ui.theme", "ui.i18n", "ui.literal", "ui.figures"}


BORDER = (
    *("engine.trace", "engine.run_settings", "engine.stem", "engine.findings", "engine.errors", "engine.codec", "engine.settings"),
    *("engine.usage", "engine.sweep", "engine.calibration"),
)
SERVE_APP_SIDE = (
    *("message", "asks", "protocol", "client", "book", "keeper", "link", "questions"),
    *("stock", "supply", "watcher", "wire", "job", "rings", "errand", "holding", "scheduler", "recall", "window"),
    *("sweeping", "recordings", "checks"),
)
ENGINE_ARROWS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("engine.errors",), ()),
    (("engine.settings",), ("engine.errors",)),
    (("engine.run_settings",), ("engine.errors",)),
    (("engine.usage", "engine.calibration"), ()),
    (("engine.sweep",), ("engine.errors", "engine.trace")),
    (("engine.trace",), ("engine.errors", "engine.model.shape", "engine.codec", "engine.run_settings", "engine.usage")),
    (("engine.stem",), ("engine.errors", "engine.trace")),
    (("engine.codec",), ("engine.errors", "engine.model.shape", "engine.trace")),
    (("engine.findings",), ("engine.trace",)),
    (("engine.model.shape", "engine.model.registry"), ("engine.errors",)),
    (("engine.model",), (*BORDER, "engine.model", "engine.generate.tokens")),  # a loaded model brings its vocabulary
    (("engine.generate", "engine.kv", "engine.measure"), (*BORDER, "engine.model", "engine.generate", "engine.kv", "engine.measure")),
    (("engine.insight",), (*BORDER, "engine.model", "engine.generate", "engine.kv", "engine.measure")),
    (("engine.run",), (*BORDER, "engine.insight", "engine.model", "engine.generate", "engine.kv", "engine.measure")),
    (
        ("engine.experiments",),
        (*BORDER, "engine.run", "engine.model", "engine.generate", "engine.kv", "engine.measure", "engine.experiments"),
    ),
    (
        tuple(f"engine.serve.{name}" for name in SERVE_APP_SIDE),
        (*BORDER, "engine.model.registry", *(f"engine.serve.{name}" for name in SERVE_APP_SIDE)),
    ),
)


@pytest.mark.parametrize(("rooms", "targets"), ENGINE_ARROWS, ids=lambda value: "+".join(value) or "nothing")
def test_arrows_inside_the_engine(rooms: tuple[str, ...], targets: tuple[str, ...]) -> None:
    for path in in_room(*rooms):
        strangers = {n for n in rooms_of(path) if not allowed(n, targets) and n != "engine"}
        assert not strangers, f"{name_of(path)} imports {strangers}"


def test_only_state_names_session_keys_and_only_resources_caches() -> None:
    for path in in_room("ui", "pages"):
        text = path.read_text(encoding="utf-8")
        if name_of(path) != "ui.state":
            assert "session_state" not in text, f"{name_of(path)} names session state"
        if name_of(path) != "ui.resources":
            assert "st.cache_" not in text, f"{name_of(path)} caches"


def test_only_settings_reads_the_environment() -> None:
    for path in in_room("engine", "ui", "pages"):
        if name_of(path) == "engine.settings":
            continue
        reads = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if _reads_environment(n)]
        assert not reads, f"{name_of(path)} line {reads[0].lineno} reads the environment"


def _reads_environment(node: ast.AST) -> bool:
    """os.getenv, os.environ.get and os.environ[...] in load context; handing `os.environ` on to a child is no reading."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        call = ast.unparse(node.func)
        return call in {"os.getenv", "os.environ.get"}
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ" and isinstance(node.ctx, ast.Load)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_sizes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    limit = MAX_PAGE_LINES if path.parent.name == "pages" else MAX_FILE_LINES
    if path.name != "launch.py":  # one file by design: it must run before anything is installed
        assert text.count("\n") <= limit, f"{name_of(path)} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{name_of(path)}.{node.name} has {length} lines"


def test_no_name_stands_for_two_things() -> None:
    """A public class has one name in the whole engine and ui."""
    seen: dict[str, str] = {}
    for path in in_room("engine", "ui"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name not in seen, f"{node.name} in {seen[node.name]} and in {name_of(path)}"
                seen[node.name] = name_of(path)


def test_readme_shows_what_is_there() -> None:
    """Every file that the README links to or shows exists."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = [target for target in re.findall(r"\]\(([^)#\s]+)\)", readme) if "://" not in target]
    assert linked
    assert not [target for target in linked if not (ROOT / target).exists()]


def test_no_drawers() -> None:
    assert not [p for p in SOURCES if p.stem in {"utils", "common", "helpers", "misc"}]


def test_modules_say_what_they_know() -> None:
    for path in in_room("engine", "ui"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not tree.body or ast.get_docstring(tree), f"{name_of(path)} has no docstring"


@pytest.mark.parametrize("path", in_room("pages"), ids=name_of)
def test_pages_are_scripts(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "main"]


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_both_languages(path: Path) -> None:
    for key, entry in _entries(tomllib.loads(path.read_text(encoding="utf-8"))):
        assert set(entry) == {"en", "zh"}, f"{path.name} [{key}] has {sorted(entry)}"
        assert entry["en"].strip(), f"{path.name} [{key}]: empty English text"
        assert entry["zh"].strip(), f"{path.name} [{key}]: empty Chinese text"
        assert _places(entry["en"]) == _places(entry["zh"]), f"{path.name} [{key}]: the two texts fill different places"


def _entries(table: dict, prefix: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    for key, value in table.items():
        if all(isinstance(v, str) for v in value.values()):
            yield prefix + key, value
        else:
            yield from _entries(value, prefix + key + ".")


def _places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


# Beginnings of keys that are made in two steps: a word of the code follows, or, for the last, what an error tells.
MADE_KEYS = (
    "branches.end_",
    "errors.field_",
    "errors.reason_",
    "errors.invalid_setting_",
    "errors.out_of_range_",
    "errors.record_invalid_",
)
TOLD_KEYS = "errors.detail_"


def test_every_text_is_used() -> None:
    """Each key stands in the code: as it is, or as a pattern (f"{page}.guess_", "endings." + name) whose places are filled by words of the
    code. components.toml is held against the components' scripts elsewhere (tests/unit/test_components.py)."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in in_room("engine", "ui", "pages")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    words |= {str(number) for number in range(10)}
    patterns = {tuple(_pattern(node)) for node in nodes if isinstance(node, ast.JoinedStr)}
    patterns |= {(word, None) for word in MADE_KEYS} | {(word, None) for word in words if re.fullmatch(r"[a-z]+\.(\w+_)?", word)}
    patterns = {pattern for pattern in patterns if any(re.search(r"\w", part or "") for part in pattern)}
    for path in TEXTS:
        for key in tomllib.loads(path.read_text(encoding="utf-8")) if path.stem != "components" else ():
            full = f"{path.stem}.{key}"
            known = full in words or full.startswith(TOLD_KEYS) or any(_filled(full, pattern, words) for pattern in patterns)
            assert known, f"{path.name} [{key}] is said nowhere"


def _pattern(node: ast.JoinedStr) -> Iterator[str | None]:
    """The parts of an f-string; None stands for a place. One that ends in "." or "_" may go on: it is a prefix."""
    for part in node.values:
        yield str(part.value) if isinstance(part, ast.Constant) else None
    if isinstance(node.values[-1], ast.Constant) and str(node.values[-1].value).endswith((".", "_")):
        yield None


def _filled(text: str, pattern: tuple[str | None, ...], words: set[str]) -> bool:
    """Whether `text` is `pattern` with a word or nothing in each of its places."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first is not None:
        return text.startswith(first) and _filled(text.removeprefix(first), rest, words)
    ends = [0, *(end for end in range(1, len(text) + 1) if text[:end] in words)]
    return any(_filled(text[end:], rest, words) for end in ends)


def test_no_reader_facing_chinese_in_code() -> None:
    """Python code outside tests holds no Chinese but the product's own name (launch.py speaks before assets can be read)."""
    for path in in_room("engine", "ui", "pages"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                rest = node.value.replace("开卷考场", "").replace("中文", "")
                assert not any("\u4e00" <= c <= "\u9fff" for c in rest), f"{name_of(path)} line {node.lineno}: {rest!r}"


def test_pages_leave_torch_out() -> None:
    """Importing all that a page imports must not bring torch into the app's process."""
    modules = sorted({n for p in in_room("ui", "pages") for n in rooms_of(p)} | {name_of(p) for p in in_room("ui") if p.stem != "shell"})
    code = f"import importlib, sys\nfor m in {modules!r}: importlib.import_module(m)\nprint([h for h in {HEAVY!r} if h in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_only_live_speaks_to_python() -> None:
    """What a component says goes through live.tell or live.keep, which keep quiet while another page is on its way."""
    for path in (ROOT / "assets" / "components").rglob("*.js"):
        said = re.findall(r"setTriggerValue|setStateValue", path.read_text(encoding="utf-8"))
        assert not said or path.parent.name == "live", f"{path} speaks to Python by itself"


def test_no_remote_addresses_in_components() -> None:
    for path in (ROOT / "assets" / "components").rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        assert "//cdn" not in text, path
        assert "innerHTML" not in text, f"{path}: text goes in through textContent"
