"""Child process of a supervisor: started, observed until its end, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.process.specs import GatewaySpec, ReplicaSpec, Report

START_S: Final = 180.0  # for a process to become ready
Launch = Callable[..., Awaitable[asyncio.subprocess.Process]]


class ChildError(KwikenError):
    """A server process did not start."""


class Child:
    """Server process that is ready, as seen by its supervisor."""

    def __init__(self, process: asyncio.subprocess.Process, identity: Identity, url: str) -> None:
        self._process = process
        self.identity = identity
        self.url = url

    @classmethod
    async def start(
        cls,
        spec: ReplicaSpec | GatewaySpec,
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        files: Sequence[int] = (),
        log: Path | None = None,
        start_s: float = START_S,
        launch: Launch | None = None,
    ) -> Child:
        """Start a process and wait until it is ready. Cancelling this ends the process.

        Args:
            env: environment variables in addition to those of this process.
            log: file that its standard error is appended to; None for that of this process.
            start_s: time that the start may take, seconds.
            launch: what starts the command, as `asyncio.create_subprocess_exec` does; None for just that.

        Raises:
            ChildError: the process did not start; with the reason that it reported, if any.
        """
        try:
            with contextlib.nullcontext() if log is None else log.open("ab") as said:
                process = await (launch or asyncio.create_subprocess_exec)(
                    sys.executable,
                    "-m",
                    "kwiken.runtime.process.server_process",
                    msgspec.json.encode(spec, enc_hook=os.fspath).decode(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=said,
                    pass_fds=files,
                    env={**os.environ, **(env or {}), "PYTHONPATH": _import_path()},
                    start_new_session=True,  # Ctrl-C must reach the supervisor alone, which stops all
                )
        except OSError as error:  # no memory, no file descriptors, no interpreter: may be temporary
            raise ChildError(f"{name}: cannot be started: {error.strerror or error}") from error
        try:
            url = await _report_of(process, name, start_s)
            identity = _identity_of(process, name)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return cls(process, identity, url)

    async def wait(self) -> int:
        """Wait for the end of the process; returns its exit code, or the negative number of a signal."""
        return await self._process.wait()

    async def stop(self, grace_s: float) -> None:
        """Stop the process gracefully; by SIGKILL after the grace period, in seconds."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


def _identity_of(process: asyncio.subprocess.Process, name: str) -> Identity:
    identity = Identity.of(process.pid)
    if identity is None:
        raise ChildError(f"{name}: ended as soon as it had started")
    return identity


async def _report_of(process: asyncio.subprocess.Process, name: str, start_s: float) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(start_s):
            line = await process.stdout.readline()
            if not line:
                code = await process.wait()
                raise ChildError(f"{name}: ended with exit code {code} before it was ready")
        report = msgspec.json.decode(line, type=Report)
    except TimeoutError:
        raise ChildError(f"{name}: was not ready within {start_s:g} s") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ChildError(f"{name}: said {line[:80]!r} instead of its URL") from error
    if report.url is None:
        raise ChildError(f"{name}: {report.error}")
    return report.url


def _import_path() -> str:
    """Import path for children, as in this process; an empty entry of `sys.path` is the current folder."""
    return os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
