"""Where notes go: the observers that a process' specification asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwiken import Service
from otel import Observer

if TYPE_CHECKING:
    from runtime._process import GatewaySpec, ReplicaSpec
    from runtime._replica import CallObserver


@contextlib.contextmanager
def request_observer(spec: GatewaySpec, service: Service) -> Iterator[Observer | None]:
    """The gateway's observer, flushed at the end; None where no spans are wanted."""
    del service
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    raise NotImplementedError


@contextlib.contextmanager
def replica_observer(spec: ReplicaSpec, service: Service) -> Iterator[CallObserver | None]:
    """A replica's observer, flushed at the end; None where no spans are wanted."""
    del service
    if spec.traces is None and spec.otlp is None:
        yield None
        return
    raise NotImplementedError
