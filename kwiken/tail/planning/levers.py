"""Planning of partial answers and reissues for one plan, one after the other or together.

Separately (Kwiken section 5.6's practical way): stop rules are tuned on the calls as recorded, and reissues
are planned on the calls as the rules leave them. Copies recover part of the loss that the rules may cause,
which the source leaves unused; so the rules are tuned once more on the calls with their copies. Together: see
`kwiken.tail.planning.joint`. The choice between the two is made on requests later than those planned on, and
checked on all requests when both plans are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kwiken.model.plan import VERSION, Budgets, Costs, Plan, StagePlan
from kwiken.model.profile import Profile, part_of
from kwiken.tail.apportion import MIN_REQUESTS_TO_COMPARE, SPLITS
from kwiken.tail.partial import PartialSettings, PartialStudy, fan_outs, shortened, study_partial
from kwiken.tail.planning.joint import JointPlanner, tuned_with_copies
from kwiken.tail.planning.notes import LeversCompared
from kwiken.tail.planning.reissues import ReissueSettings, ReissueStudy, study_reissues
from kwiken.tail.simulation import replay, smooth_p99

MIN_LEAD = 0.002  # share of p99 by which planning together must be ahead on later requests
MIN_REPLAYED = 10_000  # smallest number of requests to judge by: each is repeated often enough
MAX_LEARNED = 2500  # earlier requests on which the two ways are compared


@dataclass(frozen=True)
class LeverVerdict:
    """Choice between planning the levers separately or together, and the reason.

    Attributes:
        taken: `separate` or `joint`.
        cuts: by way that was tried: mean share by which p99 fell on requests later than those planned on.
    """

    taken: str = "separate"
    cuts: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[LeversCompared, ...]:
        """Note on the verdict; empty where nothing was tried."""
        return (LeversCompared(self.taken, dict(self.cuts)),) if self.cuts else ()


@dataclass(frozen=True)
class Levers:
    """Stop rules and reissues of one plan.

    Attributes:
        partial: stop rules for the utility budget.
        reissues: reissues for the reissue budget, planned on the calls as the stop rules leave them.
        verdict: choice between planning the two separately or together.
    """

    partial: PartialStudy
    reissues: ReissueStudy
    verdict: LeverVerdict = field(default_factory=LeverVerdict)


@dataclass(frozen=True)
class LeverPlanner:
    """Planner of reissues and partial answers for profiles of one service (Kwiken section 5.6).

    Attributes:
        shares: cost of each stage.
        budgets: upper bounds of the spend.
        reissue: settings of the reissues.
        partial: settings of the stages that may answer in part.
    """

    shares: Costs
    budgets: Budgets
    reissue: ReissueSettings
    partial: PartialSettings

    def plan(self, profile: Profile, way: str) -> Levers:
        """Plan copies and partial answers.

        Args:
            profile: recorded requests.
            way: `separate`, `joint` or `auto`; ignored where only one lever can act, which is planned
                separately.
        """
        if not self._both(profile) or self.reissue.spread != "sumvar":
            way = "separate"
        verdict = LeverVerdict(way) if way != "auto" else self._judged(profile)
        if verdict.taken == "separate":
            return replace(self._separate(profile), verdict=verdict)
        joint = replace(self._joint(profile), verdict=verdict)
        if way == "joint":
            return joint
        separate = self._separate(profile)
        if self._p99(profile, profile, joint) <= self._p99(profile, profile, separate):
            return joint
        return replace(separate, verdict=replace(verdict, taken="separate"))

    def _both(self, profile: Profile) -> bool:
        """Whether some stage may both have copies and answer in part, with budgets for both."""
        if not (self.budgets.reissue > 0 and self.budgets.utility_loss > 0):
            return False
        return any(stage.reissuable for stage in fan_outs(profile, self.partial.stages))

    def _separate(self, profile: Profile) -> Levers:
        partial = study_partial(profile, self.budgets.utility_loss, self.partial)
        calls = shortened(profile, partial.policies, seed=self.partial.seed)
        reissues = study_reissues(calls, self.shares, self.budgets.reissue, self.reissue)
        if any(name in reissues.policies for name in partial.curves):
            partial = tuned_with_copies(
                profile, reissues.policies, self.budgets.utility_loss, self.partial, self.reissue
            )
        return Levers(partial, reissues)

    def _joint(self, profile: Profile) -> Levers:
        planner = JointPlanner(self.shares, self.budgets, self.reissue, self.partial)
        return Levers(*planner.plan(profile))

    def _judged(self, profile: Profile) -> LeverVerdict:
        """Choose a way by plans made on earlier requests and judged on later ones."""
        if profile.requests < MIN_REQUESTS_TO_COMPARE:
            return LeverVerdict()
        objective = "tail" if self.reissue.objective == "auto" else self.reissue.objective
        quick = replace(self, reissue=replace(self.reissue, objective=objective))
        found = [quick.cuts_of(profile, learned, judged) for learned, judged in SPLITS]
        cuts = {way: float(np.mean([each[way] for each in found])) for way in ("separate", "joint")}
        ahead = cuts["joint"] > cuts["separate"] + MIN_LEAD
        return LeverVerdict("joint" if ahead else "separate", cuts)

    def cuts_of(self, profile: Profile, learned: float, judged: float) -> dict[str, float]:
        """By way: share by which p99 of later requests falls under a plan of the earlier ones.

        Args:
            profile: recorded requests.
            learned: share of the requests to plan on, the earliest.
            judged: share of the requests at which the judged ones, which follow the learned, end.
        """
        order = np.argsort(profile.started_s, kind="stable")
        count = int(learned * len(order))
        early = part_of(profile, order[: count : max(1, count // MAX_LEARNED)])
        late = part_of(profile, order[count : int(judged * len(order))])
        base = smooth_p99(late.latency_ms)
        ways = {"separate": self._separate(early), "joint": self._joint(early)}
        return {way: 1.0 - self._p99(early, late, found) / base for way, found in ways.items()}

    def _p99(self, learned: Profile, judged: Profile, levers: Levers) -> float:
        """Smoothed p99 of requests, milliseconds, under a plan made on others."""
        rows = np.repeat(np.arange(judged.requests), max(1, MIN_REPLAYED // judged.requests))
        plan = self.draft(learned, levers)
        settings = self.reissue
        found = replay(judged, plan, rows, seed=settings.seed + 1, copy_correlation=settings.copy_correlation)
        return smooth_p99(found.after_ms)

    def draft(self, profile: Profile, levers: Levers, created: str = "") -> Plan:
        """Plan with these levers, without an entry for the requests' own time, which no policy can change.

        Args:
            profile: requests that were planned on.
            levers: stop rules and reissues.
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
                )
                for stage in profile.stages
                if not stage.own_time
            },
        )
