"""Held-out evaluation: plans made on the first part of a profile, judged on the rest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kwiken.errors import InputError
from kwiken.plan import Budgets, Ladder, Plan
from kwiken.planning.planner import MIN_REQUESTS, study_plan
from kwiken.planning.settings import PlanSettings
from kwiken.profile import CostModel, Profile, part_of
from kwiken.simulation import Simulation, replay

LEARNED_SHARE = 0.5  # share of the requests to plan on
CORRELATIONS = (0.0, 0.5)  # correlations of copies with their calls at which plans are judged
SPREADS = ("sumvar", "equal", "uniform")
MIN_REPLAYED = 20_000  # smallest number of requests to replay: each later one is repeated often enough


class HeldOutArm(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one way of spending the budget, on requests that it was not planned on.

    Attributes:
        spread: `sumvar`, the plan; `equal`, the same budget for every stage; `uniform`, the same fraction of
            calls at every stage.
        correlation: correlation of the normal scores of a copy and its call.
        after: ladder of the later requests with this plan, milliseconds.
        p99_cut: share by which p99 falls.
        spent: extra work, as a share of all work.
        of_budget: ratio of the spend to the budget.
    """

    spread: str
    correlation: float
    after: Ladder
    p99_cut: float
    spent: float
    of_budget: float


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """Results of plans made on the first part of a profile and judged on the rest.

    Attributes:
        service: name of the service.
        learned: number of requests that were planned on.
        judged: number of later requests; p99 rests on a hundredth of them.
        budget: reissue budget, as a share of all work.
        objective: objective that the plan took.
        before: ladder of the later requests without any plan, milliseconds.
        arms: results for every spread at every correlation.
    """

    service: str
    learned: int
    judged: int
    budget: float
    objective: str
    before: Ladder
    arms: tuple[HeldOutArm, ...]

    def arm(self, spread: str, correlation: float) -> HeldOutArm:
        """Result for one spread at one correlation.

        Args:
            spread: spread of the budget, as named by `HeldOutArm`.
            correlation: correlation of copies with their calls, from 0 to below 1.

        Raises:
            KeyError: where it was not judged.
        """
        for arm in self.arms:
            if (arm.spread, arm.correlation) == (spread, correlation):
                return arm
        raise KeyError((spread, correlation))


def held_out(
    profile: Profile,
    *,
    budget: float = 0.05,
    objective: str = "tail",
    cost: CostModel | None = None,
    learned: float = LEARNED_SHARE,
    correlations: Sequence[float] = CORRELATIONS,
    seed: int = 0,
) -> HeldOut:
    """Plan on the earlier requests of a profile and judge on the later ones, beside two even spreads.

    The plans do not know the correlation at which they are judged, beyond what recorded pairs show.

    Args:
        profile: recorded requests; split by their start.
        budget: reissue budget, a share above 0 and at most 1.
        objective: objective of the plan, as `study_plan` takes it; the even spreads have none.
        cost: cost model, as `costs` takes it.
        learned: share of the requests to plan on, between 0 and 1.
        correlations: correlations of copies with their calls to judge at; each from 0 to below 1.
        seed: seed of all draws.

    Raises:
        InputError: for a share outside (0, 1), a budget outside (0, 1], a profile too small to split, or
            where `study_plan` raises it.
    """
    if not 0 < learned < 1:
        raise InputError(f"must be a share between 0 and 1, not {learned}", where="learned")
    if not 0 < budget <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
    order = np.argsort(profile.started_s, kind="stable")
    count = int(learned * len(order))
    if min(count, len(order) - count) < MIN_REQUESTS:
        raise InputError(
            f"each part needs {MIN_REQUESTS} requests, and the profile has {len(order)}", where="profile"
        )
    early, later = part_of(profile, order[:count]), part_of(profile, order[count:])
    arms, taken, before = [], objective, Ladder()
    for spread in SPREADS:
        settings = PlanSettings(
            budgets=Budgets(reissue=budget),
            created="",
            objective=objective if spread == "sumvar" else "tail",
            spread=spread,
            cost=cost,
            seed=seed,
            guarded=False,  # a replay has no queues, so refused copies would count as a loss only
        )
        study = study_plan(early, settings)
        taken = study.verdict.objective if spread == "sumvar" else taken
        for rho in correlations:
            found = replayed(later, study.plan, correlation=rho, seed=seed)
            before = found.before
            arms.append(_arm(spread, rho, found, budget))
    return HeldOut(
        service=profile.service,
        learned=early.requests,
        judged=later.requests,
        budget=budget,
        objective=taken,
        before=before,
        arms=tuple(arms),
    )


def replayed(later: Profile, plan: Plan, *, correlation: float | None, seed: int) -> Simulation:
    """Simulate every request of a profile equally often under a plan.

    Args:
        later: requests to judge by.
        plan: plan made on other requests.
        correlation: correlation of copies with their calls; None for the one that recorded pairs show.
        seed: seed of the draws of copies.
    """
    rows = np.repeat(np.arange(later.requests), max(1, -(-MIN_REPLAYED // later.requests)))
    return replay(later, plan, rows, seed=seed + 1, copy_correlation=correlation)


def _arm(spread: str, correlation: float, found: Simulation, budget: float) -> HeldOutArm:
    before, after = found.before, found.after
    return HeldOutArm(
        spread=spread,
        correlation=correlation,
        after=after,
        p99_cut=1 - after.p99_ms / before.p99_ms if before.p99_ms > 0 else 0.0,
        spent=found.reissue,
        of_budget=found.reissue / budget,
    )
