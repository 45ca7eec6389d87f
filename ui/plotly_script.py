"""plotly.js for charts that move, served from the installed plotly package: one file, its version in its address.

Knows the file, its address and how long browsers may keep it; does not know who draws with it.
"""

from __future__ import annotations

import gzip
import threading
from functools import cache
from importlib import metadata
from pathlib import Path

import plotly
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ui import channel

PATH = "/plotly/{version}/plotly.min.js"
FILE = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_PACKING = threading.Lock()
KEPT = "public, max-age=31536000, immutable"  # another version has another address


@cache
def version() -> str:
    """The version of the installed package, which brings the script."""
    return metadata.version("plotly")


def path() -> str:
    """The script's address, as a browser page writes it."""
    return channel.base_path() + PATH.format(version=version())


def routes() -> list[BaseRoute]:
    """The script's route, also under the app's prefix: not every proxy strips it."""
    return [Route(prefix + PATH, script) for prefix in dict.fromkeys(["", channel.base_path()])]


async def script(request: Request) -> Response:
    """The script, packed where the browser can unpack it. 404 for another version than the installed one, or where there is no file."""
    packed = "gzip" in request.headers.get("accept-encoding", "")
    if request.path_params["version"] != version():
        return Response(status_code=404)
    try:
        body = await run_in_threadpool(_packed) if packed else await run_in_threadpool(FILE.read_bytes)
    except FileNotFoundError:  # a plotly without its script: the charts say that they cannot be drawn
        return Response(status_code=404)
    headers = {"Cache-Control": KEPT, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    headers |= {"Cross-Origin-Resource-Policy": "same-origin"} | ({"Content-Encoding": "gzip"} if packed else {})
    return Response(body, media_type="text/javascript", headers=headers)


def _packed() -> bytes:
    """Packed once, not at every request, nor by each of a class that comes at once; and not in the loop that carries the live channels."""
    with _PACKING:
        return _pack()


@cache
def _pack() -> bytes:
    return gzip.compress(FILE.read_bytes(), 6)
