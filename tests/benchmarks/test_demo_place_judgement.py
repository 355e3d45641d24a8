"""Demonstration of placement: its documents, its verbs, its client, its verdict, and the time to recovery."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from benchmarks.command.demo_place.demo_verdict import verdict
from benchmarks.command.demo_place.outcome import (
    DemoPlaceResult,
    Loss,
    PlacedArm,
    Recovery,
    ServiceOutcome,
    recovery_s,
)
from benchmarks.command.demo_place.run import AFTER_LOSS_S, run_verb
from benchmarks.command.demo_place.scene import (
    BATCH,
    BATCH_PROGRAM,
    GROWING,
    GROWTH,
    MIX,
    NODES,
    SERVICES,
    TARGETS,
    emulated,
    loads,
    nodes_toml,
    requests_text,
    with_batch,
    workloads_toml,
)
from benchmarks.command.demo_place.traffic import ClientStream, LoadPhase, p99_ms, send
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.watch import Observation
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile, profiles_to_json
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, workloads_from_toml
from kwiken.base.errors import KwikenError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.placement import PlacingStatus
from tests.support.allocation.replica_lines import CALLS, p99_of_lines

OURS = "times the cost of thrifty"


def profile(name: str, calls_per_s: float) -> WorkloadProfile:
    """Profile like those of a run: what was not measured is uncertain, and neighbours press too much.

    Args:
        calls_per_s: what half a core of a quick node serves.
    """
    cores, speeds = np.array([0.25, 0.5, 0.75, 1.0]), np.array([1.0, 0.75, 0.5, 0.3])
    return WorkloadProfile(
        name=name,
        measure=Measure.CAPACITY,
        base=calls_per_s,
        base_deviation=0.015,
        sizes=tuple(Size(float(one), 1.0) for one in cores),
        up=Estimate(np.array([-0.8, 0.0, 0.42, 0.82]), np.array([0.1, 0.0, 0.08, 0.13])),
        replicas=np.arange(1, 4),
        out=Estimate(np.log(np.arange(1, 4)), np.zeros(3)),
        classes=tuple(f"speed-{speed:g}" for speed in speeds),
        het=Estimate(np.log(speeds), np.array([0.0, 0.07, 0.08, 0.02])),
        tolerated=Estimate(np.full(len(SOURCES), 0.7), np.zeros(len(SOURCES))),
        caused=Estimate(np.full(len(SOURCES), 0.9), np.zeros(len(SOURCES))),
        work_variation=0.35,
    )


CALLS_PER_S = 60.0
PROFILES = with_batch([profile(name, CALLS_PER_S) for name in SERVICES])
NODES_BY_NAME = emulated(nodes_from_toml(nodes_toml(), where="nodes.toml"))


def adapted(name: str, profiles: Sequence[WorkloadProfile] = PROFILES) -> tuple[Adaptation, dict[str, str]]:
    cluster = nodes_from_toml(nodes_toml(), where="nodes.toml")
    workloads = workloads_from_toml(workloads_toml(loads(profiles)), where="workloads.toml")
    by_name = {one.name: one for one in profiles}
    asked = [request_for(one, by_name[one.name], cluster, Caution(confidence=0.95)) for one in workloads]
    admissions = admit_all(asked, NodeLedger(cluster), scheduler(name))
    placement = document(cluster, admissions, scheduler=name, confidence=0.95)
    assert emulated(cluster).keys() == {node.name for node in cluster.nodes}
    return (
        Adaptation(asked, cluster, placement, scheduler(name)),
        {one.name: one.status.value for one in placement.workloads},
    )


def small_replicas(adaptation: Adaptation, name: str) -> float:
    """What the replicas of a service serve, as a multiple of the smallest one on a quick node."""
    return sum(speed(node, cores) for _, node, cores in adaptation.keys[name]) / speed("node-2", 0.25)


def speed(node: str, cores: float) -> float:
    """Calls per second of a replica, in proportion to cores and to the speed of the node."""
    return CALLS_PER_S * cores / 0.5 * NODES_BY_NAME[node].speed


def test_the_documents_are_read_and_every_target_is_placed() -> None:
    assert adapted("thrifty")[1] == {**dict.fromkeys(SERVICES, "met"), BATCH: "best-effort"}


def test_the_best_effort_work_has_the_predictions_of_the_program_that_it_runs() -> None:
    *services, batch = PROFILES
    assert [one.name for one in services] == list(SERVICES)
    named = dataclasses.replace(services[list(SERVICES).index(BATCH_PROGRAM)], name=BATCH)
    assert profiles_to_json((batch,)) == profiles_to_json((named,))


def test_targets_need_most_of_what_two_of_the_smallest_replicas_serve_within_the_latency() -> None:
    targets = loads(PROFILES)
    cluster = nodes_from_toml(nodes_toml(), where="nodes.toml")
    for one in workloads_from_toml(workloads_toml(targets), where="workloads.toml"):
        if one.name != BATCH:
            request = request_for(one, PROFILES[0], cluster, Caution(confidence=0.95))
            two_small = 2 * float(request.capacity[0].max())  # replicas that two nodes hold at least
            assert 0.8 <= (request.required + request.spare) / two_small <= 0.84
            assert request.required == pytest.approx(TARGETS[one.name][1] * two_small / 2, rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_small_errors_of_measurements_change_no_capacity(seed: int) -> None:
    """2% of the capacity, and 3% of what sizes and classes have of it."""
    rng = np.random.default_rng(seed)
    found = [
        dataclasses.replace(
            one,
            base=one.base * float(np.exp(rng.normal(0, 0.02))),
            up=dataclasses.replace(one.up, mean=one.up.mean + rng.normal(0, 0.03, 4) * (one.up.mean != 0)),
            het=dataclasses.replace(
                one.het, mean=one.het.mean + rng.normal(0, 0.03, 4) * (one.het.mean != 0)
            ),
            work_variation=float(rng.uniform(0.33, 0.35)),
        )
        for one in PROFILES[:-1]
    ]
    adaptation, _ = adapted("thrifty", with_batch(found))
    for name in SERVICES:
        assert small_replicas(adaptation, name) == 2.0


@pytest.mark.parametrize("name", SERVICES)
def test_simulated_lines_use_half_to_four_fifths_of_the_latency(name: str) -> None:
    adaptation, _ = adapted("thrifty")
    target = loads(PROFILES)[name]
    speeds = [speed(node, cores) for _, node, cores in adaptation.keys[name]]
    p99 = p99_of_lines(speeds, target.rate_per_s, lambda rng: rng.choice(MIX, CALLS))
    assert 0.55 <= p99 / target.p99_ms <= 0.7


def test_every_service_has_two_nodes_and_best_effort_work_one_so_that_one_is_free() -> None:
    adaptation, _ = adapted("thrifty")
    assert [len(adaptation.keys[name]) for name in (*SERVICES, BATCH)] == [2, 2, 2, 1]
    nodes = {node for name in (*SERVICES, BATCH) for _, node, _ in adaptation.keys[name]}
    assert len(nodes) == len(NODES) - 1


@pytest.mark.parametrize("node", range(1, len(NODES) + 1))
def test_there_is_room_for_the_grown_load_without_any_one_node(node: int) -> None:
    """Beyond its load, the upkeep has headroom for a service; what is left of it is not asked for here."""
    adaptation, _ = adapted("thrifty")
    targets = loads(PROFILES)
    rates = {name: one.rate_per_s * (GROWTH if name == GROWING else 1.0) for name, one in targets.items()}
    for window in (1, 2):
        for name, one in targets.items():
            p99 = one.p99_ms * (1.2 if name == GROWING else 0.6)
            seen = Observation(requests=200, rate_per_s=rates[name], p99_ms=p99)
            adaptation.observe(5.0 * window, {name: seen})
    adaptation.nodes_lost([f"node-{node}"], 30.0)
    for name in SERVICES:
        assert adaptation.performance(name)[0] >= rates[name]
        assert len({where for _, where, _ in adaptation.keys[name]}) >= 2


def test_requests_have_three_sizes_around_the_middle_one() -> None:
    rounds = [json.loads(line)["rounds"] for line in requests_text(100).splitlines()]
    assert sorted(set(rounds)) == [60, 100, 140]
    assert np.mean(rounds) == pytest.approx(100)


async def test_a_verb_is_shown_and_its_failure_is_said_in_its_own_words(tmp_path: Path) -> None:
    shown: list[str] = []
    log = tmp_path / "processes.log"
    assert await run_verb("--version", folder=tmp_path, say=shown.append, log=log) == 0
    with pytest.raises(KwikenError, match=r"kwiken place ended with exit code 2: kwiken: .*no\.toml"):
        await run_verb(
            "place", "no.toml", "no.toml", "--profiles", "no.json",
            folder=tmp_path, say=shown.append, log=log,
        )  # fmt: skip
    assert shown == ["$ kwiken --version", "$ kwiken place no.toml no.toml --profiles no.json"]


async def test_the_client_is_a_process_of_its_own_that_counts_every_request() -> None:
    seen: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        rounds = (await request.json())["rounds"]
        seen.append(rounds)
        return web.Response(status=200 if rounds < 100 else 503)

    app = web.Application()
    app.router.add_post("/v1/request", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        bodies = {"digest": [json.dumps({"rounds": rounds}) for rounds in (1, 100)]}
        phases = [
            LoadPhase(seconds=0.5, rates_per_s={"digest": 40.0}),
            LoadPhase(seconds=0.5, rates_per_s={"digest": 160.0}),
        ]
        start_s, streams = await send(
            {"digest": f"http://127.0.0.1:{port}/v1/request"}, bodies, phases, seed=3
        )
    finally:
        await runner.cleanup()
    stream = streams["digest"]
    assert len(stream.due_s) == len(stream.latency_ms) == len(stream.late_ms) == len(seen)
    assert stream.latency_ms.count(None) == seen.count(100)
    first, second = (len(stream.between(start_s + at, start_s + at + 0.5)) for at in (0.0, 0.5))
    assert first + second == len(seen)
    assert second > first


def service(name: str, p99: float | None) -> ServiceOutcome:
    return ServiceOutcome(
        service=name,
        status=PlacingStatus.QUEUED if p99 is None else PlacingStatus.MET,
        target_ms=100.0,
        p99_ms=p99,
        requests=300,
        failed=0,
        replicas=0 if p99 is None else 1,
        nodes=[] if p99 is None else ["node-2 (quick)"],
    )


def arm(name: str, *p99_ms: float | None, cost: float = 2.0) -> PlacedArm:
    return PlacedArm(
        scheduler=name,
        services=[service(one, p99) for one, p99 in zip(SERVICES, p99_ms, strict=True)],
        cores=0.9,
        cost_per_hour=cost,
        best_effort_cores=0.6,
        busy=0.5,
        late_p99_ms=2.0,
    )


GROWN = Recovery(recovery_s=9.5, p99_ms={"digest": 80.0}, failed=1, requests=1500, actions=[], busy=0.6)
OUTCOME = DemoPlaceResult(
    targets_ms={},
    rate_per_s={},
    arms=[
        arm("least-loaded", 300.0, 50.0, 50.0),
        arm("reservation", 50.0, 50.0, None, cost=5.0),
        arm("thrifty", 50.0, 60.0, 70.0),
    ],
    growth=GROWN,
    loss=Loss(
        node="node-2",
        services=["digest"],
        recovery_s=4.5,
        p99_ms={"digest": 90.0},
        failed=12,
        requests=2000,
        actions=[],
        busy=0.6,
    ),
)


def test_the_verdict_says_what_each_placement_kept_and_at_which_cost() -> None:
    found = verdict(OUTCOME)
    assert (found.told, found.kept) == (True, True)
    assert found.lines == [
        f"least-loaded misses the target of digest, with 0.90 cores at 2.00 an hour (1.00 {OURS}).",
        f"reservation has no room for order, with 0.90 cores at 5.00 an hour (2.50 {OURS}).",
        "thrifty keeps all targets, with 0.90 cores at 2.00 an hour, beside 0.60 cores of best-effort work.",
        "After the load grew, all targets were kept again within 9.5 s; 1 of 1500 requests failed.",
        "After node-2 was lost, all targets were kept again within 4.5 s; 12 of 2000 requests failed.",
        "Processors were in use for up to 60% of the time.",
    ]


def test_a_target_that_the_placer_misses_is_named() -> None:
    missed = dataclasses.replace(OUTCOME, arms=[*OUTCOME.arms[:2], arm("thrifty", 50.0, 60.0, 700.0)])
    found = verdict(missed)
    assert (found.told, found.kept) == (True, False)
    assert found.lines[2].startswith(
        "thrifty misses the target of order, with 0.90 cores at 2.00 an hour, beside"
    )


def test_a_service_that_got_too_little_room_is_named() -> None:
    *others, order = arm("reservation", 50.0, 50.0, 50.0).services
    short = [*others, dataclasses.replace(order, status=PlacingStatus.SHORT)]
    arms = [OUTCOME.arms[0], dataclasses.replace(OUTCOME.arms[1], services=short), OUTCOME.arms[2]]
    found = verdict(dataclasses.replace(OUTCOME, arms=arms))
    assert found.lines[1].startswith("reservation is short of room for order, with 0.90 cores")


@pytest.mark.parametrize(("field", "line"), [("growth", -3), ("loss", -2)])
def test_targets_that_are_not_kept_again_are_said(field: str, line: int) -> None:
    change = dataclasses.replace(getattr(OUTCOME, field), recovery_s=None)
    found = verdict(dataclasses.replace(OUTCOME, **{field: change}))
    assert (found.told, found.kept) == (True, False)
    assert "the targets were not all kept again" in found.lines[line]


@pytest.mark.parametrize("change", [{"busy": 0.95}, {"late_p99_ms": 40.0}])
def test_a_busy_machine_allows_no_verdict(change: dict[str, float]) -> None:
    arms = [dataclasses.replace(OUTCOME.arms[0], **change), *OUTCOME.arms[1:]]  # type: ignore[arg-type]
    found = verdict(dataclasses.replace(OUTCOME, arms=arms))
    assert (found.told, found.kept) == (False, False)
    assert "the machine was too busy" in found.lines[0]


def test_targets_are_kept_again_once_no_later_request_is_slow() -> None:
    count = int(20 * AFTER_LOSS_S)
    stream = ClientStream(
        due_s=[100 + number / 20 for number in range(count)],
        latency_ms=[None if number / 20 < 4.2 else 50.0 for number in range(count)],
    )
    end_s, targets = 100 + AFTER_LOSS_S, {"digest": 100.0}
    assert (
        recovery_s({"digest": stream}, targets, 100.0, end_s) == 4.5
    )  # of the requests before 4.2 s, a hundredth may fail
    stream.latency_ms[-100:] = [None] * 100
    assert recovery_s({"digest": stream}, targets, 100.0, end_s) is None


def test_no_requests_have_no_p99() -> None:
    assert p99_ms([]) == float("inf")
