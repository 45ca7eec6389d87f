"""OpenBook on any machine with Python 3.11 or newer: `python3 launch.py [run | test | bench | setup]`.

Standard library only, since it runs before anything is installed; this file must parse on Python 3.6, to be able to say what is missing.
Knows how to make .venv, install, fetch weights and start things; does not know what the app or the engine do.
"""

import argparse
import collections
import contextlib
import hashlib
import importlib.util
import json
import locale
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, NoReturn

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
WINDOWS = os.name == "nt"
PYTHON = os.path.join(VENV, "Scripts" if WINDOWS else "bin", "python.exe" if WINDOWS else "python")
MINIMUM = (3, 11)
MODEL = "smollm2-135m"
TIERS = ("tests/test_rules.py", "tests/unit", "tests/model", "tests/app", "tests/browser")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    os.path.expandvars(r"%ProgramFiles%\Google\Chrome\Application\chrome.exe"),
    os.path.expandvars(r"%LocalAppData%\Google\Chrome\Application\chrome.exe"),
)
# A child that ends when our end of its standard input closes, even after kill -9 (as in engine/model/leash.py).
LEASHED = (
    "import os, runpy, sys, threading\n"
    "threading.Thread(target=lambda: (os.read(0, 1), os._exit(9)), daemon=True).start()\n"
    "del sys.argv[0]\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)
FONTS = ("fonts-noto-cjk", "fonts-noto-color-emoji")

# key: (English, Chinese)
WORDS = {
    "old_python": (
        "OpenBook needs Python {need} or newer; this is {have}. Start it with a newer one, for example: python3.12 launch.py",
        "开卷考场需要 Python {need} 或更新的版本，现在用的是 {have}。请换一个新版本来启动，例如：python3.12 launch.py",
    ),
    "no_venv": (
        "This Python cannot make virtual environments ({module} is missing). On Debian or Ubuntu: apt install python3-venv",
        "这个 Python 建不了虚拟环境（缺少 {module}）。Debian 或 Ubuntu 上请先运行：apt install python3-venv",
    ),
    "venv": ("Making .venv", "正在创建 .venv"),
    "venv_failed": ("Could not make .venv: {detail}", "创建 .venv 失败：{detail}"),
    "waiting": ("Another start is preparing this folder; waiting for it", "另一个启动正在准备这个文件夹，稍等"),
    "installing": ("Installing {file}", "正在安装 {file}"),
    "unpacking": ("unpacking", "解包中"),
    "install_failed": (
        "Installing {file} failed. Check the network (or your package index) and start again; it goes on where it stopped. pip said:",
        "安装 {file} 失败。请检查网络（或软件包镜像）后重新启动，会接着装。pip 的输出：",
    ),
    "offline_packages": (
        "--offline: the packages of {file} are not installed yet. Start once without --offline.",
        "--offline：{file} 里的软件包还没装好。请先不带 --offline 启动一次。",
    ),
    "weights": ("Model weights", "模型权重"),
    "download": ("downloading", "下载中"),
    "verify": ("checking", "校验中"),
    "convert": ("converting (once, about half a minute)", "转换中（只做一次，约半分钟）"),
    "ready": ("ready", "已就绪"),
    "weights_failed": ("The model weights could not be prepared: {detail}", "模型权重没能准备好：{detail}"),
    "offline": ("they are not on this machine yet, and --offline forbids fetching them", "本机还没有权重，而 --offline 不允许下载"),
    "download_failed": ("the download failed ({detail})", "下载失败（{detail}）"),
    "hash_mismatch": ("the downloaded file is not the expected one; try again", "下载到的文件与预期不符，请重试"),
    "disk_full": (
        "the disk is too full: {needed} MB are needed at {path}, {free} MB are free",
        "磁盘空间不够：{path} 需要 {needed} MB，只剩 {free} MB",
    ),
    "conversion_failed": ("the conversion failed ({detail})", "转换失败（{detail}）"),
    "storage_failed": ("the cache cannot be written: {path} ({detail})", "缓存无法写入：{path}（{detail}）"),
    "invalid_setting": ("{field} = {value} is not possible; allowed: {allowed}", "{field} 不能是 {value}；可以是：{allowed}"),
    "port_taken": (
        "Port {port} is in use. Stop the other program, or choose another port: python3 launch.py --port {other}",
        "端口 {port} 已被占用。请关掉占用它的程序，或换一个端口：python3 launch.py --port {other}",
    ),
    "open": ("OpenBook: {url}   (Ctrl+C ends it)", "开卷考场：{url}　（按 Ctrl+C 结束）"),
    "lan": ("For others on this network: {url}", "同一网络里的其他人请打开：{url}"),
    "lan_unknown": ("No network address found; others cannot reach this computer now.", "没有找到本机的网络地址，其他人暂时连不上。"),
    "prepared": ("Everything is ready. Start with: python3 launch.py", "全部准备好了。启动：python3 launch.py"),
    "browser": ("Installing a browser for the tests", "正在为测试安装浏览器"),
    "no_browser": (
        "No Chromium or Chrome found. Install one, or set OPENBOOK_CHROMIUM to its path.",
        "没有找到 Chromium 或 Chrome。请安装一个，或用 OPENBOOK_CHROMIUM 指明它的路径。",
    ),
    "passed": ("passed", "通过"),
    "failed": ("failed (exit code {code})", "失败（退出码 {code}）"),
}


def chinese() -> bool:
    """Whether to speak Chinese: the reader's locale asks for it, and this console can show it."""
    try:
        "开".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if os.environ.get(name):
            return os.environ[name].lower().startswith("zh")
    return (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese"))


def say(key: str, **places: object) -> str:
    return WORDS[key][chinese()].format(**places)


def tell(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def give_up(text: str, code: int = 1) -> "NoReturn":
    tell(text)
    raise SystemExit(code)


# ---------------------------------------------------------------- one line of progress


class Line:
    """A line that is written over on a terminal; elsewhere one line every ten seconds and whenever its first word changes."""

    def __init__(self, title: str) -> None:
        self.title, self.begun, self.shown, self.last = title, time.monotonic(), 0.0, ""
        self.terminal = sys.stdout.isatty()

    def show(self, text: str, key: str = "") -> None:
        now = time.monotonic()
        if key == self.last and now - self.shown < (0.2 if self.terminal else 10.0):
            return
        self.shown, self.last = now, key
        line = f"{self.title} · {text} · {now - self.begun:.0f} s"
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r\033[K" + line[: width // (2 if chinese() else 1)])
            sys.stdout.flush()
        else:
            tell(line)

    def end(self, text: str) -> None:
        if self.terminal:
            sys.stdout.write("\r\033[K")
        tell(f"{self.title} · {text} · {time.monotonic() - self.begun:.0f} s")


# ---------------------------------------------------------------- .venv and its packages


def child_environment(**changes: str) -> "dict[str, str]":
    """Ours, without what would turn pip or Python away from .venv."""
    drop = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV"}
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return {**kept, "PYTHONUTF8": "1", **changes}


@contextlib.contextmanager
def alone() -> "Iterator[None]":
    """One start at a time prepares this folder; the lock goes with the process that holds it."""
    with open(os.path.join(ROOT, ".launch.lock"), "a+b") as file:
        waited = False
        while not lock(file):
            if not waited:
                tell(say("waiting"))
            waited = True
            time.sleep(0.5)
        yield


def lock(file: "BinaryIO") -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def venv_version() -> "tuple[int, int] | None":
    """(major, minor) of a .venv that works and has pip, else None: none there, made half, or its Python is gone."""
    code = "import importlib.metadata, json, sys, pip._internal.cli.main; importlib.metadata.version('pip')\n"  # the record comes last
    code += "print(json.dumps([list(sys.version_info[:2]), sys.prefix]))"
    try:
        done = subprocess.run([PYTHON, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(), check=True)
        version, prefix = json.loads(done.stdout.decode())
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return tuple(version) if os.path.realpath(prefix) == os.path.realpath(VENV) else None


def make_venv() -> None:
    if (venv_version() or (0, 0)) >= MINIMUM:
        return
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            give_up(say("no_venv", module=module))
    tell(say("venv"))
    command = [sys.executable, "-m", "venv", "--clear", VENV]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=child_environment())
    if done.returncode or venv_version() is None:
        give_up(say("venv_failed", detail=done.stdout.decode(errors="replace").strip()[-400:]))


def stamp_path(file: str) -> str:
    return os.path.join(VENV, "openbook-" + file.replace(".txt", ".stamp"))


def stamp(file: str) -> str:
    """What was installed: the text of the requirements (with those they include), and for which Python."""
    digest = hashlib.sha256()
    for name in dict.fromkeys(("requirements.txt", file)):
        with open(os.path.join(ROOT, name), "rb") as text:
            digest.update(text.read())
    with open(os.path.join(VENV, "pyvenv.cfg")) as settings:
        digest.update("".join(line for line in settings if line.startswith("version")).encode())
    if not WINDOWS:  # there .venv holds a copy instead of a link
        digest.update(os.path.realpath(PYTHON).encode())
    return digest.hexdigest()


def installed(file: str) -> bool:
    try:
        with open(stamp_path(file)) as text:
            return text.read() == stamp(file) and os.path.exists(PYTHON)
    except OSError:
        return False


def install(file: str, offline: bool) -> None:
    if installed(file):
        return
    with alone():
        if installed(file):
            return
        if offline:
            give_up(say("offline_packages", file=file))
        make_venv()
        arguments = ["install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "-r", file]
        code, lines = run_pip(arguments, Line(say("installing", file=file)))
        if code:
            give_up("\n".join([say("install_failed", file=file), *lines]), code)
        for name in dict.fromkeys(("requirements.txt", file)):  # the development packages include the others
            with open(stamp_path(name) + ".new", "w") as text:
                text.write(stamp(name))
            os.replace(stamp_path(name) + ".new", stamp_path(name))


def run_pip(arguments: "list[str]", line: Line) -> "tuple[int, list[str]]":
    """pip's exit code and last lines; meanwhile one line with the package at hand and the megabytes that have come in."""
    temporary = os.path.join(VENV, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary)
    pip = subprocess.Popen(
        [PYTHON, "-c", LEASHED, "pip", *arguments],
        cwd=ROOT,
        env=child_environment(**places),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines: collections.deque[str] = collections.deque(maxlen=12)
    reader = threading.Thread(target=lambda: lines.extend(raw.decode(errors="replace").rstrip() for raw in pip.stdout or ()), daemon=True)
    reader.start()
    try:
        step = "…"
        while pip.poll() is None:
            words = (lines[-1] if lines else "").split()
            if words[:1] == ["Collecting"]:
                step = words[1]
            elif words[:1] == ["Installing"]:
                step = say("unpacking")
            line.show(f"{step} · {folder_bytes(temporary) / 1e6:.0f} MB", key=say("unpacking") if step == say("unpacking") else "")
            time.sleep(0.5)
    finally:
        pip.kill()
        pip.wait()
        shutil.rmtree(temporary, ignore_errors=True)
    reader.join()
    line.end(say("ready") if pip.returncode == 0 else say("failed", code=pip.returncode))
    return pip.returncode, list(lines)


def folder_bytes(folder: str) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.path.getsize(os.path.join(where, name))
    return total


# ---------------------------------------------------------------- weights


def parsed(raw: bytes) -> "dict[str, Any]":
    """One line of the child's report; {} for anything else that a library may print in between."""
    try:
        found = json.loads(raw.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def fetch_weights(environment: "dict[str, str]") -> None:
    line = Line(say("weights"))
    command = [PYTHON, "-m", "engine.model.weights", MODEL, "--json"]
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    message: dict[str, Any] = {}
    try:
        for raw in child.stdout or ():
            message = parsed(raw) or message
            if "stage" in message:
                done, total = message["done"] / 1e6, message["total"] / 1e6
                amount = f" {done:.0f} / {total:.0f} MB" if total else ""
                line.show(say(message["stage"]) + amount, key=message["stage"])
    finally:
        if child.poll() is None and sys.exc_info()[0]:
            child.terminate()
        child.wait()
    if child.returncode:
        give_up(say("weights_failed", detail=reason(message)), child.returncode)
    line.end(say("ready"))


def reason(message: "dict[str, Any]") -> str:
    """The words for an error of the engine; one that has no words here is told as it is."""
    code = message.get("error")
    if code not in WORDS:
        return json.dumps(message)
    sizes = {"needed": message.get("needed_bytes", 0) // 10**6, "free": message.get("free_bytes", 0) // 10**6}
    return say(code, **{"detail": "", "path": "", **message, **sizes})


# ---------------------------------------------------------------- run


def start_app(options: argparse.Namespace, environment: "dict[str, str]") -> int:
    address = "0.0.0.0" if options.lan else "127.0.0.1"
    headless = options.no_browser or not can_open_a_browser()
    tell(say("open", url=f"http://localhost:{options.port}"))
    if options.lan:
        environment = {"OPENBOOK_ANY_MODEL": "0", **environment}  # guests choose from the list; paths and downloads stay the owner's
        found = lan_address()
        tell(say("lan", url=f"http://{found}:{options.port}") if found else say("lan_unknown"))
    flags = {"port": options.port, "address": address, "headless": str(headless).lower(), "showEmailPrompt": "false"}
    arguments = [part for name, value in flags.items() for part in ("--server." + name, str(value))]
    command = [PYTHON, "-m", "streamlit", "run", "app.py", *arguments]
    os.chdir(ROOT)
    if not WINDOWS:
        os.execve(PYTHON, command, environment)
    return follow(subprocess.Popen(command, env=environment))


def follow(child: "subprocess.Popen[bytes]") -> int:
    """Windows has no exec: wait for the app, and end with it or end it. Ctrl+C reaches it by itself."""
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                return child.wait(10)
            child.terminate()


def require_port(port: int, lan: bool) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if not WINDOWS:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0" if lan else "127.0.0.1", port))
            taken = False
        except OSError:
            taken = True
    if taken or answers(port):
        give_up(say("port_taken", port=port, other=port + 1 if port < 65535 else 8501))


def answers(port: int) -> bool:
    """Some systems let two programs share a port; then somebody answers there already."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def can_open_a_browser() -> bool:
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def lan_address() -> "str | None":
    """The address of the interface that leads out; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return None


# ---------------------------------------------------------------- test


def find_chromium() -> "str | None":
    """A browser that starts: the one named by OPENBOOK_CHROMIUM, else one of the usual names and places."""
    named = [os.environ.get("OPENBOOK_CHROMIUM")]
    for path in named + [shutil.which(name) for name in CHROMIUM_NAMES] + list(CHROMIUM_PLACES):
        if path and os.path.isfile(path) and (WINDOWS or starts(path)):
            return path
    return None


def starts(path: str) -> bool:
    try:
        return subprocess.run([path, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def missing_fonts() -> "list[str]":
    if not sys.platform.startswith("linux"):
        return []
    try:
        listed = [subprocess.run(["fc-list", query], stdout=subprocess.PIPE).stdout for query in (":lang=zh", ":color=true")]
    except OSError:
        return list(FONTS)
    return [font for font, found in zip(FONTS, listed, strict=True) if not found.strip()]


def prepare_browser(environment: "dict[str, str]", offline: bool) -> None:
    """Sets OPENBOOK_CHROMIUM for the tests; without one, Playwright's own browser is installed where it looks for it."""
    browser, fonts = find_chromium(), missing_fonts()
    debian_root = shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0
    if not offline and debian_root and (fonts or browser is None):
        tell(say("browser"))
        wanted = fonts if browser else ["chromium", *fonts]
        quiet = {**environment, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "-qq", "update"], ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *wanted]):
            subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL)
        browser = find_chromium()
    if browser:
        environment["OPENBOOK_CHROMIUM"] = browser
        return
    environment.pop("OPENBOOK_CHROMIUM", None)
    tell(say("browser"))
    if offline or subprocess.run([PYTHON, "-m", "playwright", "install", "chromium"], env=environment).returncode:
        tell(say("no_browser"))


def run_tests(extra: "list[str]", environment: "dict[str, str]") -> int:
    """Everything runs; the exit code is that of the first failure. Paths among `extra` replace the four tiers."""
    chosen = any(os.path.exists(os.path.join(ROOT, part.partition("::")[0])) for part in extra if not part.startswith("-"))
    steps = (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["pytest", *([] if chosen else TIERS), *extra],
    )
    codes = []
    for step in steps:
        tell("\n$ " + " ".join(step))
        codes.append(subprocess.run([PYTHON, "-m", *step], cwd=ROOT, env=environment).returncode)
    for step, code in zip(steps, codes, strict=True):
        tell("{}: {}".format(" ".join(step[:2]), say("failed", code=code) if code else say("passed")))
    return next((code for code in codes if code), 0)


# ---------------------------------------------------------------- commands


def read_options(arguments: "list[str]") -> "tuple[argparse.Namespace, list[str]]":
    own, extra = arguments, []
    if "--" in arguments:
        own, extra = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    parser = argparse.ArgumentParser(
        prog="launch.py", description="OpenBook 开卷考场", epilog="launch.py test -- -k name · launch.py bench -- ARGUMENTS"
    )
    parser.add_argument("command", nargs="?", choices=("run", "test", "bench", "setup"), default="run")
    parser.add_argument("--port", type=port_number, default=8501, help="8501 / 端口")
    parser.add_argument("--lan", action="store_true", help="let others on this network in / 允许同一网络的人访问")
    parser.add_argument("--offline", action="store_true", help="never use the network / 不使用网络")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser / 不自动打开浏览器")
    return parser.parse_args(own), extra


def port_number(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise ValueError(text)
    return port


def prepare(options: argparse.Namespace) -> "dict[str, str]":
    """Everything but the start itself: packages, weights, a browser for the tests. Returns the environment for what follows."""
    install("requirements.txt" if options.command in ("run", "setup") else "requirements-dev.txt", options.offline)
    environment = child_environment(**({"OPENBOOK_OFFLINE": "1"} if options.offline else {}))
    if options.command in ("test", "bench"):
        prepare_browser(environment, options.offline)
    fetch_weights(environment)
    return environment


def main(arguments: "list[str]") -> int:
    options, extra = read_options(arguments)
    if options.command == "run":
        require_port(options.port, options.lan)
    if options.command == "bench":
        with contextlib.redirect_stdout(sys.stderr):  # its own output is one JSON object a line
            environment = prepare(options)
        return subprocess.run([PYTHON, "-m", "tests.bench", *extra], cwd=ROOT, env=environment).returncode
    environment = prepare(options)
    if options.command == "run":
        return start_app(options, environment)
    if options.command == "test":
        return run_tests(extra, environment)
    tell(say("prepared"))
    return 0


if __name__ == "__main__":
    if sys.version_info < MINIMUM:
        give_up(say("old_python", need="3.11", have="{}.{}".format(*sys.version_info[:2])))
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
