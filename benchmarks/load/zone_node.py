"""One played node of zones: replicas of services that call one another over TCP, with a delay between zones.

An order comes as one line of JSON on stdin, after the ports have been told on stdout; the process ends
with its standard input. The delay of a call to another zone is emulated by the caller, before the call
and after its answer.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from functools import partial
from typing import Any


class Node:
    """Replicas of one node.

    Args:
        names: services that have a replica here.
    """

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._order: dict[str, Any] = {}
        self._random = random.Random()

    async def run(self) -> None:
        """Serve until the standard input ends."""
        servers = [
            await asyncio.start_server(partial(self._serve, name), "127.0.0.1", 0) for name in self._names
        ]
        print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
        loop = asyncio.get_running_loop()
        self._order = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
        self._random.seed(self._order["seed"])
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each line by the number of calls across zones that it took, once callees have answered."""
        try:
            while await reader.readline():
                crossed = 0
                for callee, mean in self._order["calls"].get(name, {}).items():
                    number = int(mean) + (self._random.random() < mean % 1)
                    for _ in range(number):
                        crossed += await self._call(callee)
                writer.write(b"%d\n" % crossed)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _call(self, callee: str) -> int:
        replicas = self._order["replicas"][callee]
        chosen = self._random.choices(replicas, [each["share"] for each in replicas])[0]
        far = bool(chosen["zone"] != self._order["zone"])
        if far:
            await asyncio.sleep(self._order["delay_s"])
        reader, writer = await asyncio.open_connection("127.0.0.1", chosen["port"])
        writer.write(b"\n")
        below = int(await reader.readline())
        writer.close()
        if far:
            await asyncio.sleep(self._order["delay_s"])
        return below + far


if __name__ == "__main__":
    asyncio.run(Node(json.loads(sys.argv[1])).run())
