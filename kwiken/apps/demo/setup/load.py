"""Load of the demo: one open-loop generator in a separate process, over all blocks."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kwiken.base.errors import InputError, KwikenError

STOP_S = 20.0
MAX_ERROR_LENGTH = 400
QUERY_COUNT = 4000
QUERIES_TIMEOUT_S = 120.0


class LoadError(KwikenError):
    """The load generator failed, or ended too soon."""


class Record(msgspec.Struct, frozen=True):
    """Record of one request by the generator; the latency is None if the request was never sent."""

    intended_s: float
    start_lag_ms: float | None
    latency_ms: float | None
    status: int
    error: str | None
    trace_id: str

    @property
    def answered(self) -> bool:
        """Tell whether the request got an answer of 200 to 299."""
        return self.latency_ms is not None and 200 <= self.status < 300  # noqa: PLR2004 - HTTP's range


class Load:
    """Context with open-loop load while it is open, for `longest_s` at most.

    Args:
        arrivals: mean rate of Poisson arrivals, in requests a second, or a file with a rate for each second,
            whose arrivals come at even gaps.
        longest_s: time after which the load ends by itself, in seconds.
        queries: file with one query per line.
        records: output file with one request per line.
    """

    def __init__(
        self, url: str, *, arrivals: float | Path, longest_s: float, queries: Path, records: Path, seed: int
    ) -> None:
        schedule = (
            {"--arrivals": f"constant:{arrivals}"} if isinstance(arrivals, Path) else {"--rate": arrivals}
        )
        options = {
            **schedule,
            "--duration": longest_s,
            "--queries": queries,
            "--records": records,
            "--seed": seed,
            "--zipf": 0,  # the file is a sample already
        }
        self._command = [sys.executable, "-m", "kwiken.cli.tied_process", "load", url, "--json"]
        self._command += [str(part) for pair in options.items() for part in pair]
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task[tuple[bytes, bytes]] | None = None

    @property
    def pid(self) -> int | None:
        """Pid of the generator; None before it was started."""
        return self._process.pid if self._process is not None else None

    async def __aenter__(self) -> Self:
        """Start the generator."""
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
        """Collect the generator's output until it ends; its input stays open, or it would end at once."""
        assert process.stdout is not None
        assert process.stderr is not None
        said = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
        return said[0], said[1]

    async def check(self) -> None:
        """Check that the generator still runs.

        Raises:
            LoadError: the generator has ended; with its last message.
        """
        assert self._process is not None
        assert self._output is not None
        if self._process.returncode is not None or self._output.done():
            _, said = await self._output
            last = _last_words(said)
            raise LoadError(f"the load ended too soon: {last or f'exit code {self._process.returncode}'}")

    async def stop(self) -> None:
        """Stop the load: sends no more requests, awaits the answers and completes the records.

        Raises:
            LoadError: when the generator does not end, or gives no report.
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
        """Kill the generator if it still runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._output is not None:
            await asyncio.gather(self._output, return_exceptions=True)


def _last_words(said: bytes) -> str:
    """End of a process's stderr, as part of one line."""
    return " ".join(said.decode(errors="replace").split()).removeprefix("kwiken: ")[-MAX_ERROR_LENGTH:]


async def write_queries(path: Path, seed: int) -> None:
    """Write queries from the search service's corpus to a file; builds its index first if there is none.

    Args:
        path: file to write, one query per line.

    Raises:
        LoadError: when that fails; with the reason.
    """
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "kwiken.services.search",
            "queries",
            "-n",
            str(QUERY_COUNT),
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
        async with asyncio.timeout(QUERIES_TIMEOUT_S):
            _, said = await process.communicate()
    except TimeoutError:
        raise LoadError(f"the search index was not ready within {QUERIES_TIMEOUT_S:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        last = _last_words(said)
        raise LoadError(f"no queries: {last or f'exit code {process.returncode}'}")


def read_records(path: Path) -> list[Record]:
    """Read the records of the generator.

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
