"""The loop before real gateways and real traces: a trial begins, a person stops it, a lost gateway changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from kwiken.model.plan.plan import Plan
from kwiken.model.service.service import Service
from kwiken.otel.write.observer import DecisionSpans, make_observer
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.gateway.steering.gateways import Gateways
from kwiken.runtime.gateway.steering.steering import Steering, SteeringSettings
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from kwiken.tail.autopilot.record import AutopilotRecord
from tests.support.services.http import plan_for, service as echo

TOKEN = "a-token-of-tests"
RNG = random.Random(7)
shop = Service("shop")


class Item(msgspec.Struct):
    """Request of the shop."""

    name: str = "pen"


@shop.stage(replicas=30, idempotent=True)  # so many that the planner need not mind the load
async def stock(item: Item) -> Item:
    """Look an item up; one call in forty stalls, for longer than a busy machine makes others wait."""
    await asyncio.sleep(0.8 if RNG.random() < 1 / 40 else 0.002)
    return item


class Unmeasured(LocalTransport):
    """Calls in this process without working times: here elapsed time would count as work, stalls too."""

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Run the handler."""
        return Reply((await super().call(replica, call)).value)


@contextlib.asynccontextmanager
async def fronts(target: Service, traces: Path, count: int = 1) -> AsyncIterator[list[Gateway]]:
    """Gateways whose stages run in this process, and whose spans are all written."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            observer = make_observer(target.name, traces=traces)
            stack.callback(observer.close)
            executor = Executor(
                target,
                Unmeasured(target),
                replicas=local_replicas(target),
                clock=SystemClock(),
                rng=random.Random(1),
                observer=observer,
            )
            gateway = Gateway(target, executor, GatewaySettings(remote=False, token=TOKEN))
            await gateway.start()
            stack.push_async_callback(gateway.stop, grace_s=0.0)
            found.append(gateway)
        yield found


async def load(url: str, requests: int) -> None:
    """Send requests, eight at a time and about 100 a second: at a higher load the planner sends no copies."""
    async with aiohttp.ClientSession() as session:

        async def some() -> None:
            for _ in range(requests // 8):
                async with session.post(f"{url}/v1/request", json={"name": "pen"}) as response:
                    await response.read()
                await asyncio.sleep(0.07)

        await asyncio.gather(*(some() for _ in range(8)))


def steering_of(
    gateways: Gateways, target: Service, tmp_path: Path, said: list[str], **more: Any
) -> Steering:
    settings = SteeringSettings(
        service=target.name,
        traces=str(tmp_path / "traces"),
        state=tmp_path / "state",
        budget=0.05,
        holder=more.pop("holder", "me"),
    )
    return Steering(settings, gateways, say=said.append, **more)


async def status(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = await gateway.control.status(None)  # type: ignore[arg-type]
    return found


@pytest.mark.slow
async def test_a_plan_is_tried_a_person_stops_the_loop_and_another_process_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    traces = tmp_path / "traces"
    async with (
        fronts(shop, traces) as (gateway,),
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as person,
    ):
        gateways = Gateways([gateway.url], lambda: TOKEN)
        spans = DecisionSpans(shop.name, traces)
        steering = steering_of(gateways, shop, tmp_path, said, spans=spans)
        await load(gateway.url, 1600)
        await asyncio.sleep(0.5)  # for the last spans

        await stepped(steering, gateway, lambda shown: shown["trial"] is not None)
        shown = await status(gateway)
        assert (shown["author"], shown["trial_share"], shown["control_share"]) == ("autopilot", 0.1, 0.05)
        assert shown["autopilot"]["phase"] == "trying"
        assert shown["autopilot"]["history"][-1]["action"] == "apply"
        assert "requests that it has not seen" in shown["autopilot"]["history"][-1]["reason"]
        await load(gateway.url, 400)
        arms = (await status(gateway))["arms"]
        assert sum(arms["tried"]["cells"].values()) > 5
        assert sum(arms["planned"]["cells"].values()) > 200
        async with person.get(f"{gateway.url}/metrics") as response:
            page = await response.text()
        assert 'kw_autopilot_decisions_total{kw_autopilot_action="apply"} 1' in page
        assert "kw_plan_trial_share" in page
        spans.close()
        assert any("autopilot apply" in path.read_text() for path in traces.iterdir())

        # A person acts: the trial ends, and the loop changes nothing.
        async with person.put(f"{gateway.url}/v1/plan", data=b"null") as response:
            assert response.status == 200
        for _ in range(3):
            await steering.step()
        shown = await status(gateway)
        assert (shown["trial"], shown["author"], shown["autopilot"]["phase"]) == (None, "person", "held")
        assert "--resume" in shown["autopilot"]["sentence"]
        await gateways.clients[gateway.url].let_autopilot(go_on=True)
        await steering.step()
        assert (await status(gateway))["autopilot"]["phase"] == "watching"
        running = asyncio.create_task(steering.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        # Another process goes on from the record.
        later = steering_of(gateways, shop, tmp_path, said, holder="another")
        await later.step()
        note = (await status(gateway))["autopilot"]
        assert [line["action"] for line in note["history"]][:1] == ["apply"]
        record = AutopilotRecord.from_json(
            (tmp_path / "state" / "shop.autopilot").read_bytes(), where="record"
        )
        assert record.changes == 1


async def test_a_second_process_waits_and_a_gateway_that_is_away_changes_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    async with fronts(echo, tmp_path / "traces") as (gateway,):
        gateways = Gateways([gateway.url, "http://127.0.0.1:9"], lambda: TOKEN)
        first = steering_of(gateways, echo, tmp_path, said, holder="first")
        second = steering_of(gateways, echo, tmp_path, said, holder="second")
        await first.step()
        await second.step()
        assert said[-1] == "first leads, and this process waits for its place"
        sentence = (await status(gateway))["autopilot"]["sentence"]
        assert "no plan is tried while http://127.0.0.1:9 does not answer" in sentence
        nowhere = Gateways(["http://127.0.0.1:9"], lambda: TOKEN)
        alone = steering_of(nowhere, echo, tmp_path / "other", said)
        await alone.step()  # nothing answers, and nothing fails


async def test_traces_that_cannot_be_read_leave_everything_as_it_is(tmp_path: Path) -> None:
    async with (
        fronts(echo, tmp_path / "elsewhere") as (gateway,),
    ):
        gateways = Gateways([gateway.url], lambda: TOKEN)
        steering = steering_of(gateways, echo, tmp_path, [])
        why = "no plan can be made"
        await stepped(steering, gateway, lambda shown: why in str(shown["autopilot"]))
        assert (await status(gateway))["plan"] is None


async def test_a_folder_that_cannot_be_written_makes_nothing_happen(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "state").write_text("a file in place of the folder")
    async with (
        fronts(echo, tmp_path / "traces") as (gateway,),
    ):
        gateways = Gateways([gateway.url], lambda: TOKEN)
        steering = steering_of(gateways, echo, tmp_path, said)
        await steering.step()
        await steering.step()
        assert len(said) == 1
        assert "the lease cannot be written" in said[0]
        assert (await status(gateway))["autopilot"] is None


async def test_a_leader_that_cannot_write_its_lease_still_watches_and_tries_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    async with (
        fronts(echo, tmp_path / "traces") as (gateway,),
    ):
        gateways = Gateways([gateway.url], lambda: TOKEN)
        steering = steering_of(gateways, echo, tmp_path, said)
        await steering.step()
        before = (await status(gateway))["autopilot"]["at_s"]
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "state").write_text("a file in place of the folder")
        plan = plan_for(after_ms=20.0)
        assert (await put(gateway, "/v1/autopilot", setting(plan, epoch=2_000_000_000)))[0] == 200
        for _ in range(2):
            await steering.step()
        assert (await status(gateway))["autopilot"]["at_s"] > before
        told = [line for line in said if "the lease cannot be written" in line]
        assert len(told) == 1
        assert "so what is in force is watched, and no plan is tried" in told[0]


async def test_what_keeps_the_loop_from_its_work_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    async with (
        fronts(echo, tmp_path / "traces") as (gateway,),
    ):
        gateways = Gateways([gateway.url], lambda: TOKEN)
        other = steering_of(gateways, shop, tmp_path, said)  # steers another service than this gateway's
        for _ in range(3):
            await other.step()
    [line] = [line for line in said if "no gateway answers" in line]
    assert f"{gateway.url}: serves 'echo', and 'shop' is steered" in line


async def stepped(
    steering: Steering, gateway: Gateway, condition: Callable[[dict[str, Any]], bool], within_s: float = 240.0
) -> None:
    """Take steps until the status of a gateway meets a condition; fails after a timeout."""
    async with asyncio.timeout(within_s):
        while not condition(await status(gateway)):
            await steering.step()
            await asyncio.sleep(0.05)


async def put(gateway: Gateway, path: str, body: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.put(gateway.url + path, data=msgspec.json.encode(body)) as response,
    ):
        return response.status, await response.json()


def setting(
    plan: Plan | None, trial: Plan | None = None, share: float = 0.0, epoch: int = 1
) -> dict[str, Any]:
    return {"plan": plan, "trial": trial, "trial_share": share, "control_share": 0.05, "epoch": epoch}


async def test_a_gateway_refuses_a_setting_after_a_person_or_from_an_older_leader(tmp_path: Path) -> None:
    plan, other = plan_for(after_ms=20.0), plan_for(after_ms=30.0)
    async with fronts(echo, tmp_path) as (gateway,):
        assert (await put(gateway, "/v1/autopilot", setting(plan, other, 0.5, epoch=3)))[0] == 200
        found = await status(gateway)
        assert (found["plan"], found["trial"], found["trial_share"]) == (plan.digest, other.digest, 0.5)
        code, answer = await put(gateway, "/v1/autopilot", setting(None, epoch=2))
        assert code == 400
        assert "another process leads" in answer["error"]
        assert (await put(gateway, "/v1/plan", other))[0] == 200
        code, answer = await put(gateway, "/v1/autopilot", setting(None, epoch=4))
        assert code == 400
        assert "--resume" in answer["error"]
        found = await status(gateway)
        assert (found["plan"], found["trial"], found["author"]) == (other.digest, None, "person")
        assert (await put(gateway, "/v1/autopilot/resume", {}))[1] == {"author": "autopilot"}
        assert (await put(gateway, "/v1/autopilot", setting(None, epoch=4)))[0] == 200
        assert (await put(gateway, "/v1/autopilot", setting(plan, other, 0.1, epoch=4)))[0] == 200
        assert (await put(gateway, "/v1/autopilot/hold", {}))[1] == {"author": "person"}
        assert (await status(gateway))["trial"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"trial_share": 0.5},
        {"trial_share": -1},
        {"control_share": 2},
        {"epoch": -1},
        {"epoch": "one"},
        {"other": 1},
        {"plan": {"version": 2}},
    ],
)
async def test_a_bad_setting_is_refused_whole(change: dict[str, Any], tmp_path: Path) -> None:
    async with fronts(echo, tmp_path) as (gateway,):
        code, _ = await put(gateway, "/v1/autopilot", setting(None) | change)
        assert code == 400
        assert (await status(gateway))["author"] is None
        assert (await put(gateway, "/v1/autopilot/note", {"sentence": "hm"}))[0] == 400
        assert (await status(gateway))["autopilot"] is None
