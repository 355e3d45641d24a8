"""Statuses of calls as errors: the table of `docs/operate/grpc.md`, case by case."""

from __future__ import annotations

import msgspec
import pytest
from grpc import StatusCode

from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.wire.grpc.statuses import Status, failure_of

FIGURES = {"kw-busy-ms": "1", "kw-inflight": "1", "kw-latency-ms": "1"}
REPORT = msgspec.msgpack.encode({"kind": "ValueError", "error": "told to fail"})
UNCONNECTED = "failed to connect to all addresses; last error: ipv4:127.0.0.1:1: Connection refused"


@pytest.mark.parametrize(
    ("status", "expected", "message"),
    [
        (
            Status(StatusCode.UNAVAILABLE, "starting", {"kw-refused": "1"}),
            RefusedError,
            "UNAVAILABLE: starting",
        ),
        (Status(StatusCode.RESOURCE_EXHAUSTED, "64", {"kw-refused": "full"}), RefusedError, "EXHAUSTED: 64"),
        (Status(StatusCode.FAILED_PRECONDITION, "s", {"kw-refused": "1"}), RefusedError, "PRECONDITION: s"),
        (Status(StatusCode.DEADLINE_EXCEEDED, "", FIGURES), DeadlineError, "dropped the call past"),
        (Status(StatusCode.UNKNOWN, "x", FIGURES, REPORT), HandlerError, "ValueError: told to fail"),
        (Status(StatusCode.UNKNOWN, "x", FIGURES, b"\xc1"), LostError, "UNKNOWN in an unknown form"),
        (Status(StatusCode.UNKNOWN, "x", FIGURES), LostError, "UNKNOWN in an unknown form"),
        (Status(StatusCode.UNKNOWN, "x", {}, REPORT), LostError, "UNKNOWN: x"),
        (Status(StatusCode.UNAVAILABLE, UNCONNECTED), RefusedError, "no connection"),
        (Status(StatusCode.UNAVAILABLE, "Socket closed"), LostError, "UNAVAILABLE: Socket closed"),
        (Status(StatusCode.UNIMPLEMENTED, "Method not found!"), RefusedError, "so it is not a replica"),
        (
            Status(StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Received message larger than max (9 vs. 4)"),
            HandlerError,
            "ReplyTooLarge",
        ),
        (Status(StatusCode.RESOURCE_EXHAUSTED, "no room"), LostError, "RESOURCE_EXHAUSTED: no room"),
        (
            Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
            DeadlineError,
            "no answer by the deadline",
        ),
        (Status(StatusCode.CANCELLED, "gone"), LostError, "CANCELLED: gone"),
        (Status(StatusCode.INTERNAL, "odd"), LostError, "INTERNAL: odd"),
    ],
)
def test_each_status_is_one_error(status: Status, expected: type[Exception], message: str) -> None:
    failure = failure_of(status, "s", "r0", early=False)
    assert type(failure) is expected
    assert message in str(failure)
    assert "stage 's'" in str(failure)
    assert getattr(failure, "full", False) is (status.trailing.get("kw-refused") == "full")


@pytest.mark.parametrize("trailing", [{}, FIGURES])
def test_a_deadline_that_has_not_passed_is_no_reason_to_drop_a_call(trailing: dict[str, str]) -> None:
    status = Status(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", trailing)
    assert type(failure_of(status, "s", "r0", early=True)) is LostError


@pytest.mark.parametrize("code", list(StatusCode))
def test_no_status_of_a_stranger_says_that_a_call_did_not_run_but_one(code: StatusCode) -> None:
    """A refused call is sent elsewhere although it may not run twice, so a refusal must be certain."""
    refused = type(failure_of(Status(code, "whatever"), "s", "r0", early=False)) is RefusedError
    assert refused is (code is StatusCode.UNIMPLEMENTED)
