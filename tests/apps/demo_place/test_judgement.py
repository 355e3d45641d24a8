"""Demonstration of placement: its scene, its verdict, and the time until targets are kept again."""

from __future__ import annotations

import dataclasses
import math

import pytest

from kwiken.allocator.adaptation import Adaptation
from kwiken.allocator.placement import NodeLedger, Placement, admit_all, document
from kwiken.allocator.placement.schedulers import scheduler
from kwiken.apps.demo_place import verdict
from kwiken.apps.demo_place.run import (
    AFTER_LOSS_S,
    SCHEDULERS,
    DemoPlaceResult,
    Loss,
    PlacedArm,
    ServiceOutcome,
    kept_again_s,
)
from kwiken.apps.demo_place.scene import BATCH, SERVICES, nodes, performance, rate_per_s, requests, target_ms
from kwiken.apps.demo_place.traffic import FAILED_MS, LoadStream, p99_ms

OURS = "times the cost of thrifty"
CALL_S = dict.fromkeys(SERVICES, 0.03)


def placed(name: str) -> tuple[Placement, Adaptation]:
    cluster = nodes()
    asked = requests(CALL_S, cluster)
    admissions = admit_all(asked, NodeLedger(cluster), scheduler(name))
    placement = document(cluster, admissions, scheduler=name, confidence=0.95)
    return placement, Adaptation(asked, cluster, placement, scheduler(name))


def test_the_placer_uses_quick_nodes_and_least_loaded_does_not_know_them() -> None:
    slow = {"node-1", "node-4"}
    used = {
        name: {
            replica.node for one in placed(name)[0].workloads if one.name != BATCH for replica in one.replicas
        }
        for name in SCHEDULERS
    }
    assert not used["thrifty"] & slow
    assert used["least-loaded"] & slow
    placement, _ = placed("thrifty")
    assert {one.name: one.status.value for one in placement.workloads} == {
        **dict.fromkeys(SERVICES, "met"),
        BATCH: "best-effort",
    }


def test_there_is_room_for_every_target_without_any_one_node() -> None:
    for node in nodes().nodes:
        _, adaptation = placed("thrifty")
        adaptation.nodes_lost([node.name], 0.0)
        for name in SERVICES:
            found, needed = adaptation.performance(name)
            assert found >= needed * (1 - 1e-9)


def test_performance_is_that_of_a_queue_of_one_server() -> None:
    call_s = 0.02
    served = 1 / call_s
    rate = performance(call_s, 0.15, 1.0)
    assert 1e3 * math.log(100) / (served - rate) == pytest.approx(target_ms(call_s))
    assert performance(call_s, 0.15, 0.3) < rate_per_s(call_s) / 10  # no use at all


def service(name: str, p99: float | None) -> ServiceOutcome:
    return ServiceOutcome(
        service=name,
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


OUTCOME = DemoPlaceResult(
    call_ms={},
    rate_per_s={},
    arms=[arm("least-loaded", 300.0, 50.0, 50.0), arm("reservation", 50.0, 50.0, None, cost=5.0), arm("thrifty", 50.0, 60.0, 70.0)],
    loss=Loss(
        node="node-2", services=["digest"], kept_again_s=4.5, failed=12, requests=2000, actions=[], busy=0.6
    ),
)  # fmt: skip


def test_the_verdict_says_what_each_placement_kept_and_at_which_cost() -> None:
    found = verdict(OUTCOME)
    assert (found.told, found.kept) == (True, True)
    assert found.lines == [
        f"least-loaded misses the target of digest, with 0.90 cores at 2.00 an hour (1.00 {OURS}).",
        f"reservation has no room for order, with 0.90 cores at 5.00 an hour (2.50 {OURS}).",
        "thrifty keeps all targets, with 0.90 cores at 2.00 an hour, beside 0.60 cores of best-effort work.",
        "After node-2 was stopped, all targets were kept again within 4.5 s; 12 of 2000 requests failed.",
    ]


def test_a_target_that_the_placer_misses_is_named() -> None:
    missed = dataclasses.replace(OUTCOME, arms=[*OUTCOME.arms[:2], arm("thrifty", 50.0, 60.0, 700.0)])
    found = verdict(missed)
    assert (found.told, found.kept) == (True, False)
    assert found.lines[2].startswith(
        "thrifty misses the target of order, with 0.90 cores at 2.00 an hour, beside"
    )


def test_targets_that_are_not_kept_again_are_said() -> None:
    lost = dataclasses.replace(OUTCOME, loss=dataclasses.replace(OUTCOME.loss, kept_again_s=None))
    found = verdict(lost)
    assert (found.told, found.kept) == (True, False)
    assert "the targets were not all kept again" in found.lines[-1]


@pytest.mark.parametrize("change", [{"busy": 0.95}, {"late_p99_ms": 40.0}])
def test_a_busy_machine_allows_no_verdict(change: dict[str, float]) -> None:
    arms = [dataclasses.replace(OUTCOME.arms[0], **change), *OUTCOME.arms[1:]]  # type: ignore[arg-type]
    found = verdict(dataclasses.replace(OUTCOME, arms=arms))
    assert (found.told, found.kept) == (False, False)
    assert "the machine was too busy" in found.lines[0]


def test_targets_are_kept_again_once_no_later_request_is_slow() -> None:
    stream = LoadStream("", 1, 20.0)
    for number in range(int(20 * AFTER_LOSS_S)):
        stream.due_s.append(100 + number / 20)
        stream.latency_ms.append(FAILED_MS if number / 20 < 4.2 else 50.0)
    assert (
        kept_again_s({"digest": stream}, CALL_S, 100.0, 100 + AFTER_LOSS_S) == 4.0
    )  # p99: a hundredth may fail
    stream.latency_ms[-100:] = [FAILED_MS] * 100
    assert kept_again_s({"digest": stream}, CALL_S, 100.0, 100 + AFTER_LOSS_S) is None
    stream.latency_ms[:] = [FAILED_MS] * len(stream.latency_ms)
    assert kept_again_s({"digest": stream}, CALL_S, 100.0, 100 + AFTER_LOSS_S) is None
    assert p99_ms([]) == FAILED_MS
    assert p99_ms(map(float, range(1, 101))) == 100.0
