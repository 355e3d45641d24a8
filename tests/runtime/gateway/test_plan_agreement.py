"""Gateways agree on the newest plan: after a partition, when one is new, and as processes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.ledger.shared_budget import SharedBudget
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.plan_in_force import PlanInForce
from kwiken.runtime.gateway.control.plan_revision import FIRST, PlanRevision
from kwiken.runtime.gateway.control.siblings import Siblings
from kwiken.runtime.gateway.control.steering import SteeredSetting
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.runtime.server_processes import KWIKEN, ROOT, free_port, running
from tests.support.runtime.waiting import soon
from tests.support.services.http import plan_for, service

TOKEN = "secret"


# The order of revisions, as a state machine.


@pytest.mark.parametrize("seed", range(20))
def test_after_any_partition_one_comparison_with_each_sibling_makes_all_equal(seed: int) -> None:
    """Acts at random gateways and random exchanges; then each asks each once, as in one round after healing."""
    rng = random.Random(seed)
    names = [f"gateway-{number}" for number in range(rng.randint(2, 6))]
    in_force: dict[str, tuple[PlanRevision, int]] = dict.fromkeys(names, (FIRST, 0))
    clock = {name: rng.randint(-3000, 3000) for name in names}  # clocks of hosts differ
    last_person: dict[int, str] = {}

    def compare(asker: str, other: str) -> None:
        in_force[asker] = max(in_force[asker], in_force[other])

    for step in range(1, 60):
        name = rng.choice(names)
        if rng.random() < 0.3:
            author = rng.choice(("person", "autopilot"))
            revision = in_force[name][0].after(author, name, 10**12 + 10_000 * step + clock[name])  # type: ignore[arg-type]
            in_force[name] = (revision, step)
            if author == "person":
                last_person[step] = name
        else:
            compare(name, rng.choice(names))  # also alone, within a side of the partition
    pairs = [(one, other) for one in names for other in names] * 2
    for one, other in pairs:
        compare(one, other)
    assert len(set(in_force.values())) == 1
    (revision, step) = in_force[names[0]]
    assert step >= max(last_person, default=0), "no act of a person is undone by what was earlier"
    assert revision.by.endswith(tuple(names)) or revision == FIRST


# Gateways in one process, over HTTP.


class Side:
    """Gateways of which some cannot reach others."""

    def __init__(self) -> None:
        self.apart: set[int] = set()
        self.gateways: list[Gateway] = []
        self.exchanges: list[Exchange] = []

    def reached_by(self, number: int) -> list[str]:
        return [
            gateway.url
            for other, gateway in enumerate(self.gateways)
            if (other in self.apart) == (number in self.apart)
        ]


@contextlib.asynccontextmanager
async def gateways(count: int) -> AsyncIterator[Side]:
    side = Side()
    async with contextlib.AsyncExitStack() as stack:
        for number in range(count):
            transport = LocalTransport(service)
            await transport.setup()
            executor = Executor(
                service,
                transport,
                replicas=local_replicas(service),
                clock=SystemClock(),
                rng=random.Random(number),
            )
            name = f"gateway-{number}"
            siblings = Siblings(lambda number=number: side.reached_by(number), TOKEN)  # type: ignore[misc]
            budget = SharedBudget(executor.ledger, name, time.monotonic(), least=count)
            exchange = Exchange(PlanInForce(executor, name), siblings, budget, executor.ledger)
            side.exchanges.append(exchange)
            settings = GatewaySettings(token=TOKEN, remote=False, name=name)
            gateway = Gateway(service, executor, settings, exchange=exchange)
            await gateway.start()
            stack.push_async_callback(gateway.stop, grace_s=1.0, linger_s=0.0)
            side.gateways.append(gateway)
        yield side


def digests(side: Side) -> list[str | None]:
    return [_digest(bytes(gateway.control.plans.offer().plan)) for gateway in side.gateways]


def _digest(plan: bytes) -> str | None:
    return None if plan == b"null" else Plan.from_json(plan, where="plan").digest


async def apply(side: Side, number: int, plan: Plan | None) -> None:
    side.gateways[number].control.plans.apply(msgspec.json.encode(plan), where="plan")
    await side.exchanges[number].share_plan()


async def test_a_plan_that_was_applied_on_one_side_of_a_partition_is_everywhere_after_a_round() -> None:
    older, newer = plan_for(after_ms=25.0), plan_for(after_ms=50.0)
    async with gateways(3) as side:
        await apply(side, 0, older)
        assert digests(side) == [older.digest] * 3
        side.apart = {2}
        await apply(side, 2, plan_for(after_ms=75.0))
        await apply(side, 0, newer)  # later
        assert digests(side) == [newer.digest, newer.digest, plan_for(after_ms=75.0).digest]
        side.apart = set()
        for exchange in side.exchanges:
            await exchange.round()
        assert digests(side) == [newer.digest] * 3
        assert {gateway.control.plans.revision for gateway in side.gateways} == {
            side.gateways[0].control.plans.revision
        }


async def test_what_an_autopilot_put_on_its_side_gives_way_to_a_persons_act_on_the_other() -> None:
    tried = SteeredSetting(
        plan=None, trial=plan_for(after_ms=75.0), trial_share=0.1, control_share=0.05, epoch=1
    )
    async with gateways(2) as side:
        side.apart = {1}
        await apply(side, 0, plan_for())
        side.gateways[1].control.plans.steer(tried)
        side.apart = set()
        for exchange in side.exchanges:
            await exchange.round()
        assert digests(side) == [plan_for().digest] * 2
        assert [gateway.control.plans.author for gateway in side.gateways] == ["person"] * 2


async def test_a_removed_plan_is_a_plan_too_and_one_for_another_service_changes_nothing() -> None:
    async with gateways(2) as side:
        await apply(side, 0, plan_for())
        await apply(side, 1, None)
        assert digests(side) == [None, None]
        offer = side.gateways[0].control.plans.offer()
        stranger = msgspec.json.encode(msgspec.structs.replace(plan_for(), service="another"))
        bad = msgspec.structs.replace(
            offer, revision=PlanRevision(offer.revision.number + 1, "x"), plan=msgspec.Raw(stranger)
        )
        with pytest.raises(InputError, match="another"):
            side.gateways[0].control.plans.take(bad)
        assert side.gateways[0].control.plans.revision == offer.revision


# Processes.


@contextlib.contextmanager
def served(port: int, sibling: int, token: Path) -> Iterator[subprocess.Popen[str]]:
    """A gateway that runs all stages itself, and has one sibling."""
    words = ("--local", f"--port={port}", f"--sibling=127.0.0.1:{sibling}", f"--token-file={token}")
    with running("serve", "tests.support.services.http:service", *words) as process:
        assert process.stderr is not None
        assert " at http://" in process.stderr.readline()
        yield process


def kwiken(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KWIKEN, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_a_new_gateway_and_one_that_was_frozen_get_the_plan_of_their_sibling(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    token.chmod(0o600)

    def plan_at(port: int) -> str | None:
        words = ("--url", f"http://127.0.0.1:{port}", "--token-file", str(token), "--json")
        lines = json.loads(kwiken("status", *words).stdout)["clusters"][0]["runtime"]["gateways"]
        found: dict[str, str | None] = {line["gateway"].rpartition(":")[2]: line["plan"] for line in lines}
        return found.get(str(port))

    def put(plan: Plan) -> str:
        path = tmp_path / "plan.json"
        path.write_text(plan.to_json())
        done = kwiken("apply", str(path), "--url", f"http://127.0.0.1:{first}", "--token-file", str(token))
        assert done.returncode == 0, done.stderr
        return done.stderr

    with served(first, second, token):
        put(plan_for())
        with served(second, first, token) as other:
            soon(lambda: plan_at(second) == plan_for().digest)
            os.kill(other.pid, signal.SIGSTOP)
            said = put(plan_for(after_ms=50.0))
            assert f"no answer from gateway http://127.0.0.1:{second}" in said
            os.kill(other.pid, signal.SIGCONT)
            soon(lambda: plan_at(second) == plan_for(after_ms=50.0).digest)
            assert "in force at 2 gateways" in put(plan_for(after_ms=75.0))
