"""Judgement by blocks of time: plans made on the first blocks of a profile are judged on the next one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.errors import InputError
from kwiken.base.jobs import Job, Spread, one_by_one
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.cost_models import CostModel
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.tail.judging.judge_plan import CORRELATIONS, compared, judge_segments
from kwiken.tail.judging.judged_requests import MIN_REQUESTS, Segment
from kwiken.tail.judging.judgement_document import Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

MIN_BLOCKS = 2


def judge_blocks(
    profile: Profile,
    blocks: int,
    *,
    budget: float,
    objective: str = "tail",
    cost: CostModel | None = None,
    ledger: LedgerTerms | None = None,
    sampled: float = 1.0,
    correlations: Sequence[float | None] = CORRELATIONS,
    seed: int = 0,
    spread: Spread = one_by_one,
) -> Judgement:
    """Plan on the first blocks of a profile's requests and judge on the next, for every number of blocks.

    Args:
        profile: recorded requests; divided into blocks of equally many, in order of time.
        blocks: number of blocks, 2 or more, each of at least 10 requests.
        budget: reissue budget, a share above 0 and at most 1.
        objective: objective of the plans, as `study_plan` takes it.
        cost: cost model, as `costs` takes it.
        ledger: terms of the ledger; None for the defaults.
        sampled: share of the service's requests that the profile holds, as `judge` takes it.
        correlations: correlations of copies with their calls, as `judge` takes it.
        seed: seed of all draws.
        spread: function that runs jobs: the plans of each block are one, then each way at each correlation.

    Returns:
        The judgement over all blocks but the first; its stretches are these blocks. Hindsight plans on each
        judged block itself. The ledger starts anew in each block.

    Raises:
        InputError: for too few or too small blocks, a budget or a share out of range, or where `study_plan`
            raises it.
    """
    if not 0 < budget <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {budget}", where="budget")
    if not 0 < sampled <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {sampled}", where="sampled")
    if blocks < MIN_BLOCKS:
        raise InputError(f"must be {MIN_BLOCKS} or more, not {blocks}", where="blocks")
    if profile.requests < blocks * MIN_REQUESTS:
        raise InputError(
            f"{blocks} blocks need {blocks * MIN_REQUESTS} requests, and the profile has {profile.requests}",
            where="profile",
        )
    parts = np.array_split(np.argsort(profile.started_s, kind="stable"), blocks)
    settings = PlanSettings(
        budgets=Budgets(reissue=budget), created="", objective=objective, cost=cost, ledger=ledger, seed=seed
    )
    jobs: list[Job] = []
    for k in range(1, blocks):
        earlier, later = part_of(profile, np.concatenate(parts[:k])), part_of(profile, parts[k])
        jobs.append((_planned, (earlier, later, settings, sampled)))
    return judge_segments(
        list(spread(jobs)), sampled=sampled, correlations=correlations, seed=seed, spread=spread
    )


def _planned(earlier: Profile, later: Profile, settings: PlanSettings, sampled: float) -> Segment:
    """Requests of one block with the plans that are made on those before it."""
    plan = study_plan(earlier, settings).plan
    return compared(plan, earlier, later, sampled=sampled, seed=settings.seed)
