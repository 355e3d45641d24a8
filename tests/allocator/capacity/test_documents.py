"""Documents of a sizing: the plan of copies and the placement of replicas tell what was simulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.capacity.documents import placement_of, plan_of
from kwiken.allocator.capacity.marginals import marginals
from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.tail.queueing.load.decompose import load_model
from tests.allocator.capacity.test_moves import LARGE, NAMES, NODES, PROFILE, SMALL, search_of


def test_documents_tell_sizes_policies_and_what_they_promise() -> None:
    search = search_of(rate_per_s=100.0)
    trials, chosen = search.trials, (StageSize(3, LARGE, 4), StageSize(2, SMALL, 0))
    before, after = (verify(trials, chosen, seed=1, copies=copies) for copies in (False, True))
    assert before is not None
    assert after is not None
    plan = plan_of(trials, chosen, costs(PROFILE), before=before, after=after, created="2026-01-01T00:00:00Z")
    policy = trials.policy(0, chosen[0])
    assert policy is not None
    assert plan.stages["fetch"].reissue == policy
    assert plan.stages["rank"].reissue is None
    assert plan.budgets.reissue == pytest.approx(costs(PROFILE).stages["fetch"] * policy.fraction, rel=1e-3)
    expected = plan.expected
    assert expected is not None
    spent = costs(PROFILE).stages["fetch"] * after.copies["fetch"]
    assert expected.spent.reissue == pytest.approx(spent, rel=1e-3)
    for told, verified in ((expected.bounds.before, before), (expected.bounds.after, after)):
        low, high = np.quantile(verified.percentiles()[:, 3], [0.05, 0.95])
        assert told["p99_ms"][0] <= low * 1.05
        assert told["p99_ms"][1] >= high * 0.95
        assert told["p99_ms"][0] <= verified.p99_ms <= told["p99_ms"][1]
    placement = placement_of(trials, chosen, verified=after, target_ms=after.p99_ms * 1.02)
    assert (placement.scheduler, placement.confidence) == ("size", 0.5)
    for workload, size, node in zip(placement.workloads, chosen, ("large", "small"), strict=True):
        assert [(one.node, one.cores, one.memory_gb) for one in workload.replicas] == [
            (node, 1.0, 1.0)
        ] * size.replicas
        assert workload.required == workload.expected == workload.needed == pytest.approx(100.0)
        assert workload.probability == after.probability(after.p99_ms * 1.02)
        price = search.supply.price[0, size.node_class]
        assert workload.cost_per_hour == pytest.approx(size.replicas * price)


def test_stages_without_replicas_have_no_place_and_no_price() -> None:
    first, second = PROFILE.stages
    unknown = replace(first, busy_ms=None, busy_variation=None, replicas=None)
    half = np.where((np.arange(1000) % 2 == 0)[:, None], np.nan, second.calls_ms)
    model = load_model(replace(PROFILE, stages=(unknown, replace(second, calls_ms=half))))
    supply = Supply(NAMES, {}, nodes_from_toml(NODES, where="nodes.toml"))
    trials = StageTrials(model, 100.0, supply, seed=0, requests=500)
    chosen = (StageSize(0), StageSize(2, LARGE))
    verified = verify(trials, chosen, seed=1, most=500)
    assert verified is not None
    placement = placement_of(trials, chosen, verified=verified, target_ms=100.0)
    (workload,) = placement.workloads
    assert workload.stage == "rank"
    assert workload.required == pytest.approx(50.0)
    search = Search(trials, costs(PROFILE), 0.1)
    assert search.cheapest_start()[0] == StageSize(0)
    moves = [one.move for one in marginals(search, chosen) if one.stage == "fetch"]
    assert moves == ["more copies"]
    assert search.cheapest(0.0).sizes[0].replicas == 0
