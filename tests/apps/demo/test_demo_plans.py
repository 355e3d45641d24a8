"""Plans of the demo: a first plan, and those made after copies were seen."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from kwiken.apps.demo.trial.plans import (
    DemoStretch,
    Learned,
    even_for_the_same_p99,
    first_plan,
    learn,
    learn_copies,
    p95_everywhere,
)
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.apps.demo.test_demo_meanwhile import write
from tests.otel.fit.test_fit_guesses import one
from tests.support.models.profiles import small_profile
from tests.support.otel.span_trees import MS

ALONE, PILOT = 600, 2000  # requests
SLOW_MS, AFTER_MS = 60.0, 5.0


def copied(number: int, copy_ms: float) -> RequestRecord:
    """A request whose slow call got a copy that takes a time from its own start."""
    request = one(number, {"a": (SLOW_MS, 1.0)})
    (stage,) = request.stages
    (call,) = stage.attempts
    sent = call.start_ns + int(AFTER_MS * MS)
    end = min(call.end_ns, sent + int(copy_ms * MS))
    won = end < call.end_ns
    call.end_ns, call.outcome = end, Outcome.CANCELLED if won else Outcome.WON
    outcome = Outcome.WON if won else Outcome.CANCELLED
    stage.attempts.append(AttemptRecord(70, 0, 1, AttemptKind.REISSUE, "r9", "n", sent, end, outcome))
    stage.end_ns = request.end_ns = end
    return request


def plans(folder: Path, copy_ms: float) -> tuple[Plan, Learned]:
    """The first plan, and what follows once each slow call's copy took a time."""
    rng = np.random.default_rng(1)
    slow = rng.random(ALONE + PILOT) < 0.03
    took = np.where(slow, SLOW_MS, rng.uniform(2, 3, ALONE + PILOT))
    requests = [one(i, {"a": (float(ms), 1.0)}) for i, ms in enumerate(took[:ALONE])]
    requests += [
        copied(i, copy_ms) if slow[i] else one(i, {"a": (float(took[i]), 1.0)})
        for i in range(ALONE, ALONE + PILOT)
    ]
    write(folder / "alone", requests[:ALONE])
    starts = [request.start_ns / 1e9 for request in requests]
    switch = (starts[ALONE - 1] + starts[ALONE]) / 2
    profile = learn(folder / "alone", [DemoStretch(starts[0] - 1, switch)])
    assert profile.requests == ALONE
    first = first_plan(profile, budget=0.05, seed=0)
    write(folder / "tried", [structs.replace(each, plan=first.digest) for each in requests[ALONE:]])
    pilot = [DemoStretch(switch, starts[-1] + 1)]
    learned = learn_copies(profile, first, folder / "tried", pilot, budget=0.05, seed=0)
    assert learned.profile.requests == ALONE
    np.testing.assert_array_equal(learned.profile.stage("a").calls_ms, profile.stage("a").calls_ms)
    return first, learned


@pytest.mark.parametrize(("copy_ms", "helps"), [(2.5, True), (SLOW_MS, False)])
def test_the_plan_knows_what_copies_did(tmp_path: Path, copy_ms: float, *, helps: bool) -> None:
    first, learned = plans(tmp_path, copy_ms)
    pairs = learned.profile.stage("a").pairs_ms
    assert pairs is not None
    assert len(pairs) >= 30
    assert first.expected is not None
    assert first.expected.after.p99_ms < 10
    plan = learned.study.plan
    assert plan.expected is not None
    assert (plan.expected.after.p99_ms < 10) is helps
    correction = plan.expected.correction
    assert correction is not None
    assert (correction.plan, correction.requests) == (first.digest, PILOT)
    assert correction.factors["p50_ms"] == pytest.approx(1.0, abs=0.02)
    assert (plan.stages["a"].reissue is not None) is helps


def test_requests_of_a_void_stretch_are_not_learned_from(tmp_path: Path) -> None:
    """The middle third of both parts is void: its requests are slow, and no stretch that counts has them."""
    void = np.arange(900) // 300 == 1
    rng = np.random.default_rng(2)
    took = np.where(void, 500.0, rng.uniform(2, 3, 900) + 60.0 * (rng.random(900) < 0.05))
    requests = [one(i, {"a": (float(ms), 1.0)}) for i, ms in enumerate([*took, *took])]
    edges = [request.start_ns / 1e9 - 0.01 for request in requests[::300]] + [requests[-1].start_ns / 1e9 + 1]
    parts = [DemoStretch(since_s, until_s) for since_s, until_s in pairwise(edges)]
    write(tmp_path / "alone", requests[:900])
    profile = learn(tmp_path / "alone", [parts[0], parts[2]])
    assert profile.requests == 600
    assert profile.latency_ms.max() < 100
    first = first_plan(profile, budget=0.05, seed=0)
    write(tmp_path / "tried", [structs.replace(each, plan=first.digest) for each in requests[900:]])
    learned = learn_copies(profile, first, tmp_path / "tried", [parts[3], parts[5]], budget=0.05, seed=0)
    assert learned.study.plan.expected is not None
    correction = learned.study.plan.expected.correction
    assert correction is not None
    assert correction.requests == 600


def test_too_few_requests_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [one(0, {"a": (2.0, 1.0)})])
    with pytest.raises(InputError, match="only 1 requests were traced while learning"):
        learn(tmp_path, [DemoStretch(0.0, 1e10)])


def test_copies_at_p95_are_a_twentieth_of_the_calls_of_every_stage() -> None:
    profile = small_profile()
    plan = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.01), created="")).plan
    everywhere = p95_everywhere(profile, plan)
    for stage in profile.stages:
        policy = everywhere.stages[stage.name].reissue
        assert (policy is not None) == stage.reissuable
        if policy is not None:
            calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
            assert (calls > policy.after_ms).mean() == pytest.approx(0.05, abs=0.005)
    assert everywhere.budgets.reissue > 0.05 > plan.budgets.reissue
    assert Plan.from_json(everywhere.to_json()) == everywhere


def test_an_even_spread_needs_more_for_the_p99_of_a_plan(tmp_path: Path) -> None:
    """Of three stages one stalls, so an even spread pays for three what the plan pays for one."""
    rng = np.random.default_rng(4)
    took = [
        {name: (float(ms), 1.0) for name, ms in zip("abc", row, strict=True)}
        for row in rng.uniform(2, 3, (900, 3)) + [0.0, 80.0, 0.0] * (rng.random((900, 1)) < 0.03)
    ]
    profile = fit_profile([write(tmp_path, [one(i, each) for i, each in enumerate(took)])])
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.012), created=""))
    same = even_for_the_same_p99(profile, study, seed=0)
    assert same is not None
    assert same > 1.5 * study.allocation.spent
