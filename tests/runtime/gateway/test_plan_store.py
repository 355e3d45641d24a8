"""Plan store: the file with the plan in force."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kwiken.model.plan.plan import Plan
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import PlanNotSavedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.plan_files import SharedPlan
from kwiken.runtime.gateway.control.plan_revision import PlanRevision
from kwiken.runtime.gateway.control.plan_store import PlanStore
from kwiken.runtime.gateway.control.steering import SteeredSetting
from kwiken.runtime.gateway.responses import failure_of
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
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
        method="PUT", headers={key.replace("_", "-"): value for key, value in headers.items()}, read=read
    )
    return await control.plan(request)


async def test_a_plan_that_is_put_and_cannot_be_noted_is_refused_whole(tmp_path: Path) -> None:
    """It would be lost with its gateway. A client that will put it again is served; so is the removal of a plan."""
    transport = LocalTransport(service)
    replicas = local_replicas(service)
    executor = Executor(service, transport, replicas=replicas, clock=SystemClock(), rng=random.Random(1))
    control = Control(service, executor, token="t", status=dict)
    kept = PlanStore(tmp_path / "a.plan")
    control.save_plan = lambda plan, *, author, revision, must: kept.save(
        plan, None, author=author, revision=revision, must=must
    )
    control.unsaved_reason = lambda: kept.trouble
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


def control_with(kept: PlanStore) -> Control:
    executor = Executor(
        service,
        LocalTransport(service),
        replicas=local_replicas(service),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    control = Control(service, executor, token="t", status=dict)
    control.save_plan = lambda plan, *, author, revision, must: kept.save(
        plan, None, author=author, revision=revision, must=must
    )
    return control


def steered(epoch: int = 1, **plans: Any) -> SteeredSetting:
    trial = plans.get("trial")
    return SteeredSetting(
        plan=plans.get("plan"),
        trial=trial,
        trial_share=0.0 if trial is None else 0.1,
        control_share=0.05,
        epoch=epoch,
    )


def follow(kept: PlanStore, control: Control) -> None:
    """Take over what is in the file, as a gateway that watches it does."""
    note = kept.read()
    assert note is not None
    kept.restore(note, control.adopt)


@pytest.mark.parametrize("act", ["apply", "remove", "hold"])
async def test_a_persons_act_at_one_gateway_outlasts_what_an_autopilot_puts_at_another(
    tmp_path: Path, act: str
) -> None:
    """Between the act and the moment at which the others read of it, the autopilot may reach another gateway."""
    kept, nobody = PlanStore(tmp_path / "a.plan"), cast("Any", None)
    first, second = control_with(kept), control_with(kept)
    before, wanted = plan_for(after_ms=25.0), plan_for(after_ms=50.0)
    for control in (first, second):
        control.steer(steered(plan=before))
    if act == "hold":
        await first.hold(nobody)
        wanted = before
    else:
        first.apply(msgspec.json.encode(wanted if act == "apply" else None), where="plan")
    second.steer(steered(plan=before, trial=plan_for(after_ms=75.0)))  # has not read of the act
    for _ in range(2):
        follow(kept, first)
        follow(kept, second)
    for control in (first, second):
        assert control.author == "person"
        assert (await control.plan(get())) == (None if act == "remove" else wanted)
        assert (await control.status(get()))["trial"] is None
    await second.resume(nobody)
    follow(kept, first)
    assert [first.author, second.author] == ["autopilot", "autopilot"]
    # A gateway that starts anew goes on with the same revision.
    later = control_with(kept)
    follow(kept, later)
    assert (later.revision, later.author) == (second.revision, "autopilot")


async def test_a_plan_that_another_gateway_could_save_is_no_trouble_any_longer(tmp_path: Path) -> None:
    own, others = PlanStore(tmp_path / "a.plan"), PlanStore(tmp_path / "a.plan")
    control = control_with(own)
    watching = asyncio.create_task(SharedPlan(own, control).watch())
    await asyncio.sleep(0)
    full(own)
    own.save(b"null", None)
    troubles = [own.trouble]
    free(own)
    others.save(msgspec.json.encode(plan_for()), None, author="person", revision=PlanRevision(1, "a"))
    for _ in range(600):
        if control.author == "person":
            break
        await asyncio.sleep(0.05)
    assert [*troubles, own.trouble] == ["Is a directory", None]
    await cancel_and_wait([watching])


def get() -> Any:
    return SimpleNamespace(method="GET", rel_url=SimpleNamespace(query={"alone": "1"}))
