"""Which requests a killed gateway may lose: those in it or on their way to it, and no later one."""

from __future__ import annotations

import grpc
import pytest

from tests.support.faults.matrix.clients import HUNG_UP, NOT_SENT, OK, Ended, Kill, racks_text

KILL = Kill(frozenset({7}), at=10.0, up=13.0)
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        (Ended(7, HUNG_UP, at=9.9), True),
        (Ended(8, HUNG_UP, at=10.01), True),  # sent on the old connection
        (Ended(6, HUNG_UP, at=9.9), False),  # answered or lost before
        (Ended(8, HUNG_UP, at=13.1), False),
        (Ended(7, "DEADLINE_EXCEEDED ", at=9.9), False),
        (Ended(8, "503 overloaded", at=10.01), False),
        (Ended(7, OK, at=9.9), False),
    ],
)
def test_a_kill_ends_what_is_in_the_gateway_or_on_its_way(request_: Ended, may: bool) -> None:
    assert KILL.ended(request_) is may


@pytest.mark.parametrize(
    "details",
    [
        "Stream removed (Socket closed)",
        "Stream removed (recvmsg:Connection reset by peer (104))",
        "Stream removed (sendmsg: Connection reset by peer (104))",
        "Stream removed (sendmsg: Broken pipe (32))",
        "sendmsg: Broken pipe (32)",
        "GOAWAY received",
        "Socket closed",
    ],
)
def test_a_connection_that_ended_is_told_by_every_text_of_grpcs_core(details: str) -> None:
    assert racks_text(UNAVAILABLE, details) == HUNG_UP


def test_other_statuses_are_no_end_of_a_connection() -> None:
    refused = "failed to connect to all addresses; last error: recvmsg:Connection reset by peer (104)"
    assert racks_text(UNAVAILABLE, refused) == NOT_SENT
    assert racks_text(UNAVAILABLE, "stage 'look': connection closed").startswith("UNAVAILABLE stage")
    assert racks_text(grpc.StatusCode.INTERNAL, "Stream removed").startswith("INTERNAL")
