"""Which kinds of requests gain from a plan, and which pay for it (Kwiken extension: classes of requests)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.errors import InputError
from kwiken.latency import ladder
from kwiken.plan import Ladder, Plan
from kwiken.profile import Profile
from kwiken.simulation import replay

DRAWS = 20_000  # requests to replay at least: every one so often


@dataclass(frozen=True)
class ClassOutcome:
    """What a plan does to one kind of requests.

    Attributes:
        name: of the kind.
        requests: how many of the profile's are of it.
        share: of all requests.
        before: ladder of their latencies without the plan.
        after: with it.
        spent: share of all that copies cost that goes to this kind.
    """

    name: str
    requests: int
    share: float
    before: Ladder
    after: Ladder
    spent: float

    @property
    def p99_cut(self) -> float:
        """By which share their p99 falls."""
        return 1.0 - self.after.p99_ms / self.before.p99_ms if self.before.p99_ms > 0 else 0.0


def by_class(profile: Profile, plan: Plan, *, seed: int = 0) -> tuple[ClassOutcome, ...]:
    """What a plan does to each kind of the profile's requests, most frequent first.

    A plan has one policy a stage, for the runtime knows no kinds; so one kind may get most of the copies.

    Args:
        profile: what was learned, with `classes`.
        plan: of its service.
        seed: of the draws of copies.

    Raises:
        InputError: for a profile without classes.
    """
    if profile.classes is None:
        raise InputError("the profile has no classes of requests", where="classes")
    rows = np.repeat(np.arange(profile.requests), -(-DRAWS // max(1, profile.requests)))
    played = replay(profile, plan, rows, seed=seed)
    kinds, total = profile.classes[rows], float(played.expected_spent.sum())
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
                    before=ladder(played.before_ms[mine]),
                    after=ladder(played.after_ms[mine]),
                    spent=float(played.expected_spent[mine].sum()) / total if total > 0 else 0.0,
                )
            )
    return tuple(sorted(found, key=lambda each: -each.requests))
