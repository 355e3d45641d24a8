"""Agents on one state: no node is sold twice, the guarantee at every load, the early stop, waits."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.placement.joint.instances import FAMILIES, cluster_of, instance
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.sampling.agent import PlacingAgent, SampledKind, sampled_kind
from kwiken.allocator.sampling.arrivals import ArrivalPlacer, rank_among_all, restore
from kwiken.allocator.sampling.sample_size import Guarantee
from kwiken.allocator.sampling.shared_nodes import NodeProposal, SharedNodes
from papers.tarcil.short_tasks import ReleaseHistory
from papers.tarcil.states import EarlyStop

ROOMY = replace(FAMILIES["mixed"], workloads=6, load=0.1, caused=(0.0, 0.02))


def state_of(nodes: int, seed: int = 1) -> tuple[SharedNodes, list[SampledKind]]:
    family = replace(ROOMY, nodes=nodes)
    requests: list[PlacementRequest] = instance(family, seed)
    return SharedNodes(cluster_of(family, seed)), [sampled_kind(one, 0) for one in requests]


def check(state: SharedNodes, stands: dict[str, int]) -> None:
    """Every job that stands has its node, and no node gave more than it has."""
    assert len(state) == len(stands)
    ledger = state.ledger
    assert (ledger.free_cores >= -1e-9).all()
    assert (ledger.free_memory_gb >= -1e-9).all()
    drawn = np.zeros(len(state.versions))
    for job, node in stands.items():
        draw = state.draw_of(job)
        assert draw is not None
        assert draw.node == node
        drawn[node] += draw.cores
    np.testing.assert_allclose(ledger.cluster.cores - drawn, ledger.free_cores, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_ten_agents_in_random_order_and_kills_sell_no_node_twice(seed: int) -> None:
    """Proposals of ten agents are committed late, in any order, or never: their agent was killed."""
    rng = random.Random(seed)
    state, kinds = state_of(12)
    agents = [PlacingAgent(state, 4, np.random.default_rng([seed, n])) for n in range(10)]
    stands: dict[str, int] = {}
    pending: list[tuple[int, SampledKind, NodeProposal]] = []
    for step in range(120):
        action = rng.random()
        if action < 0.5:
            number, kind = rng.randrange(10), rng.choice(kinds)
            proposal = agents[number].propose(f"job-{step}", kind)
            if proposal is not None:
                pending.append((number, kind, proposal))
        elif action < 0.8 and pending:
            number, kind, late = pending.pop(rng.randrange(len(pending)))
            again: NodeProposal | None = late
            while again is not None and not state.commit(again):
                again = agents[number].propose(late.job, kind)
            if again is not None:
                stands[again.job] = again.draw.node
                assert not state.commit(again), "a job is placed once"
        elif action < 0.9 and pending:
            number = rng.randrange(10)  # killed; a new one takes its place
            pending = [entry for entry in pending if entry[0] != number]
            agents[number] = PlacingAgent(state, 4, np.random.default_rng([seed, step, 99]))
        elif stands:
            job = rng.choice(sorted(stands))
            assert state.release(job) is not None
            assert state.release(job) is None
            del stands[job]
        check(state, stands)


def test_agents_that_decide_at_once_conflict_and_draw_again() -> None:
    state, kinds = state_of(40)
    alone = ArrivalPlacer(state, 8, 1, 1)
    assert sum(alone.place([(f"a{n}", kinds[0])])[0].redraws for n in range(20)) == 0
    state, kinds = state_of(40)
    together = ArrivalPlacer(state, 8, 10, 1)
    placed = [
        one for turn in range(4) for one in together.place([(f"b{turn}-{n}", kinds[0]) for n in range(10)])
    ]
    assert sum(one.redraws for one in placed) > 0
    assert all(one.node is not None for one in placed)
    check(state, {one.job: one.node for one in placed if one.node is not None})


def test_a_job_that_stands_is_answered_with_its_node() -> None:
    state, kinds = state_of(20)
    arrivals = ArrivalPlacer(state, 8, 3, 1)
    (first,) = arrivals.place([("a", kinds[0])])
    again = arrivals.place([("a", kinds[0]), ("b", kinds[0]), ("b", kinds[1])])
    assert again[0].again
    assert again[0].node == first.node
    assert again[2].again
    assert again[2].node == again[1].node
    assert len(state) == 2


def test_a_full_cluster_says_so_until_something_leaves() -> None:
    state, kinds = state_of(3)
    arrivals = ArrivalPlacer(state, 8, 1, 1)
    placed: list[str] = []
    while (one := arrivals.place([(f"a{len(placed)}", kinds[0])])[0]).node is not None:
        placed.append(one.job)
    assert arrivals.place([("again", kinds[0])])[0].node is None
    state.release(placed[0])
    assert arrivals.place([("again", kinds[0])])[0].node is not None


def test_a_restored_job_needs_room_and_stands_once() -> None:
    state, kinds = state_of(3)
    by_name = {"w": kinds[0]}
    assert restore(state, by_name, "a", "w", 0)
    assert not restore(state, by_name, "a", "w", 1)
    count = 1
    while restore(state, by_name, f"b{count}", "w", 0):
        count += 1
    check(state, {"a": 0, **{f"b{n}": 0 for n in range(1, count)}})


@pytest.mark.parametrize("load", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("guarantee", [Guarantee(0.8, 0.17), Guarantee(0.8, 0.001)])
def test_the_guarantee_holds_on_800_nodes_at_any_load(load: float, guarantee: Guarantee) -> None:
    """Ranks of the choices among all nodes with room: misses stay within the binomial error."""
    state, kinds = state_of(800, seed=3)
    rng = np.random.default_rng(5)
    fill = ArrivalPlacer(state, 1, 1, 7)
    cores, number = float(state.ledger.cluster.cores.sum()), 0
    while state.ledger.free_cores.sum() > (1 - load) * cores:
        fill.place([(f"fill-{number}", kinds[int(rng.integers(len(kinds)))])])
        number += 1
    agent = PlacingAgent(state, guarantee.draws, rng)
    decisions, missed = 400, 0
    for decision in range(decisions):
        kind = kinds[decision % len(kinds)]
        proposal = agent.propose("probe", kind)
        assert proposal is not None
        missed += rank_among_all(kind, state, proposal.draw) <= guarantee.quality
    allowed = guarantee.quality**guarantee.draws
    assert missed <= decisions * allowed + 4 * (decisions * allowed * (1 - allowed)) ** 0.5 + 1


def test_an_early_stop_keeps_the_promise_with_fewer_draws() -> None:
    draw, guarantee = random.Random(3), Guarantee(0.8, 0.001)
    stop = EarlyStop(guarantee)
    chosen, drawn = [], []
    for number in range(4000):
        sample = [draw.random() for _ in range(guarantee.draws)]
        place, count = stop.choose(sample)
        assert 1 <= count <= guarantee.draws
        if number > 50:
            chosen.append(sample[place])
            drawn.append(count)
    assert np.mean(drawn) <= 12
    assert np.mean(chosen) >= 8 / 9
    assert np.mean(np.array(chosen) <= 0.8) <= 0.001 + 4 * (0.001 / len(chosen)) ** 0.5


def test_waits_follow_the_releases() -> None:
    history = ReleaseHistory()
    assert history.mean_wait() == float("inf")
    now = 0.0
    for _ in range(200):
        now += 2.0
        history.released(now)
    assert history.mean_wait() == pytest.approx(1.0)
    assert history.mean_wait(3) == pytest.approx(5.0)
