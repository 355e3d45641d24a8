"""Rented nodes under upkeep on a fake clock: orders, boots and returns; and a journal that survives a kill."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.watch import WINDOW_S
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.allocator.provisioning.renting import NodeRenter, RentalState
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import load_service
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.layout import EmulatedNode, ReplicaPlace
from kwiken.runtime.cluster.state.rentals import JOURNAL, read_journal, settle_orphans
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.assignment import Assignment
from kwiken.upkeep.rental_journal import RentalJournal
from kwiken.upkeep.rented_nodes import RentedNodes
from kwiken.upkeep.upkeep import Upkeep
from tests.support.models.price_lists import price_list
from tests.support.project.commands import ROOT
from tests.support.runtime.clusters import cluster as cluster_of, profile, requested

SERVED = 1200.0  # requests a second of one replica
P99_MS = 10.0  # that of the workloads of these tests
LOW = 400.0
BOOT_S = 5.0


class FakeLimits:
    """Nodes that are there, without processes."""

    def __init__(self, nodes: set[str]) -> None:
        self.nodes = nodes

    def add_node(self, node: str, limit: Limit) -> None:
        del limit
        assert node not in self.nodes
        self.nodes.add(node)

    async def remove_node(self, node: str) -> None:
        self.nodes.remove(node)

    async def end(self, name: str) -> None:
        del name


class FakeCluster:
    """Service whose replicas are M/M/1 queues, in the form that the upkeep asks."""

    lost_nodes: tuple[str, ...] = ()
    service = load_service("tests.support.services.http:service")

    def __init__(self, limits: FakeLimits, replicas: dict[str, str]) -> None:
        self.limits = limits
        self.replicas = replicas  # node of each
        self.rate = LOW
        self.requests = 0.0
        self.notes: list[str] = []

    @property
    def places(self) -> dict[str, tuple[str, ReplicaPlace]]:
        return {name: ("first", ReplicaPlace(node=node, cores=1.0)) for name, node in self.replicas.items()}

    async def status(self) -> dict[str, Any]:
        each = self.rate / max(1, len(self.replicas))
        p99_ms = 1e3 * math.log(100) / (SERVED - each) if each < SERVED else 1e4
        self.requests += self.rate * WINDOW_S
        recent = {"answered": int(10 * self.rate), "rate_per_s": self.rate, "p50_ms": 1.0, "p99_ms": p99_ms}
        replicas = [{"id": name, "latency_ms": 10.0} for name in self.replicas]
        stage = {"recent": recent, "calls": int(self.requests), "busy_ms": 10.0 * self.requests}
        stages = {"first": {**stage, "replicas": replicas}}
        return {"runtime": {"recent": recent, "requests": int(self.requests), "shed": 0, "stages": stages}}

    async def add_replica(self, stage: str, place: ReplicaPlace) -> str:
        assert place.node in self.limits.nodes, "nothing starts on a node that is not there"
        name = f"{stage}-{random.random()}"
        self.replicas[name] = place.node
        return name

    async def remove_replica(self, name: str) -> None:
        self.replicas.pop(name, None)

    async def drop_node(self, node: str) -> list[str]:
        gone = [name for name, where in self.replicas.items() if where == node]
        for name in gone:
            del self.replicas[name]
        return gone

    def note_action(self, line: str) -> None:
        self.notes.append(line)


class Played:
    """Upkeep of a fake cluster on nodes that come and go, second by second."""

    def __init__(self, folder: Path) -> None:
        nodes = cluster_of({"core": 3}, cores=1)
        of: dict[str, Any] = {"service": "echo", "stage": "first", "spread": Spread.NODE}
        able = SERVED - math.log(100) * 1e3 / P99_MS
        request = requested(LOW, profile({1: able}, {"core": 1.0}, name="front"), nodes, **of)
        admissions = admit_all([request], NodeLedger(nodes), scheduler("thrifty"))
        placement = document(nodes, admissions, scheduler="thrifty", confidence=0.5)
        self.adaptation = Adaptation([request], nodes, placement, scheduler("thrifty"))
        there = {node.name: EmulatedNode(node_class="core", cores=1) for node in nodes.nodes}
        assignment = Assignment(workloads={"front": request.workload}, nodes=there)
        used = {node for _, node, _ in self.adaptation.keys["front"]}
        text = price_list(held=1, boot_s=BOOT_S)
        self.renter = NodeRenter(nodes, prices_from_toml(text, where="prices"), used, 0.0, where="prices")
        self.adaptation.nodes_lost(self.renter.down, 0.0)
        self.limits = FakeLimits(set(there) - set(self.renter.down))
        places = assignment.replicas("echo", self.adaptation.keys)
        self.cluster = FakeCluster(
            self.limits, {f"first-{place}": one.node for place, one in enumerate(places["first"])}
        )
        self.said: list[str] = []
        limits = cast("NodeLimits", self.limits)
        journal = RentalJournal(folder, "unit", 0.0)
        self.rented = RentedNodes(self.renter, there, limits, journal, say=self.said.append)
        self.upkeep = Upkeep(
            self.adaptation,
            assignment,
            {"echo": cast("Cluster", self.cluster)},
            limits,
            say=self.said.append,
            rented=self.rented,
        )
        self.late_s = self.up_s = self.now_s = 0.0

    async def window(self, rate: float) -> None:
        """One window at a load."""
        self.cluster.rate = rate
        self.now_s += WINDOW_S
        self.up_s += WINDOW_S * (len(self.limits.nodes) - 1)
        await self.upkeep.use_booted(self.now_s)
        await self.upkeep.observe(self.now_s)
        each = rate / len(self.cluster.replicas)
        if each >= SERVED or 1e3 * math.log(100) / (SERVED - each) > P99_MS:
            self.late_s += WINDOW_S


async def test_a_load_that_doubles_and_falls(tmp_path: Path) -> None:
    played = Played(tmp_path)
    assert len(played.limits.nodes) == 1
    for _ in range(10):
        await played.window(LOW)
    for step in range(1, 13):
        await played.window(LOW * (1 + step / 12))
    for _ in range(8):
        await played.window(2 * LOW)
    assert len(played.limits.nodes) >= 2
    for _ in range(100):
        await played.window(LOW)
    assert len(played.limits.nodes) == 1, played.said
    assert played.late_s == 0.0, played.said  # ordered before the room was used up
    fixed = 2 * 0.625 * played.now_s / 3600
    assert played.renter.cost(played.now_s) <= 0.85 * fixed
    rented_s = sum(
        one.up_s(played.now_s) for one in played.renter.rentals if one.state is RentalState.RETURNED
    )
    booting_s = sum(BOOT_S for one in played.renter.rentals if one.state is RentalState.RETURNED)
    assert rented_s == pytest.approx(played.up_s + booting_s, abs=2 * WINDOW_S)
    record = read_journal(tmp_path)
    assert record is not None
    assert record.cost == pytest.approx(played.renter.cost(played.now_s))
    assert any(line.startswith("rent ") for line in played.cluster.notes)


@pytest.mark.parametrize("content", [b"{", b'{"version": "\x80"}', b"[" * 100_000, b'{"version": 1}'])
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / JOURNAL
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match="is no journal of rented nodes"):
        read_journal(tmp_path)


@pytest.mark.parametrize("seed", range(4))
async def test_any_load_leaves_no_node_without_an_entry(tmp_path: Path, seed: int) -> None:
    played, chance = Played(tmp_path), random.Random(seed)
    rate = LOW
    for _ in range(200):
        rate = min(1400.0, max(80.0, rate * chance.uniform(0.7, 1.4)))
        await played.window(rate)
        current = {one.node for one in played.renter.rentals if one.state is RentalState.READY}
        assert played.limits.nodes == current
        assert set(played.cluster.replicas.values()) <= played.limits.nodes
        record = read_journal(tmp_path)
        assert record is not None
        assert {one.node for one in record.rentals if one.returned_at is None} >= current
    played.rented.end(played.now_s)
    record = read_journal(tmp_path)
    assert record is not None
    assert record.closed
    assert all(one.returned_at is not None for one in record.rentals)


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_load_the_service_stays_on_the_node_that_is_held(tmp_path: Path, seed: int) -> None:
    played, chance = Played(tmp_path), random.Random(seed)
    held = set(played.limits.nodes)
    for _ in range(60):
        await played.window(chance.uniform(LOW, 3 * LOW))
    for _ in range(120):
        await played.window(LOW)
    assert set(played.cluster.replicas.values()) == held, played.said
    assert played.limits.nodes == held, played.said


OWNER = """
import sys, time
from pathlib import Path
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from kwiken.allocator.provisioning.renting import NodeRenter, NodeOrder
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.upkeep.rental_journal import RentalJournal
from tests.support.models.price_lists import price_list
nodes = Cluster((NodeClass(name="core", cores=1, memory_gb=1),), tuple(Node(f"n{i}", "core") for i in range(9)))
renter = NodeRenter(nodes, prices_from_toml(price_list(held=1), where="p"), {"n0"}, 0.0, where="p")
journal = RentalJournal(Path(sys.argv[1]), "unit", 0.0)
print("up", flush=True)
for step in range(10**9):
    for action in renter.observe(float(step), {"w": 2.0} if step % 300 < 5 else {}, {"n0"}):
        if isinstance(action, NodeOrder):
            renter.ordered(action, float(step))
        else:
            renter.returned(action.node, float(step), action.reason)
    renter.booted(float(step))
    journal.write(renter, float(step))
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_leaves_no_rental_without_an_owner(tmp_path: Path, seed: int) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        time.sleep(random.Random(seed).uniform(0.05, 0.6))
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        with contextlib.suppress(AttributeError):
            owner.stdout.close()  # type: ignore[union-attr]
    record = read_journal(tmp_path)
    assert record is not None, "whole at any moment"
    assert record.orphaned
    held = [one.node for one in record.rentals if one.returned_at is None]
    assert settle_orphans(tmp_path) == held
    assert settle_orphans(tmp_path) == []
    after = read_journal(tmp_path)
    assert after is not None
    assert after.closed
    assert all(one.returned_at is not None for one in after.rentals)


def test_an_owner_that_lives_is_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        played = Played(tmp_path)
        await played.window(LOW)

    asyncio.run(run())
    record = read_journal(tmp_path)
    assert record is not None
    assert not record.orphaned
    assert settle_orphans(tmp_path) == []
