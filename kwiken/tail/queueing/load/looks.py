"""Reissue policies simulated stage by stage at one load; results are reused for almost equal policies."""

from __future__ import annotations

from typing import Final

from kwiken.base.arrays import Floats
from kwiken.model.plan import Plan
from kwiken.model.service import Reissue
from kwiken.tail.queueing.load.guard import CALLS_PER_LOOK, QUIET, SCOUT_CALLS, Look, calls_each, look
from kwiken.tail.queueing.load.simulate import policies_of
from kwiken.tail.queueing.load.stage_model import LoadModel

# relative gain of p99 and of the mean beyond it that a look with few calls can prove
SURE_CHANGE: Final = 0.1
POLICY_TOLERANCE: Final = 0.02  # relative change of a policy for which its last look is reused


class CopiesAtLoad:
    """Effect of reissue policies on their own stages, at one load.

    Args:
        load: load as a factor of the profile's; above 0.
        seed: seed of all draws.
    """

    def __init__(self, model: LoadModel, load: float, seed: int) -> None:
        self.model, self.load, self._seed = model, load, seed
        # newest by stage: policy, number of calls, result
        self._looks: dict[str, tuple[Reissue, int, Look]] = {}
        self._calls = CALLS_PER_LOOK
        # latencies without copies, by stage and number of calls
        self._alone: dict[tuple[str, int], Floats] = {}

    def judge(self, plan: Plan) -> tuple[dict[str, Reissue], dict[str, float]]:
        """Policies that make their stage's tail worse, and the work that copies add at the other stages.

        Returns:
            Harmful policies by stage; and for every stage the work of copies, as a share of that of calls.
        """
        refused: dict[str, Reissue] = {}
        added = dict.fromkeys(self.model.stages, 0.0)
        busy = self.busy(plan)
        self._calls = min(self._calls, calls_each(len(busy)))  # never raised, so that cached looks stay valid
        for name, policy in policies_of(self.model, plan).items():
            if name not in busy:
                added[name] = policy.fraction
                continue
            found = self._look(name, policy)
            if found.hurts:
                refused[name] = policy
            else:
                added[name] = max(0.0, found.extra_load)
        return refused, added

    def _look(self, name: str, policy: Reissue) -> Look:
        """Simulate a policy at the planned load, or reuse the last look if the policy hardly changed.

        The comparison is with the policy that was simulated, so that many small changes cause a new look too.
        """
        tried, calls, last = self._looks.get(name, (None, 0, None))
        if tried is not None and last is not None and calls == self._calls and _close(tried, policy):
            return last
        found = self._look_at(name, policy, SCOUT_CALLS) if self._calls >= 2 * SCOUT_CALLS else None
        if found is None or found.hurts or not found.changes_by(SURE_CHANGE):
            found = self._look_at(name, policy, self._calls)
        self._looks[name] = (policy, self._calls, found)
        return found

    def _look_at(self, name: str, policy: Reissue, calls: int) -> Look:
        """Simulate with so many calls; the run without copies is cached, as no policy changes it."""
        found = look(
            self.model.stages[name],
            policy,
            factor=self.load,
            seed=self._seed,
            calls=calls,
            alone_ms=self._alone.get((name, calls)),
        )
        self._alone[name, calls] = found.alone_ms
        return found

    def busy(self, plan: Plan) -> dict[str, Reissue]:
        """Reissue policies of the stages whose utilisation reaches `QUIET`, by stage."""
        return {
            name: policy
            for name, policy in policies_of(self.model, plan).items()
            if self.model.stages[name].station.replicas is not None
            and self.model.stages[name].busy_at(self.load) >= QUIET
        }


def _close(one: Reissue, other: Reissue) -> bool:
    """Whether two policies differ by at most `POLICY_TOLERANCE`."""
    pairs = (
        (one.after_ms, other.after_ms),
        (one.probability, other.probability),
        (one.fraction, other.fraction),
    )
    return one.copies == other.copies and all(abs(a - b) <= POLICY_TOLERANCE * max(a, b) for a, b in pairs)
