"""Where notes go: the observers that a process' specification asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kwiken.otel.write import Observer
from kwiken.service import Service

if TYPE_CHECKING:
    from kwiken.runtime.process.server_process import GatewaySpec, ReplicaSpec
    from kwiken.runtime.replica import CallObserver

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


@contextlib.contextmanager
def request_observer(spec: GatewaySpec, service: Service) -> Iterator[Observer | None]:
    """The gateway's observer, flushed at the end; None where no spans are wanted.

    Raises:
        InputError: when the folder cannot be written, or the endpoint is none.
    """
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    from kwiken.otel.write import make_observer

    traces = Path(spec.traces) if spec.traces is not None else None
    observer = make_observer(service.name, traces=traces, otlp=spec.otlp)
    with Losses("gateway", observer.counts).told(), contextlib.closing(observer):
        yield observer


@contextlib.contextmanager
def replica_observer(spec: ReplicaSpec, service: Service) -> Iterator[CallObserver | None]:
    """A replica's observer, flushed at the end; None where no spans are wanted.

    Raises:
        InputError: when the folder cannot be written, or the endpoint is none.
    """
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    from kwiken.otel.write import ServerSpans

    traces = Path(spec.traces) if spec.traces is not None else None
    spans = ServerSpans(
        service.name, spec.stage, spec.replica or spec.stage, spec.node, traces=traces, otlp=spec.otlp
    )
    with Losses(spec.replica or spec.stage, spans.counts).told(), contextlib.closing(spans):
        yield spans
