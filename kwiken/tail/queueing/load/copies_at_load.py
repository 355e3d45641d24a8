"""Reissue policies simulated stage by stage at one load; results are reused for almost equal policies."""

from __future__ import annotations

from typing import Final

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Plan
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.load.guard import (
    CALLS_PER_COMPARISON,
    FIRST_CALLS,
    QUIET,
    CopyEffect,
    calls_each,
    copy_effect,
)
from kwiken.tail.queueing.load.simulate import policies_of
from kwiken.tail.queueing.load.stage_model import LoadModel

# relative gain of p99 and of the mean beyond it that a comparison with few calls can prove
SURE_CHANGE: Final = 0.1
POLICY_TOLERANCE: Final = 0.02  # relative change of a policy for which its last comparison is reused


class CopiesAtLoad:
    """Effect of reissue policies on their own stages, at one load.

    Args:
        load: load as a factor of the profile's; above 0.
        seed: seed of all draws.
    """

    def __init__(self, model: LoadModel, load: float, seed: int) -> None:
        self.model, self.load, self._seed = model, load, seed
        # newest by stage: policy, number of calls, result
        self._effects: dict[str, tuple[Reissue, int, CopyEffect]] = {}
        self._calls = CALLS_PER_COMPARISON
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
        self._calls = min(
            self._calls, calls_each(len(busy))
        )  # never raised, so that cached effects stay valid
        for name, policy in policies_of(self.model, plan).items():
            if name not in busy:
                added[name] = policy.fraction
                continue
            found = self._effect(name, policy)
            if found.hurts:
                refused[name] = policy
            else:
                added[name] = max(0.0, found.extra_load)
        return refused, added

    def _effect(self, name: str, policy: Reissue) -> CopyEffect:
        """Simulate a policy at the planned load, or reuse the last comparison if the policy hardly changed.

        The comparison is with the policy that was simulated, so that many small changes cause a new one too.
        """
        tried, calls, last = self._effects.get(name, (None, 0, None))
        if tried is not None and last is not None and calls == self._calls and _close(tried, policy):
            return last
        found = self._effect_with(name, policy, FIRST_CALLS) if self._calls >= 2 * FIRST_CALLS else None
        if found is None or found.hurts or not found.changes_by(SURE_CHANGE):
            found = self._effect_with(name, policy, self._calls)
        self._effects[name] = (policy, self._calls, found)
        return found

    def _effect_with(self, name: str, policy: Reissue, calls: int) -> CopyEffect:
        """Simulate with so many calls; the run without copies is cached, as no policy changes it."""
        found = copy_effect(
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
