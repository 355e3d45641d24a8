"""Notes on a plan: facts that its reader should know. The command line words them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kwiken.model.profile.notes import ProfileNote
from kwiken.tail.apportion.notes import ApportionNote
from kwiken.tail.partial.notes import PartialNote
from kwiken.tail.queueing.load.notes import LoadNote


@dataclass(frozen=True)
class NoP99Cut:
    """The reissue budget is expected to leave p99 where it is.

    Attributes:
        before_ms: p99 without the plan, milliseconds.
        after_ms: p99 expected with it, milliseconds.
    """

    before_ms: float
    after_ms: float


@dataclass(frozen=True)
class NoStageReissuable:
    """No stage may be reissued, so no reissue budget can cut p99."""


@dataclass(frozen=True)
class LargerBudgetHelps:
    """A larger reissue budget should cut p99.

    Attributes:
        budget: the smallest budget tried that should, as a share of all work.
        cut: share by which p99 should fall with it.
    """

    budget: float
    cut: float


@dataclass(frozen=True)
class NoBudgetHelps:
    """No larger reissue budget that is worth naming cuts p99 either.

    Attributes:
        least_cut: share by which p99 would have to fall to count.
        largest: largest budget that was tried, as a share of all work.
    """

    least_cut: float
    largest: float


@dataclass(frozen=True)
class ExpectationCorrected:
    """The plan's expectation is corrected by the results of a plan that was tried.

    Attributes:
        factor: their latency around p99, over the one that the simulation expects of the tried plan.
        low: lower bound of the factor (90% interval).
        high: upper bound of the factor.
        spent: extra work of its copies, over that which the simulation expects of it.
    """

    plan: str
    requests: int
    factor: float
    low: float
    high: float
    spent: float


@dataclass(frozen=True)
class FewRequests:
    """High percentiles rest on a few requests."""

    requests: int


@dataclass(frozen=True)
class SpendRefused:
    """Late calls come in bursts, so the ledger should refuse some of the planned spend.

    Attributes:
        share: share of the planned spend, 0 to 1.
    """

    share: float


@dataclass(frozen=True)
class CallsCancelled:
    """Calls were cancelled before they ended, so their latencies are estimates."""

    calls: int


@dataclass(frozen=True)
class CopiesCorrelated:
    """Copies are slow together with their calls.

    Attributes:
        correlations: correlation that was used, by stage.
    """

    correlations: Mapping[str, float]


@dataclass(frozen=True)
class AnswersUnread:
    """Answers of late calls lay at the gateway before it read them, which no copy shortens.

    Attributes:
        shares: share of what the slowest 5% of a stage's calls took beyond its median, by stage.
    """

    shares: Mapping[str, float]


@dataclass(frozen=True)
class CopiesAsSlow:
    """Copies would be as slow as their calls at some stages, so these get none."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class TooFewCalls:
    """Stages have too few calls for a curve, so these get no copies."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class CatchUpUnspent:
    """Help for late requests gains too little on later requests, so its budget stays unspent.

    Attributes:
        cut: share by which it would cut p99 of later requests.
    """

    cut: float


@dataclass(frozen=True)
class PriorityOnly:
    """Late requests get priority only, as no stage can be reissued at a profit or use threads.

    Attributes:
        after_ms: age of a request from which it is late, milliseconds.
        late: share of the requests that reach that age.
    """

    after_ms: float
    late: float


@dataclass(frozen=True)
class LateRequestsHelped:
    """Late requests get copies or threads.

    Attributes:
        after_ms: age of a request from which it is late, milliseconds.
        late: share of the requests that reach that age.
        reissue: names of the stages whose late calls get copies.
        threads: names of the stages whose late calls get more threads.
        cut: share by which p99 of later requests falls.
    """

    after_ms: float
    late: float
    reissue: tuple[str, ...]
    threads: tuple[str, ...]
    cut: float


@dataclass(frozen=True)
class NoThreadsForLate:
    """The catch-up budget buys more without threads for late requests."""


@dataclass(frozen=True)
class NoCopiesForLate:
    """The catch-up budget buys more without copies for late requests."""


@dataclass(frozen=True)
class PlannedAtLoad:
    """The plan accounts for load.

    Attributes:
        rate_per_s: requests a second of that load.
        factor: that load as a multiple of the profile's.
        utilisation: share of its replicas' time that is used without copies.
    """

    rate_per_s: float
    factor: float
    busiest: str
    utilisation: float


@dataclass(frozen=True)
class PlanRaisesP99:
    """The plan makes the tail worse at its load, although copies were refused where that helped.

    Attributes:
        before_ms: p99 without the plan, milliseconds.
        after_ms: p99 expected with it, milliseconds.
    """

    before_ms: float
    after_ms: float


@dataclass(frozen=True)
class StageLoad:
    """Load of a stage, and the load from which its copies hurt.

    Attributes:
        utilisation: share of its replicas' time that is used at the planned load, without copies.
        hurts_from: utilisation, a share, from which copies make its tail worse; None if not searched.
    """

    stage: str
    utilisation: float
    hurts_from: float | None


@dataclass(frozen=True)
class CopiesRefused:
    """Stages get no copies, as their replicas are so busy that copies make the tail worse."""

    stages: tuple[StageLoad, ...]


@dataclass(frozen=True)
class CopiesHurtAtHigherLoad:
    """Copies help some stages at this load and would hurt them at a higher one."""

    stages: tuple[StageLoad, ...]


@dataclass(frozen=True)
class HigherLoadNotSearched:
    """At some stages copies do not hurt at this load; higher loads were not tried.

    Attributes:
        searched: number of stages at which higher loads are tried, the busiest ones.
    """

    stages: tuple[str, ...]
    searched: int


@dataclass(frozen=True)
class NotConverged:
    """Plan and load did not converge, so the last plan is kept."""

    rounds: int


ReissueNote: TypeAlias = (
    NoP99Cut
    | NoStageReissuable
    | LargerBudgetHelps
    | NoBudgetHelps
    | ExpectationCorrected
    | FewRequests
    | SpendRefused
    | CallsCancelled
    | CopiesCorrelated
    | AnswersUnread
    | CopiesAsSlow
    | TooFewCalls
)
CatchUpNote: TypeAlias = (
    CatchUpUnspent | PriorityOnly | LateRequestsHelped | NoThreadsForLate | NoCopiesForLate
)
GuardNote: TypeAlias = (
    PlannedAtLoad
    | PlanRaisesP99
    | CopiesRefused
    | CopiesHurtAtHigherLoad
    | HigherLoadNotSearched
    | NotConverged
)
Note: TypeAlias = ReissueNote | CatchUpNote | GuardNote | ProfileNote | ApportionNote | PartialNote | LoadNote
