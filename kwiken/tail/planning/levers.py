"""Planning of partial answers and reissues for one plan, one after the other (Kwiken section 5.6).

Stop rules are tuned on the calls as recorded, and reissues are planned on the calls as the rules leave them.
Copies recover part of the loss that the rules may cause, which the source leaves unused; so the rules are
tuned once more on the calls with their copies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kwiken.base.arrays import Floats
from kwiken.model.plan import VERSION, Budgets, Costs, Plan, StagePlan
from kwiken.model.profile import Profile
from kwiken.model.service import Reissue
from kwiken.tail.curves import copy_generator
from kwiken.tail.partial import PartialSettings, PartialStudy, loss_weights, shortened, study_partial
from kwiken.tail.planning.reissues import ReissueSettings, ReissueStudy, study_reissues
from kwiken.tail.simulation import StageReplay

MAX_JUDGING_DRAWS = 4  # draws of copies on which a rule's loss is judged
MAX_JUDGED_CALLS = 1 << 22  # calls in all of these draws; for a wide fan-out one draw is enough
SEED_STEP = 7919  # difference of the seeds of two draws


@dataclass(frozen=True)
class Levers:
    """Stop rules and reissues of one plan.

    Attributes:
        partial: stop rules for the utility budget.
        reissues: reissues for the reissue budget, planned on the calls as the stop rules leave them.
    """

    partial: PartialStudy
    reissues: ReissueStudy


@dataclass(frozen=True)
class LeverPlanner:
    """Planner of reissues and partial answers for profiles of one service (Kwiken section 5.6).

    Attributes:
        shares: cost of each stage.
        partial: settings of the stages that may answer in part.
    """

    shares: Costs
    budgets: Budgets
    reissue: ReissueSettings
    partial: PartialSettings

    def plan(self, profile: Profile) -> Levers:
        """Plan copies and partial answers."""
        partial, calls = PartialStudy(), profile
        if self.budgets.utility_loss > 0 or self.partial.stages or self.partial.weights:
            partial = study_partial(profile, self.budgets.utility_loss, self.partial)
            calls = shortened(profile, partial.policies, seed=self.partial.seed)
        reissues = study_reissues(calls, self.shares, self.budgets.reissue, self.reissue)
        if any(name in reissues.policies for name in partial.curves):
            partial = tuned_with_copies(
                profile, reissues.policies, self.budgets.utility_loss, self.partial, self.reissue
            )
        return Levers(partial, reissues)

    def draft(self, profile: Profile, levers: Levers, created: str = "") -> Plan:
        """Plan with these levers, without an entry for the requests' own time, which no policy can change.

        Args:
            created: time of creation to note in the plan, RFC 3339.
        """
        return Plan(
            version=VERSION,
            service=profile.service,
            created=created,
            profile=profile.digest,
            budgets=self.budgets,
            cost=self.shares,
            stages={
                stage.name: StagePlan(
                    match=stage.match,
                    reissue=levers.reissues.policies.get(stage.name),
                    partial=levers.partial.policies.get(stage.name),
                    once=not stage.reissuable,
                )
                for stage in profile.stages
                if not stage.own_time
            },
        )


def tuned_with_copies(
    profile: Profile,
    policies: Mapping[str, Reissue],
    budget: float,
    partial: PartialSettings,
    reissue: ReissueSettings,
) -> PartialStudy:
    """Stop rules tuned on fan-outs' calls with their copies, and judged on other draws of copies.

    A loss of a thousandth is a few dozen answers, so a rule tuned on one draw loses up to half as much again
    on others.

    Args:
        budget: mean utility that may be lost, as a share.
        partial: settings for the stages that may answer in part.
        reissue: settings with the correlation of copies and their calls.
    """
    names = tuple(loss_weights(profile, partial))
    cells = sum(profile.stage(name).calls_ms.size for name in names)
    judges = max(1, min(MAX_JUDGING_DRAWS, MAX_JUDGED_CALLS // max(1, cells)))
    calls, *others = [
        raced_calls(
            profile,
            policies,
            names,
            seed=partial.seed + draw * SEED_STEP,
            copy_correlation=reissue.copy_correlation,
        )
        for draw in range(1 + judges)
    ]
    return study_partial(profile, budget, partial, calls_ms=calls, judged_ms=others)


def raced_calls(
    profile: Profile,
    policies: Mapping[str, Reissue],
    names: Collection[str],
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Floats]:
    """Answer times of fan-outs' shards under reissue policies.

    Args:
        seed: seed of copies and of their probabilities.
        copy_correlation: correlation of copies with their calls; None for the one that recorded pairs show.

    Returns:
        By stage: (n, width) milliseconds; NaN for no call.
    """
    found = {}
    for i, stage in enumerate(profile.stages):
        if stage.name in names:
            stage_replay = StageReplay(
                stage, 0.0, copy_generator(seed, i), copy_correlation=copy_correlation, predrawn=True
            )
            found[stage.name] = stage_replay.raced(policies.get(stage.name))
    return found
