"""Choice of the replica for a first attempt: least calls in flight times expected latency, among up to 16.

A call goes to the replica with the least product of calls in flight and expected latency. Replicas whose
products are nearly equal count as equal: otherwise noise in the estimates would send all calls of a quiet
stage to one replica. The rule was compared with eight others on a simulator and live
(docs/decisions/replica-choice.md).

Two additions serve replicas that stall:

1. The age of the oldest call without an answer counts as latency, so a paused replica is avoided from its
   first slow call on, long before anything times out.
2. When a copy wins, the slow call is cancelled and the paused replica would look idle. It therefore counts as
   unresponsive since that call until it answers a call or a probe. Without this rule a plan sent several
   calls into each pause where no plan sent one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp2, inf
from typing import Final, Protocol, runtime_checkable

from kwiken.runtime.decisions.choice.replica_state import Outliers, ReplicaState
from kwiken.runtime.wire.transport.base import Reply

MAX_CANDIDATES: Final = 16  # replicas among which one choice is made
# Ratio of two scores from which on they count as equal.
EQUAL_SCORES: Final = 0.8
LATENCY_GAIN: Final = 0.1  # weight of a new latency in the estimate
# One sample counts at most as this multiple of the estimate, so that one straggler moves it little.
MAX_SAMPLE_FACTOR: Final = 3.0
# Age up to which a replica's report of its queue, and its latency estimate, are used unchanged.
MAX_REPORT_AGE_S: Final = 1.0
ESTIMATE_HALF_LIFE_S: Final = 1.0  # of a replica's relative latency, as a logarithm, without news
MAX_RATIO: Final = (
    16.0  # largest relative latency that is remembered without news, and the inverse of the least
)


class ChoiceContext:
    """Knowledge of the callers of a stage about all its replicas together.

    Attributes:
        rng: source of randomness of the choices.
        outliers: failure statistics.
        typical: usual latency of a call, seconds; 0 where unknown.
    """

    __slots__ = ("outliers", "rng", "typical")

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.outliers = Outliers()
        self.typical = 0.0


class ChoiceRule(Protocol):
    """Rule by which calls of a stage choose among the replicas that take calls."""

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Choose a replica for a first attempt.

        Args:
            live: replicas that are not ejected, two or more.
            now: present moment, seconds.
        """
        ...

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Score of a replica for a further attempt; lower is better.

        Args:
            now: present moment, seconds.
        """
        ...


@runtime_checkable
class LearningRule(ChoiceRule, Protocol):
    """Rule that learns from answers beyond what the picker keeps of every replica."""

    def answered(self, target: ReplicaState, now: float, took: float, reply: Reply) -> None:
        """Learn from an answer, after the estimates of the replica and of the stage have.

        Args:
            now: present moment, seconds.
            took: latency of the call, seconds.
        """
        ...


class LeastBySpeed:
    """Fewest calls in flight, weighted by speed, of up to 16 replicas: the default."""

    __slots__ = ()

    def choose(self, live: Sequence[ReplicaState], now: float, stage: ChoiceContext) -> ReplicaState:
        """Choose the replica with the least score; near ties go to the first one from a random place on."""
        candidates = rotated(live, stage.rng)
        best, least = candidates[0], inf
        heard_after = now - MAX_REPORT_AGE_S
        for target in candidates:
            # In one piece, because it runs for every candidate of every call: the factors of `score` that are
            # quick first, and the others only where these do not decide.
            if target.updated_at > heard_after:
                quick = target.latency * (len(target.waiting) + target.other_inflight + 1)
                if quick >= least:
                    continue
            found = self.score(target, now, stage)
            if found < least:
                best, least = target, found * EQUAL_SCORES
        return best

    def score(self, target: ReplicaState, now: float, stage: ChoiceContext) -> float:
        """Calls in flight after this one, times expected latency, or the age of the oldest call if longer."""
        latency = expected_latency(target, now, stage.typical or 1.0)
        score = max(latency, silence(target, now)) * (calls_in_flight(target, now) + 1)
        return score * stage.outliers.penalty(target.record, now) if target.record.share else score


def rotated(live: Sequence[ReplicaState], rng: random.Random) -> Sequence[ReplicaState]:
    """Up to `MAX_CANDIDATES` replicas in a row, from a random place on; all replicas if there are no more."""
    count = len(live)
    first = int(rng.random() * count)
    if count <= MAX_CANDIDATES:
        return [*live[first:], *live[:first]]
    last = first + MAX_CANDIDATES
    return live[first:last] if last <= count else [*live[first:], *live[: last - count]]


def calls_in_flight(target: ReplicaState, now: float) -> int:
    """Calls without an answer: own ones, and those of others while the replica's report is fresh."""
    own = len(target.waiting)
    return own + target.other_inflight if now - target.updated_at < MAX_REPORT_AGE_S else own


def expected_latency(target: ReplicaState, now: float, typical: float) -> float:
    """Latency that is expected of a replica, seconds; it returns to the stage's while there are no news.

    The distance is halved, on a scale of logarithms, each second that exceeds `MAX_REPORT_AGE_S`. After 5 s
    without news a replica however slow counts as at most 1.2 times as slow as usual, so none is avoided for
    longer.

    Args:
        now: present moment, seconds.
        typical: usual latency of the stage, seconds, above 0.
    """
    latency = target.latency
    if not latency:
        return typical
    unheard = now - target.updated_at - MAX_REPORT_AGE_S
    if unheard <= 0.0:
        return latency
    ratio = min(max(latency / typical, 1.0 / MAX_RATIO), MAX_RATIO)
    return typical * float(ratio ** exp2(-unheard / ESTIMATE_HALF_LIFE_S))


def silence(target: ReplicaState, now: float) -> float:
    """Seconds since the start of the oldest call that a replica should have answered; 0 or less for none.

    Args:
        now: present moment, seconds.
    """
    oldest = target.unresponsive_since
    if target.waiting:
        oldest = min(next(iter(target.waiting.values())), oldest)
    return now - oldest
