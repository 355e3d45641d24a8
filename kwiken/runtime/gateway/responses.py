"""Responses of the gateway: answers, and errors with their status and reason."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final, NamedTuple

import msgspec

from kwiken.base.errors import DefinitionError, InputError, KwikenError
from kwiken.runtime.base.errors import (
    DeadlineError,
    HandlerError,
    OverloadError,
    PlanNotSavedError,
    StoppingError,
    UnavailableError,
)
from kwiken.runtime.engine.executor import Answer
from kwiken.runtime.engine.timing import timing_of
from kwiken.runtime.wire.http_server.json_response import JsonResponse
from kwiken.runtime.wire.transport import wire

RETRY_SOON_S: Final = 1.0
OK: Final = 200
INTERNAL: Final = 500
BAD_GATEWAY: Final = 502
UNAVAILABLE: Final = 503


def answer_of(answer: Answer, *, timing: bool) -> JsonResponse:
    """Response for an answer.

    Args:
        timing: whether the client asked where the time went.
    """
    document: dict[str, Any] = {"answer": answer.value}
    if answer.partial:
        document |= {"partial": True, "utility": round(answer.utility, 6)}
    if timing and answer.record is not None:
        document["timing"] = timing_of(answer.record)
    response = json_response(OK, document)
    if answer.partial:
        response.headers[wire.PARTIAL] = "1"
        response.headers[wire.UTILITY] = f"{answer.utility:.6g}"
    return response


def status_of(error: BaseException) -> int:
    """HTTP status for an error."""
    return _status_of(_worst(_leaves(error)))


def status_sent(error: BaseException | None) -> int | None:
    """HTTP status that a client is sent for an error, None for an answer; None if the client has gone."""
    if error is None:
        return OK
    return None if isinstance(error, asyncio.CancelledError) else status_of(error)


def _status_of(worst: BaseException) -> int:
    return next((status for kind, status in _STATUS if isinstance(worst, kind)), INTERNAL)


class Failure(NamedTuple):
    """Error as a client is told of it, by any protocol.

    Attributes:
        retry_after_s: seconds after which a retry may succeed; None where none is advised.
        is_overload: whether the request was turned away because there is too much to do.
        is_own: whether the gateway itself is at fault, and not a handler, a replica or the client.
    """

    status: int
    reason: str
    retry_after_s: float | None = None
    is_overload: bool = False
    is_own: bool = False


def judge(error: BaseException) -> Failure:
    """Status and message of an error for the client."""
    worst = _worst(_leaves(error))
    status = _status_of(worst)
    if status == INTERNAL and not isinstance(worst, HandlerError):
        return Failure(status, f"{type(worst).__name__}: {worst}", is_own=True)
    reason = _message(error) if status == BAD_GATEWAY else str(worst)
    if status != UNAVAILABLE:
        return Failure(status, reason)
    if isinstance(worst, OverloadError):
        return Failure(status, reason, worst.retry_after_s, is_overload=not isinstance(worst, StoppingError))
    return Failure(
        status, reason, RETRY_SOON_S, is_overload=isinstance(worst, UnavailableError) and worst.full
    )


def failure_of(error: BaseException) -> JsonResponse:
    """Response for an error."""
    found = judge(error)
    response = failure(found.status, found.reason)
    if found.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(found.retry_after_s)))
    return response


# The first match counts; the last entry is the base class of all.
_STATUS: Final = (
    (HandlerError, INTERNAL),
    (DeadlineError, 504),
    (OverloadError, UNAVAILABLE),
    (UnavailableError, UNAVAILABLE),
    (PlanNotSavedError, 507),
    (InputError, 400),
    (DefinitionError, 400),
    (KwikenError, BAD_GATEWAY),
)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _message(error: BaseException) -> str:
    """Complete message of an error; the messages of a group's errors follow the group's own."""
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: {'; '.join(_message(inner) for inner in error.exceptions)}"
    return str(error)


def _worst(leaves: list[BaseException]) -> BaseException:
    """Most informative of several errors: a handler's own, then a missed deadline, then the first."""
    for kind in (HandlerError, DeadlineError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def failure(status: int, message: str, **headers: str) -> JsonResponse:
    """Response with an error's message."""
    response = json_response(status, {"error": message})
    response.headers.update(headers)
    return response


def json_response(status: int, value: Any) -> JsonResponse:
    """Response with a value as JSON."""
    return JsonResponse(status, msgspec.json.encode(value))
