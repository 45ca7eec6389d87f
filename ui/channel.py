"""The live channel: one WebSocket per browser page and run, carrying each step once.

Knows the address, who may listen and when to hang up; does not know what the messages mean: they come ready from the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import cast
from urllib.parse import urlsplit

import streamlit as st
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.errors import RunUnknown
from ui import resources

PATH = "/runs/{run_id}/live"
CLOSE_UNKNOWN_RUN = 4404
CLOSE_FOREIGN_ORIGIN = 4403
CLOSE_FAILED = 1011

log = logging.getLogger(__name__)


def base_path() -> str:
    """The prefix under which the app is served, without a slash at its end ("" at the root)."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def path_of(run_id: str | None) -> str:
    """The channel's address for one run, as a browser page writes it ("" without a run)."""
    return base_path() + PATH.format(run_id=run_id) if run_id else ""


def routes() -> list[BaseRoute]:
    """The channel's route, also under the app's prefix: not every proxy strips it."""
    return [WebSocketRoute(prefix + PATH, live) for prefix in dict.fromkeys(["", base_path()])]


async def live(websocket: WebSocket) -> None:
    """Send one run to one browser until either side hangs up. Closes with 4403 for a foreign page, 4404 for a run nobody knows."""
    await websocket.accept()
    if not origin_allowed(websocket.headers.get("origin"), websocket.headers.get("host")):
        await websocket.close(CLOSE_FOREIGN_ORIGIN)
        return
    client, run_id = resources.engine(), websocket.path_params["run_id"]
    if client.view(run_id) is None:
        await websocket.close(CLOSE_UNKNOWN_RUN)
        return
    listening = asyncio.create_task(_until_closed(websocket))
    sending = asyncio.create_task(_send(websocket, run_id))
    try:
        await asyncio.wait({listening, sending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, sending):
            task.cancel()
        outcomes = await asyncio.gather(listening, sending, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]  # a task that was cancelled is none
    for failure in failures:
        log.error("the channel of a run broke", exc_info=failure)
    if failures:
        with suppress(WebSocketDisconnect):
            await websocket.close(CLOSE_FAILED)


async def _send(websocket: WebSocket, run_id: str) -> None:
    """Forward the client's messages. A browser that leaves in the middle of one is an ordinary end."""
    with suppress(WebSocketDisconnect):
        try:
            # An async generator, closed at once and not whenever the collector comes by: it holds the run's lease.
            async with aclosing(cast("AsyncGenerator[str]", resources.engine().stream(run_id))) as messages:
                async for message in messages:
                    await websocket.send_text(message)
            await websocket.close()
        except RunUnknown:
            await websocket.close(CLOSE_UNKNOWN_RUN)


async def _until_closed(websocket: WebSocket) -> None:
    """Browsers only listen here; whatever they say is dropped until they hang up."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


def origin_allowed(origin: str | None, host: str | None) -> bool:
    """Whether a page from `origin` may listen: the server's own pages and `server.corsAllowedOrigins`; programs send no origin."""
    if origin is None or not st.get_option("server.enableCORS"):
        return True
    if origin in st.get_option("server.corsAllowedOrigins"):
        return True
    return bool(host) and urlsplit(origin).netloc.lower() == str(host).lower()
