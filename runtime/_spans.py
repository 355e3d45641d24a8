"""Where notes go: the observers that a process' specification asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kwiken import Service
from otel import Observer

if TYPE_CHECKING:
    from runtime._process import GatewaySpec, ReplicaSpec
    from runtime._replica import CallObserver


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
    with contextlib.closing(make_observer(service.name, traces=traces, otlp=spec.otlp)) as observer:
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
    from otel import ServerSpans

    traces = Path(spec.traces) if spec.traces is not None else None
    spans = ServerSpans(
        service.name, spec.stage, spec.replica or spec.stage, spec.node, traces=traces, otlp=spec.otlp
    )
    with contextlib.closing(spans) as observer:
        yield observer
