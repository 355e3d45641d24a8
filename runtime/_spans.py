"""Where notes go: the observers that a process' specification asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kwiken import Service
from otel import Observer, RequestRecord

if TYPE_CHECKING:
    from runtime._process import GatewaySpec, ReplicaSpec
    from runtime._replica import CallObserver

LOG = logging.getLogger("kwiken.spans")
LOOK_S: Final = 5.0
MORE: Final = 10


class Counts(Protocol):
    """What became of the notes (`otel.SpanCounts`)."""

    @property
    def dropped(self) -> int:
        """Notes refused because too many were waiting."""

    @property
    def lost_lines(self) -> int:
        """Lines that could not be written."""

    @property
    def last_error(self) -> str | None:
        """Why not."""


class Losses:
    """Says that spans are lost, each time that they are ten times as many: a full disk must not go unnoticed.

    Args:
        name: whose spans they are.
        counts: what became of the notes until now.
    """

    def __init__(self, name: str, counts: Callable[[], Counts]) -> None:
        self._name = name
        self._counts = counts
        self._said = 0

    def look(self) -> None:
        """Say what is lost, if that is news."""
        counts = self._counts()
        lost = counts.lost_lines + counts.dropped
        if lost == 0 or lost < MORE * self._said:
            return
        self._said = lost
        why = counts.last_error if counts.lost_lines else "more of them than can be written"
        LOG.warning("%s: traces are incomplete, %d notes are lost: %s", self._name, lost, why)

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Look again and again, and once more at the end."""
        looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield
        finally:
            looking.cancel()
            self.look()

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()


class Weighed:
    """An `Observer` that notes what requests cost this process: its CPU time since the last one ended.

    Much of it went into others that are still under way, so one request's says little. But all that was burnt
    between two of them is in those that ended meanwhile, so the mean of many is a request's cost, and how it
    changes with the load can be seen. The first after a pause bears what the idle process did.

    Args:
        observer: that takes the notes.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._weighed_ns: int | None = None

    def request_finished(self, record: RequestRecord) -> None:
        """Weigh and hand on. The first request only starts the scales: what came before it is start-up."""
        now_ns = time.thread_time_ns()
        if self._weighed_ns is not None:
            record.busy_ms = (now_ns - self._weighed_ns) / 1e6
        self._weighed_ns = now_ns
        self._observer.request_finished(record)


@contextlib.contextmanager
def request_observer(spec: GatewaySpec, service: Service) -> Iterator[Observer | None]:
    """The gateway's observer, flushed at the end; None where no spans are wanted.

    Raises:
        InputError: when the folder cannot be written, or the endpoint is none.
    """
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    from otel import make_observer

    traces = Path(spec.traces) if spec.traces is not None else None
    observer = make_observer(service.name, traces=traces, otlp=spec.otlp)
    with Losses("gateway", observer.counts).told(), contextlib.closing(observer):
        yield Weighed(observer)


@contextlib.contextmanager
def replica_observer(spec: ReplicaSpec, service: Service) -> Iterator[CallObserver | None]:
    """A replica's observer, flushed at the end; None where no spans are wanted.

    Raises:
        InputError: when the folder cannot be written, or the endpoint is none.
    """
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    from otel import ServerSpans

    traces = Path(spec.traces) if spec.traces is not None else None
    spans = ServerSpans(
        service.name, spec.stage, spec.replica or spec.stage, spec.node, traces=traces, otlp=spec.otlp
    )
    with Losses(spec.replica or spec.stage, spans.counts).told(), contextlib.closing(spans):
        yield spans
