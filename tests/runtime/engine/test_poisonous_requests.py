"""Poisonous requests: two replicas at most are lost to one if a third is the last, and its error says so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.errors import AllFailedError, DeadlineError, LostError
from kwiken.runtime.gateway.responses import failure_of
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.testing.virtual_loop import simulate
from tests.support.runtime.replicas import (
    Script,
    after,
    endow,
    executor_of,
    one_stage,
    plan_of,
    raising,
    service_of,
)

CLUE = "this request may crash replicas: 2 were lost or hung while serving it"
KEPT = f"{CLUE}, so it was not sent to the last one"


def run(service: Service, script: Script, *, copy_ms: float | None = None) -> Any:
    """One request, with a copy where that is wanted."""

    async def main() -> Any:
        executor = executor_of(service, script)
        if copy_ms is not None:
            executor.apply(plan_of(service, {"s": Reissue(after_ms=copy_ms, fraction=0.1)}))
            endow(executor)
        return (await executor.run("q")).value

    return simulate(main)


def lost(replica: Replica, call: Call) -> Any:
    """The primary after 0.5 s, a copy at the same time."""
    return raising(LostError(f"{replica.id} hung up"), 0.4 if call.attempt else 0.5)


def test_a_request_that_lost_two_replicas_is_kept_from_the_last() -> None:
    script = Script(lost)
    with pytest.raises(AllFailedError, match=KEPT):
        run(one_stage(replicas=3), script, copy_ms=100)
    assert len({entry.replica for entry in script.sent}) == len(script.sent) == 2


def test_a_poisonous_request_is_tried_again_while_other_replicas_are_left() -> None:
    script = Script(lost)
    with pytest.raises(AllFailedError, match="3 were lost or hung while serving it"):
        run(one_stage(replicas=4), script, copy_ms=100)
    assert len(script.sent) == 3


def test_one_loss_proves_nothing() -> None:
    script = Script(lambda r, call: after(0.1) if call.attempt else lost(r, call))
    assert run(one_stage(replicas=2), script) == "ok"


def test_a_call_and_its_retry_lost_say_what_is_known() -> None:
    script = Script(lost)
    with pytest.raises(AllFailedError, match=CLUE) as caught:
        run(one_stage(replicas=3), script)
    assert len(script.sent) == 2
    reason = msgspec.json.decode(failure_of(caught.value).body)["error"]
    assert reason.startswith(f"stage 's': every attempt failed; {CLUE}: s-")
    assert reason.count("hung up") == 2


@pytest.mark.parametrize(("replicas", "retries"), [(3, 1), (4, 2)])
def test_shards_of_one_request_count_together(replicas: int, retries: int) -> None:
    """The second shard's call is lost after the first shard's, on another replica."""

    async def behave(replica: Replica, call: Call) -> Any:
        if call.attempt or call.stage == "end":
            return "ok"
        return await raising(LostError(f"{replica.id} hung up"), 0.1 if call.shard == 0 else 0.3)

    script = Script(behave)
    service = service_of(
        Stage(name="s", replicas=replicas, fanout=2, idempotent=True), Stage(name="end", after=("s",))
    )
    if retries == 2:
        assert run(service, script) == "ok"
    else:
        with pytest.raises(LostError, match=KEPT):
            run(service, script)
    assert len({entry.replica for entry in script.of("s") if not entry.call.attempt}) == 2
    assert sum(entry.call.attempt > 0 for entry in script.of("s")) == retries


def test_a_request_that_two_replicas_hang_on_is_kept_from_the_last() -> None:
    script = Script(lambda *_: after(100.0))
    with pytest.raises(DeadlineError, match=f"no answer from .* within 2000 ms; {KEPT}"):
        run(one_stage(replicas=3, timeout_ms=2000), script, copy_ms=100)
    assert len(script.sent) == 2


def test_a_slow_request_with_a_fresh_copy_is_no_poison() -> None:
    """The copy has waited for too short a time to count against its replica."""
    script = Script(lambda _, call: after(0.01) if call.attempt == 2 else after(100.0))
    assert run(one_stage(replicas=3, timeout_ms=2000), script, copy_ms=900) == "ok"


def test_a_replica_on_trial_that_fails_again_proves_nothing() -> None:
    """Two of three are broken for good: each trial of one costs a request a retry, and never the answer."""

    async def main() -> None:
        async def behave(replica: Replica, _: Call) -> Any:
            if replica.id != "s-2":
                raise LostError(f"{replica.id} hung up")
            return await after(0.01)

        script = Script(behave)
        executor = executor_of(one_stage(replicas=3), script)
        endow(executor)
        failures = 0
        for _ in range(2000):
            try:
                await executor.run("q")
            except AllFailedError:
                failures += 1
        tried = sum(entry.end == "LostError" for entry in script.sent)
        assert tried > 10
        assert failures <= 1  # the first, which finds both

    simulate(main)
