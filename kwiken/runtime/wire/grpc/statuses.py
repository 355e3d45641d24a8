"""Statuses of calls as the runtime's errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from grpc import StatusCode, aio

from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.wire.grpc.settings import FAILURE
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.call_bodies import failure_of_handler, is_replicas

MAX_DETAILS: Final = 300  # characters
# gRPC gives one status to a call that was never sent and to one whose connection was lost; only its details
# tell them apart. Other details count as a loss, after which only a call that may run twice is sent again.
NEVER_SENT: Final = ("failed to connect to all addresses", "errors resolving ", "empty address list")
TOO_LONG: Final = "CLIENT: Received message larger than max"


class Status(NamedTuple):
    """Status of a call other than OK.

    Attributes:
        trailing: trailing metadata that is text, by name.
        report: report of a handler's error, encoded; None for none.
    """

    code: StatusCode
    details: str = ""
    trailing: Mapping[str, str] = {}
    report: bytes | None = None


def status_of(error: aio.AioRpcError) -> Status:
    """Status that gRPC raised."""
    trailing = error.trailing_metadata() or ()
    reports = (value for name, value in trailing if name == FAILURE and isinstance(value, bytes))
    return Status(
        error.code(),
        (error.details() or "")[:MAX_DETAILS],
        {name: value for name, value in trailing if isinstance(value, str)},
        next(reports, None),
    )


def failure_of(status: Status, stage: str, replica: str, *, early: bool) -> Exception:
    """Error that a status stands for.

    There are five cases:
    1. The status is a replica's own.
    2. The call was never sent, or its receiver is no replica.
    3. The answer is too long.
    4. The deadline passed here.
    5. Anything else: the call was sent, and whether it ran is unknown.

    Args:
        early: whether the deadline of the call is still to come.
    """
    at = f"stage {stage!r}: replica {replica}"
    code, details = status.code, status.details
    if wire.REFUSED in status.trailing or is_replicas(status.trailing):  # 1.
        return _told(status, stage, at, early=early)
    if code is StatusCode.UNAVAILABLE and details.startswith(NEVER_SENT):  # 2.
        return RefusedError(f"{at}: no connection: {details}")
    if code is StatusCode.UNIMPLEMENTED:
        return RefusedError(f"{at}: answered {code.name}, so it is not a replica")
    if code is StatusCode.RESOURCE_EXHAUSTED and TOO_LONG in details:  # 3.
        return HandlerError(stage, "ReplyTooLarge", f"{at}: {details}")
    if code is StatusCode.DEADLINE_EXCEEDED and not early:  # 4.
        return DeadlineError(f"{at}: no answer by the deadline")
    return LostError(f"{at}: {code.name}: {details}")  # 5.


def _told(status: Status, stage: str, at: str, *, early: bool) -> Exception:
    """Error that a replica told of.

    There are three cases:
    1. It refused the call, which did not run.
    2. It dropped the call past its deadline.
    3. The handler raised, or the call had an invalid input.
    """
    if wire.REFUSED in status.trailing:  # 1.
        full = status.trailing[wire.REFUSED] == wire.FULL
        return RefusedError(f"{at}: refused with {status.code.name}: {status.details}", full=full)
    if status.code is StatusCode.DEADLINE_EXCEEDED:  # 2.
        if early:
            return LostError(f"{at}: dropped the call before its deadline")
        return DeadlineError(f"{at}: dropped the call past its deadline")
    failure = failure_of_handler(stage, status.report) if status.report is not None else None  # 3.
    return failure or LostError(f"{at}: answered {status.code.name} in an unknown form")
