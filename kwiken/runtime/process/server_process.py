"""Server process: its event loop, its signals, and its ties to a supervisor.

A supervisor starts `python -m kwiken.runtime.process.server_process SPEC`. The process writes one line of
JSON to its standard output when it is ready, or when it cannot start, and ends when its standard input
closes, so that a killed supervisor leaves no process behind.
"""

from __future__ import annotations

import kwiken.runtime.process.lean_msgspec  # noqa: F401 - before anything imports msgspec

# isort: split
import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about, log_event
from kwiken.runtime.base.target import load_target
from kwiken.runtime.process.log_limits import log_loop_error, set_up_logs
from kwiken.runtime.process.malloc import give_memory_back, return_freed, trim
from kwiken.runtime.process.specs import Announce, ReplicaSpec, Report, Spec
from kwiken.runtime.replica.stage_runner import MeteredThreads

if TYPE_CHECKING:
    pass

LOG = logging.getLogger("kwiken.process")
PR_SET_PDEATHSIG: Final = 1
PR_SET_NAME: Final = 15
BAD_INPUT: Final = 2  # exit code
MAX_THREADS: Final = 8
MAX_LINE: Final = 1500  # characters
MAX_FILES: Final = 65_536


def run(main: Callable[[asyncio.Event], Awaitable[None]], spec: Spec) -> None:
    """Run a server to its end, under uvloop where it is installed.

    Args:
        main: server; gets an event that is set when the process is told to stop (SIGTERM, SIGINT).
    """
    give_memory_back()
    _open_more_files()
    set_up_logs(spec.log_format, process_name(spec), level=spec.log_level)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's core writes lines of its own to stderr
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_with_signals(main))


def run_server(spec: Spec, service: Service, announce: Announce) -> None:
    """Serve in this process until it is told to stop, then stop gracefully.

    Args:
        announce: called with the URL once the server is ready, if the log is for people; a log in JSON has
            a line of its own.

    Raises:
        KwikenError: the server cannot be run as specified.
    """

    def ready(url: str) -> None:
        if spec.log_format == "json":
            log_event(LOG, Event.SERVING, f"{service.name} at {url}")
        else:
            announce(url)

    run(lambda stop: serve(spec, service, stop, ready), spec)


def process_name(spec: Spec) -> str:
    """Name of a server process in its log."""
    return spec.replica or spec.stage if isinstance(spec, ReplicaSpec) else spec.name or "gateway"


def _open_more_files() -> None:
    """Raise the limit of open files, which includes sockets: the usual 1,024 are few for a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _with_signals(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    loop.set_default_executor(MeteredThreads(max_workers=MAX_THREADS, thread_name_prefix="kwiken"))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    returning = loop.create_task(return_freed())
    try:
        await main(stop)
    finally:
        await cancel_and_wait((returning,))


async def serve(spec: Spec, service: Service, stop: asyncio.Event, announce: Announce) -> None:
    """Serve until told to stop, then stop gracefully.

    Args:
        stop: set when the process is told to stop.
        announce: called with the URL once the server is ready.

    Raises:
        KwikenError: the server cannot be run as specified.
    """

    def ready(url: str) -> None:
        _freeze_startup_objects()
        trim()  # a start leaves half a megabyte behind
        announce(url)

    if isinstance(spec, ReplicaSpec):
        await _serve_replica(spec, service, stop, ready)
    else:
        from kwiken.runtime.process.gateway_process import serve_gateway

        await serve_gateway(spec, service, stop, ready)


def _freeze_startup_objects() -> None:
    """Exclude all present objects from full garbage collections.

    Modules, plans and accounts stay for good. Scanning all of them (45,000 objects in a gateway) blocked the
    event loop for 25 to 40 ms every 1,500 requests or so, and with it each request in flight.
    """
    gc.collect()
    gc.freeze()


async def _serve_replica(
    spec: ReplicaSpec, service: Service, stop: asyncio.Event, announce: Announce
) -> None:
    from kwiken.runtime.metrics.page import MetricsPage
    from kwiken.runtime.metrics.push import pushed
    from kwiken.runtime.process.span_export import replica_observer
    from kwiken.runtime.replica.metrics import ReplicaMetrics
    from kwiken.runtime.replica.server import ReplicaServer
    from kwiken.runtime.wire.tls.certificates import Certificates

    tls = Certificates(spec.tls) if spec.tls is not None else None
    with replica_observer(spec, service) as observer:
        server = ReplicaServer(
            service,
            spec.stage,
            host=spec.host,
            port=spec.port,
            max_inflight=spec.max_inflight,
            max_bodies=spec.max_bodies,
            observer=observer,
            tls=tls,
        )
        metrics = ReplicaMetrics(service.name, server.calls, name=spec.replica or spec.stage, node=spec.node)
        if spec.metrics != "off":
            server.show(MetricsPage(metrics.shown))
        async with pushed(spec.metrics_otlp, lambda: metrics.resource, metrics.collect):
            watching = asyncio.create_task(tls.watch()) if tls is not None else None
            try:
                await server.start()
                announce(server.url)
                await stop.wait()
            finally:
                await server.stop(grace_s=spec.grace_s)
                if watching is not None:
                    await cancel_and_wait((watching,))


def child(text: str) -> int:
    """Run a child process to its end.

    Returns:
        Exit code of the process.
    """
    line = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of handlers must not mix with what the supervisor reads
    parent = os.getppid()
    ready = False

    def say(report: Report) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(msgspec.json.encode(report).decode(), file=line, flush=True)

    def announce(url: str) -> None:
        nonlocal ready
        ready = True
        say(Report(url=url))

    async def main(stop: asyncio.Event) -> None:
        async with _tied_to_stdin(stop):
            await serve(spec, service, stop, announce)

    try:
        spec = msgspec.json.decode(text, type=Spec)
        _die_with(parent)
        _name(spec)
        service = load_target(spec.target)
        run(main, spec)
    except Exception as error:
        if ready or os.environ.get("KWIKEN_TRACEBACK") == "1":  # else the supervisor reports it in one line
            LOG.exception("failed", extra=about(Event.PROCESS_FAILED))
        expected = isinstance(error, KwikenError | msgspec.MsgspecError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        say(Report(error=reason[:MAX_LINE]))
        return BAD_INPUT if expected else 1
    return 0


@contextlib.asynccontextmanager
async def _tied_to_stdin(stop: asyncio.Event) -> AsyncIterator[None]:
    """Set the event when standard input closes, whose other end the supervisor holds."""

    class Tie(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            del exc
            stop.set()

    transport, _ = await asyncio.get_running_loop().connect_read_pipe(Tie, sys.stdin)
    try:
        yield
    finally:
        transport.close()


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its parent, on Linux.

    A closed standard input is only noticed by a running event loop; a paused or stuck child would stay.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


def _name(spec: Spec) -> None:
    """Set the name of the process in process lists."""
    if sys.platform != "linux":
        return
    label = f"kw-{spec.stage}" if isinstance(spec, ReplicaSpec) else "kw-gateway"
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_NAME, label.encode()[:15])


if __name__ == "__main__":
    sys.exit(child(sys.argv[1]))
