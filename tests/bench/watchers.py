"""`python tests/bench/watchers.py COUNT URL`: that many watchers on one run's channel, drawing nothing, until the run has ended.

Prints the number of steps that each of them saw. A process of its own, as browsers are.
"""

from __future__ import annotations

import asyncio
import json
import sys

from websockets.asyncio.client import connect


async def watch(url: str) -> int:
    seen = 0
    async with connect(url, max_size=None) as socket:
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "snapshot":
                seen = len(message["steps"])
            seen += message["type"] == "stepped"
            if message.get("status") == "ended":
                return seen
    return seen


async def main(count: int, url: str) -> None:
    print(json.dumps(await asyncio.gather(*(watch(url) for _ in range(count)))))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
