"""Changes of replicas that a gateway logs."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kwiken.runtime.base.log_events import EVENT, Event
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.gateway.observation.replica_watch import ReplicaChanges, watch_replicas
from kwiken.runtime.wire.transport.base import Replica


def replica(name: str, *, out: str | None = None) -> ReplicaState:
    state = ReplicaState(Replica(name, "n", "http://127.0.0.1:1"))
    state.ejected, state.trouble = out is not None, out
    return state


def events(changes: ReplicaChanges, *replicas: ReplicaState) -> list[Event]:
    return [change.event for change in changes.look({"s": replicas})]


def test_a_replica_that_dies_and_comes_back_is_told_of_once_each() -> None:
    changes = ReplicaChanges()
    well, ill = replica("a"), replica("b", out="no connection: Connection refused")
    assert events(changes, well, replica("b")) == []
    (change,) = changes.look({"s": [well, ill]})
    assert change == (
        Event.REPLICA_OUT,
        "stage 's': replica b is left out: no connection: Connection refused",
    )
    assert events(changes, well, ill) == []
    assert events(changes, well, replica("b")) == [Event.REPLICA_BACK]


def test_a_stage_without_an_answering_replica_is_told_of() -> None:
    changes = ReplicaChanges()
    assert events(changes, replica("a")) == []
    assert events(changes, replica("a", out="hung")) == [Event.REPLICA_OUT, Event.STAGE_OUT]
    assert events(changes, replica("a")) == [Event.REPLICA_BACK, Event.STAGE_BACK]
    assert events(changes) == [Event.REPLICA_GONE, Event.STAGE_OUT]
    assert events(changes) == []
    assert events(changes, replica("c")) == [Event.STAGE_BACK]


def test_what_is_wrong_at_the_first_look_is_told_of() -> None:
    assert events(ReplicaChanges(), replica("a"), replica("b", out=None)) == []
    assert events(ReplicaChanges(), replica("a"), replica("b", out="x")) == [Event.REPLICA_OUT]
    assert events(ReplicaChanges()) == [], "a gateway that waits for its first replicas"


async def test_the_watch_logs_each_change_with_its_event(caplog: pytest.LogCaptureFixture) -> None:
    states = [replica("a", out="gone")]
    watching = asyncio.create_task(watch_replicas(lambda: {"s": states}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    (record,) = caplog.records
    assert (record.levelno, record.__dict__[EVENT]) == (logging.WARNING, "replica_out")
    assert record.getMessage() == "stage 's': replica a is left out: gone"
