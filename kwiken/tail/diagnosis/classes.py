"""Effect of a plan by class of request: latencies before and after, and share of the copies' cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.latency import ladder
from kwiken.model.plan.plan import Ladder, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.simulation.trace_driven import replay

MIN_REPLAYED = 20_000  # smallest number of requests to replay: each of the profile's is repeated often enough


@dataclass(frozen=True)
class ClassOutcome:
    """Effect of a plan on one class of requests.

    Attributes:
        requests: number of the profile's requests in the class.
        share: share of all requests in the class.
        before: ladder of their latencies without the plan, milliseconds.
        after: ladder of their latencies with the plan, milliseconds.
        spent: share of the cost of all copies that the class causes.
    """

    name: str
    requests: int
    share: float
    before: Ladder
    after: Ladder
    spent: float

    @property
    def p99_cut(self) -> float:
        """Relative fall of the class's p99, as a share."""
        return 1.0 - self.after.p99_ms / self.before.p99_ms if self.before.p99_ms > 0 else 0.0


def by_class(profile: Profile, plan: Plan) -> tuple[ClassOutcome, ...]:
    """Effect of a plan on each class of the profile's requests, most frequent first.

    A plan has one policy per stage, as the runtime knows no classes; so one class may get most of the copies.

    Args:
        profile: recorded requests with their `classes`.

    Raises:
        InputError: for a profile without classes.
    """
    if profile.classes is None:
        raise InputError("the profile has no classes of requests", where="classes")
    rows = np.repeat(np.arange(profile.requests), -(-MIN_REPLAYED // max(1, profile.requests)))
    outcome = replay(profile, plan, rows, seed=0)
    kinds, total = profile.classes[rows], float(outcome.expected_spent.sum())
    found = []
    for number, name in enumerate(profile.class_names):
        mine = kinds == number
        count = int((profile.classes == number).sum())
        if count:
            found.append(
                ClassOutcome(
                    name=name,
                    requests=count,
                    share=count / profile.requests,
                    before=ladder(outcome.before_ms[mine]),
                    after=ladder(outcome.after_ms[mine]),
                    spent=float(outcome.expected_spent[mine].sum()) / total if total > 0 else 0.0,
                )
            )
    return tuple(sorted(found, key=lambda each: -each.requests))
