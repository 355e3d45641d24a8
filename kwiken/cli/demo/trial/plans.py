"""From the traces of the learning time to both plans, apportioned and even. Blocking; run in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kwiken.cli.demo.setup import FEWEST
from kwiken.errors import InputError
from kwiken.otel.fit import fit_profile
from kwiken.plan import Budgets, Plan
from kwiken.planning import PlanStudy, study_plan
from kwiken.profile import Profile

APPORTIONED, EVEN = "sumvar", "equal"


@dataclass(frozen=True)
class Learned:
    """What the learning time taught.

    Attributes:
        profile: of the requests that began in it.
        study: the apportioned plan and its reasons.
        even: the plan that gives every stage the same amount of budget.
    """

    profile: Profile
    study: PlanStudy
    even: Plan


def learn(traces: Path, *, since_s: float, until_s: float, budget: float, seed: int) -> Learned:
    """Fit the traces and make both plans.

    Args:
        traces: the sink's folder.
        since_s: requests that began before, while warming up, are left out; seconds since 1970.
        until_s: likewise after.
        budget: for reissues, a share.
        seed: of what the planner draws.

    Raises:
        InputError: when there are too few requests.
    """
    profile = fit_profile([traces], since_s=since_s, until_s=until_s)
    if profile.requests < FEWEST:
        raise InputError(
            f"only {profile.requests} requests were traced while learning, and {FEWEST} are needed; "
            "raise --rate or --seconds",
            where="traces",
        )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    study, even = (
        study_plan(profile, budgets=Budgets(reissue=budget), spread=spread, created=created, seed=seed)
        for spread in (APPORTIONED, EVEN)
    )
    return Learned(profile, study, even.plan)
