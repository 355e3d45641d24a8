"""Plans of the trial, apportioned and even, from traces of the learning time. Slow: run in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kwiken.cli.demo.setup import MIN_LEARN_REQUESTS
from kwiken.errors import InputError
from kwiken.otel.fit import fit_profile
from kwiken.plan import Budgets, Plan
from kwiken.planning import PlanSettings, PlanStudy, study_plan
from kwiken.profile import Profile

APPORTIONED, EVEN = "sumvar", "equal"


@dataclass(frozen=True)
class Learned:
    """Result of the learning time.

    Attributes:
        profile: profile of the requests that began in it.
        study: the apportioned plan and its reasons.
        even: the plan that gives every stage the same amount of budget.
    """

    profile: Profile
    study: PlanStudy
    even: Plan


def learn(traces: Path, *, since_s: float, until_s: float, budget: float, seed: int) -> Learned:
    """Fit the traces and make both plans.

    Args:
        traces: folder of the spans.
        since_s: end of the warm-up, in seconds since 1970; requests that began before are left out.
        until_s: end of the learning time, in seconds since 1970; requests that began after are left out.
        budget: budget for reissues, as a share from 0 to 1.
        seed: seed of the planner's random numbers.

    Raises:
        InputError: when there are too few requests.
    """
    profile = fit_profile([traces], since_s=since_s, until_s=until_s)
    if profile.requests < MIN_LEARN_REQUESTS:
        raise InputError(
            f"only {profile.requests} requests were traced while learning, "
            f"and {MIN_LEARN_REQUESTS} are needed; raise --rate or --seconds",
            where="traces",
        )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    study, even = (
        study_plan(
            profile,
            PlanSettings(budgets=Budgets(reissue=budget), spread=spread, created=created, seed=seed),
        )
        for spread in (APPORTIONED, EVEN)
    )
    return Learned(profile, study, even.plan)
