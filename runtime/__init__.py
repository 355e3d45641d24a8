"""The body: executes a service's DAG. The reissue race, the budget ledger, replica choice, transports."""

from __future__ import annotations

from runtime._clock import Clock, SystemClock
from runtime._errors import (
    AllFailedError,
    DeadlineError,
    HandlerError,
    LostError,
    OverloadError,
    RefusedError,
    UnavailableError,
)
from runtime._executor import Answer, Executor
from runtime._local import LocalTransport, local_replicas
from runtime._policy import Limits
from runtime._transport import Call, Replica, Reply, Transport

__all__ = [
    "AllFailedError",
    "Answer",
    "Call",
    "Clock",
    "DeadlineError",
    "Executor",
    "HandlerError",
    "Limits",
    "LocalTransport",
    "LostError",
    "OverloadError",
    "RefusedError",
    "Replica",
    "Reply",
    "SystemClock",
    "Transport",
    "UnavailableError",
    "local_replicas",
]
