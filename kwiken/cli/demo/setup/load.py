"""The load: one open-loop generator in a process of its own, over all blocks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kwiken.errors import InputError, KwikenError

STOP_S = 20.0
MOST_ERROR = 400
QUERIES = 4000
QUERIES_S = 120.0


class LoadError(KwikenError):
    """The load generator did not do what it was started for."""


class Record(msgspec.Struct, frozen=True):
    """One request as the generator noted it; latency None where it was never sent."""

    intended_s: float
    start_lag_ms: float | None
    latency_ms: float | None
    status: int
    error: str | None
    trace_id: str


class Load:
    """Open-loop load for as long as the context is open, and no longer than `longest_s`.

    Args:
        url: of the gateway.
        rate: requests a second.
        longest_s: when it ends by itself.
        queries: file with a query a line.
        records: file for a line a request.
        seed: of arrivals and queries.
    """

    def __init__(
        self, url: str, *, rate: float, longest_s: float, queries: Path, records: Path, seed: int
    ) -> None:
        options = {
            "--rate": rate,
            "--duration": longest_s,
            "--queries": queries,
            "--records": records,
            "--seed": seed,
            "--zipf": 0,  # the file is a sample already
        }
        self._command = [sys.executable, "-m", "kwiken.cli.demo.setup.tied_process", "load", url, "--json"]
        self._command += [str(part) for pair in options.items() for part in pair]
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task[tuple[bytes, bytes]] | None = None

    async def __aenter__(self) -> Self:
        """Start it."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._output = asyncio.create_task(self._listen(self._process))
        return self

    async def _listen(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        """All that it says until it ends; its standard input stays open, or it would end at once."""
        assert process.stdout is not None
        assert process.stderr is not None
        said = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
        return said[0], said[1]

    async def check(self) -> None:
        """See that it still runs.

        Raises:
            LoadError: with what it said last.
        """
        assert self._process is not None
        assert self._output is not None
        if self._process.returncode is not None or self._output.done():
            _, said = await self._output
            last = _last_words(said)
            raise LoadError(f"the load ended too soon: {last or f'exit code {self._process.returncode}'}")

    async def stop(self) -> None:
        """End it in good order: no more requests, answers awaited, records whole.

        Raises:
            LoadError: when it does not end, or not well.
        """
        assert self._process is not None
        assert self._output is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_S):
                said, errors = await asyncio.shield(self._output)
        except TimeoutError:
            raise LoadError(f"the load did not end within {STOP_S:g} s") from None
        try:
            msgspec.json.decode(said, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            last = _last_words(errors)
            raise LoadError(f"the load gave no report: {last or error}") from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it by force if it still runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._output is not None:
            await asyncio.gather(self._output, return_exceptions=True)


def _last_words(said: bytes) -> str:
    """The end of what a process said on stderr, as part of a line."""
    return " ".join(said.decode(errors="replace").split()).removeprefix("kwiken: ")[-MOST_ERROR:]


async def write_queries(path: Path, seed: int) -> None:
    """Have the search service write queries from its own corpus; its index is built first if need be.

    Raises:
        LoadError: with the reason that it gives.
    """
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "kwiken.services.search",
            "queries",
            "-n",
            str(QUERIES),
            "--seed",
            str(seed),
            "-o",
            str(path),
        ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(QUERIES_S):
            _, said = await process.communicate()
    except TimeoutError:
        raise LoadError(f"the search index was not ready within {QUERIES_S:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        last = _last_words(said)
        raise LoadError(f"no queries: {last or f'exit code {process.returncode}'}")


def read_records(path: Path) -> list[Record]:
    """What the generator noted.

    Raises:
        InputError: names file and line.
    """
    found = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                found.append(msgspec.json.decode(line, type=Record))
            except msgspec.MsgspecError as error:
                raise InputError(str(error), where=f"{path}:{number}") from error
    return found
