"""Plan store: the file with the plan in force."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kwiken.model.plan.plan import Plan
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import PlanNotSavedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.plan_store import PlanStore
from kwiken.runtime.gateway.control.siblings import NO_SIBLINGS
from kwiken.runtime.gateway.control.steering import SteeredSetting
from kwiken.runtime.gateway.responses import failure_of
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.waiting import until
from tests.support.services.http import plan_for, service


def test_what_is_kept_is_read_and_private(tmp_path: Path) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.save(b'{"a":1}', (1, 2, 3))
    note = kept.read()
    assert note is not None
    assert (bytes(note.plan), note.stamp) == (b'{"a":1}', (1, 2, 3))
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [kept.path]


def full(kept: PlanStore) -> None:
    """Make every write fail, as on a full disk; not by permissions, because tests may run as root."""
    kept.path.with_name(kept.path.name + ".new").mkdir()


def free(kept: PlanStore) -> None:
    kept.path.with_name(kept.path.name + ".new").rmdir()


def test_an_older_note_goes_where_the_newer_one_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.save(b'{"a":1}', None)
    full(kept)
    kept.save(b'{"a":1,"b":2}', None)
    assert kept.read() is None
    assert not kept.path.exists()
    assert "the plan cannot be saved (Is a directory)" in caplog.text
    troubles = [kept.trouble]
    free(kept)
    kept.save(b'{"a":1,"b":2}', None)
    assert [*troubles, kept.trouble] == ["Is a directory", None]
    assert list(tmp_path.iterdir()) == [kept.path]


def test_a_note_that_must_be_written_and_cannot_is_refused_and_the_older_one_stays(tmp_path: Path) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.save(b'{"a":1}', None)
    full(kept)
    with pytest.raises(
        PlanNotSavedError, match=r"a\.plan: the plan cannot be saved there \(Is a directory\)"
    ):
        kept.save(b'{"a":1,"b":2}', None, must=True)
    note = kept.read()
    assert note is not None
    assert bytes(note.plan) == b'{"a":1}'
    assert kept.trouble is None


def test_none_is_written_over_a_plan_where_there_is_no_other_room(tmp_path: Path) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.save(b'{"a":1}', (1, 2, 3))
    full(kept)
    kept.save(b"null", (1, 2, 3))
    note = kept.read()
    assert note is not None
    assert (bytes(note.plan), note.stamp) == (b"null", (1, 2, 3))
    assert kept.trouble is None


def test_what_is_noted_already_needs_no_room(tmp_path: Path) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.save(b'{"a":1}', (1, 2, 3))
    full(kept)
    kept.save(b'{"a":1}', (1, 2, 3))  # as a gateway that takes over does
    assert kept.trouble is None
    assert kept.read() is not None


@pytest.mark.parametrize("text", [b"", b"{", b'{"stamp":null}', b'{"stamp":["a"],"plan":1}', b"\xff" * 99])
def test_a_broken_stored_plan_is_ignored_and_logged(
    text: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    kept.path.write_bytes(text)
    assert kept.read() is None
    assert "cannot be read" in caplog.text


async def put(control: Control, plan: Plan | None, **headers: str) -> Any:
    async def read() -> bytes:
        return msgspec.json.encode(plan)

    request: Any = SimpleNamespace(
        method="PUT",
        headers={key.replace("_", "-"): value for key, value in headers.items()},
        read=read,
        rel_url=get().rel_url,
    )
    return await control.plan(request)


async def test_a_plan_that_is_put_and_cannot_be_noted_is_refused_whole(tmp_path: Path) -> None:
    """It would be lost with its gateway. A client that will put it again is served; so is the removal of a plan."""
    executor = executor_of()
    kept = PlanStore(tmp_path / "a.plan")
    control = control_of(executor, kept)
    nobody: Any = None
    assert await put(control, plan_for(after_ms=25.0)) == plan_for(after_ms=25.0)
    full(kept)
    with pytest.raises(PlanNotSavedError):
        await put(control, plan_for(after_ms=50.0625))
    assert executor.plan == plan_for(after_ms=25.0)
    assert (await control.status(nobody))["plan_unkept"] is None
    assert await put(control, plan_for(after_ms=50.0625), kw_keeps="1") == plan_for(after_ms=50.0625)
    assert (await control.status(nobody))["plan_unkept"] == "Is a directory"
    assert await put(control, None) is None
    assert executor.plan is None


def test_a_plan_that_cannot_be_saved_is_refused_with_507() -> None:
    assert failure_of(PlanNotSavedError("no room")).status == 507


def executor_of() -> Executor:
    return Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )


def control_with(kept: PlanStore) -> Control:
    return control_of(executor_of(), kept)


def control_of(executor: Executor, kept: PlanStore) -> Control:
    exchange = Exchange(PlanInForce(executor, "a", kept), NO_SIBLINGS, budget_of(executor), executor.ledger)
    return Control(service, executor, exchange, token="t", status=dict)


def budget_of(executor: Executor) -> SharedBudget:
    return SharedBudget(executor.ledger, "a", 0.0, least=1, first=True)


def steered(epoch: int = 1, **plans: Any) -> SteeredSetting:
    trial = plans.get("trial")
    return SteeredSetting(
        plan=plans.get("plan"),
        trial=trial,
        trial_share=0.0 if trial is None else 0.1,
        control_share=0.05,
        epoch=epoch,
    )


def agree(one: Control, other: Control) -> None:
    """Compare plans both ways, as gateways do every second."""
    one.plans.take(other.plans.offer())
    other.plans.take(one.plans.offer())


@pytest.mark.parametrize("act", ["apply", "remove", "hold"])
async def test_a_persons_act_at_one_gateway_outlasts_what_an_autopilot_puts_at_another(
    tmp_path: Path, act: str
) -> None:
    """Between the act and the moment at which the others read of it, the autopilot may reach another gateway."""
    kept = PlanStore(tmp_path / "a.plan")
    first, second = control_with(kept), control_with(kept)
    before, wanted = plan_for(after_ms=25.0), plan_for(after_ms=50.0)
    for control in (first, second):
        control.plans.steer(steered(plan=before))
    if act == "hold":
        await first.hold(get())
        wanted = before
    else:
        first.plans.apply(msgspec.json.encode(wanted if act == "apply" else None), where="plan")
    second.plans.steer(steered(plan=before, trial=plan_for(after_ms=75.0)))  # has not read of the act
    agree(first, second)
    for control in (first, second):
        assert control.plans.author == "person"
        assert (await control.plan(get())) == (None if act == "remove" else wanted)
        assert (await control.status(get()))["trial"] is None
    await second.resume(get())
    agree(first, second)
    assert [first.plans.author, second.plans.author] == ["autopilot", "autopilot"]
    # A gateway that starts anew goes on with the same revision.
    later = control_with(kept)
    saved = later.plans.saved()
    assert saved is not None
    later.plans.resume(saved)
    assert (later.plans.revision, later.plans.author) == (second.plans.revision, "autopilot")


async def test_a_plan_that_could_not_be_saved_is_saved_once_there_is_room(tmp_path: Path) -> None:
    kept = PlanStore(tmp_path / "a.plan")
    executor = executor_of()
    exchange = Exchange(PlanInForce(executor, "a", kept), NO_SIBLINGS, budget_of(executor), executor.ledger)
    full(kept)
    exchange.plans.apply(plan_for().to_json().encode(), where="plan")
    troubles = [exchange.plans.unsaved_reason]
    free(kept)
    rounds = asyncio.create_task(exchange.run())
    await until(lambda: exchange.plans.unsaved_reason is None)
    await cancel_and_wait([rounds])
    assert (troubles, kept.read() is not None) == (["Is a directory"], True)


def get() -> Any:
    return SimpleNamespace(method="GET", rel_url=SimpleNamespace(query={"alone": "1"}))
