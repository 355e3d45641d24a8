"""Span export of a process: creates the observers that its specification asks for, and reports losses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kwiken.model.service.service import Service
from kwiken.otel.write.records import Observer
from kwiken.runtime.base.abandoned import ended_within
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.process.specs import GatewaySpec, ReplicaSpec

if TYPE_CHECKING:
    from kwiken.runtime.replica.stage_calls import CallObserver

LOG = logging.getLogger("kwiken.spans")
CHECK_S: Final = 5.0  # interval of checks for lost spans
LAST_S: Final = 2.0  # longest time for the last spans to reach a collector
REPORT_FACTOR: Final = 10  # factor between two reported numbers of lost spans


class SpanCounters(Protocol):
    """Numbers of records by outcome (`kwiken.otel.SpanCounts`)."""

    @property
    def dropped(self) -> int:
        """Records refused because too many were waiting."""

    @property
    def lost_lines(self) -> int:
        """Number of lines that could not be written."""

    @property
    def last_error(self) -> str | None:
        """Reason of the last failed write; None without one."""


class Closable(Protocol):
    """Writes spans until it is closed."""

    def close(self) -> object:
        """Write what is queued, and stop."""


class LossReporter:
    """Warns that spans are lost, each time their number has grown tenfold: a full disk must not go unnoticed.

    Args:
        name: name of the process in the message.
    """

    def __init__(self, name: str, counts: Callable[[], SpanCounters]) -> None:
        self._name = name
        self._counts = counts
        self._said = 0

    def look(self) -> None:
        """Log the number of lost records if it has grown enough."""
        counts = self._counts()
        lost = counts.lost_lines + counts.dropped
        if lost == 0 or lost < REPORT_FACTOR * self._said:
            return
        self._said = lost
        why = counts.last_error if counts.lost_lines else "more of them than can be written"
        LOG.warning(
            "%s: traces are incomplete, %d records are lost: %s",
            self._name,
            lost,
            why,
            extra=about(Event.TRACES_INCOMPLETE),
        )

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Check at intervals, and once more at the end."""
        looking = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield
        finally:
            looking.cancel()
            self.look()

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            self.look()


@contextlib.contextmanager
def request_observer(spec: GatewaySpec, service: Service) -> Iterator[Observer | None]:
    """Observer of a gateway, flushed at the end; None if no spans are wanted.

    Raises:
        InputError: the folder cannot be written, or the endpoint is invalid.
    """
    if (spec.traces is None and spec.otlp is None) or spec.trace == "off":
        yield None
        return
    from kwiken.otel.write.observer import make_observer

    traces = Path(spec.traces) if spec.traces is not None else None
    observer = make_observer(service.name, traces=traces, otlp=spec.otlp)
    with LossReporter("gateway", observer.counts).told(), closing(observer, "gateway", spec):
        yield observer


@contextlib.contextmanager
def replica_observer(spec: ReplicaSpec, service: Service) -> Iterator[CallObserver | None]:
    """Observer of a replica, flushed at the end; None if no spans are wanted.

    Raises:
        InputError: the folder cannot be written, or the endpoint is invalid.
    """
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    from kwiken.otel.write.observer import ServerSpans

    traces = Path(spec.traces) if spec.traces is not None else None
    spans = ServerSpans(
        service.name,
        spec.stage,
        spec.replica or spec.stage,
        spec.node,
        protocol="http",
        traces=traces,
        otlp=spec.otlp,
    )
    name = spec.replica or spec.stage
    with LossReporter(name, spans.counts).told(), closing(spans, name, spec):
        yield spans


@contextlib.contextmanager
def closing(spans: Closable, name: str, spec: GatewaySpec | ReplicaSpec) -> Iterator[None]:
    """Close at the end; a collector that hangs then loses the last spans, and does not delay the end."""
    try:
        yield
    finally:
        if spec.otlp is None:
            spans.close()
        elif not ended_within(spans.close, LAST_S, name="kwiken-spans-end"):
            LOG.warning(
                "%s: traces are incomplete: the collector did not take the last spans within %g s",
                name,
                LAST_S,
                extra=about(Event.TRACES_INCOMPLETE),
            )
