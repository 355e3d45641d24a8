"""Byte budget of the servers, as a share of the memory limit."""

from __future__ import annotations

from kwiken.runtime.wire.http_server.byte_budget import MAX_BODIES, MIN_BODIES, ByteBudget, share_of_memory


def test_bytes_are_taken_while_there_is_room_for_all_of_them() -> None:
    budget = ByteBudget(10)
    assert budget.take(10)
    assert not budget.take(1)
    assert budget.take(0)
    budget.give(4)
    assert (budget.left, budget.take(5), budget.take(4)) == (4, False, True)


def test_a_share_has_room_for_some_bodies() -> None:
    assert share_of_memory(0.0) == MIN_BODIES
    assert share_of_memory(1e9) == MAX_BODIES
