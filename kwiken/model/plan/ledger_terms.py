"""Terms of the ledger: horizon of a budget, largest spend above its share within the horizon, and the floor.

The numbers of the rule that the plan's document does not state stand here too, so that the runtime, the
queueing simulator and replays of traces use the same ones.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kwiken.model.plan.accounts import CALL, REQUEST, LedgerBounds
from kwiken.model.plan.windows import HORIZON_S, MIN_HORIZON_S
from kwiken.model.service.stage import Reissue

PEAK_FACTOR: Final = 4.0
FLOOR_PER_S: Final = 3.0
MAX_HORIZON_S: Final = 7 * 86_400.0
MAX_PEAK_FACTOR: Final = 100.0
MAX_FLOOR_PER_S: Final = 1000.0
MAX_SERVICE_FLOOR_PER_S: Final = 10.0  # of a service's plan: more would be a second budget
# Share of the work above which a peak factor lifts no budget: 4 times a budget of 20% would be near a
# doubling.
MAX_PEAK_SHARE: Final = 0.3
MAX_STAGE_PEAK: Final = 0.5  # copies over 10 s for each prompt call of a stage, if its planned share is less
STAGE_SLACK: Final = 1.5  # factor by which a stage may exceed its planned fraction over the horizon
BURST_REQUESTS: Final = 50.0  # requests whose budget is the burst of a service's account
BURST_COPIES: Final = 16  # burst of a stage's account
UNSTATED_SHARE: Final = 0.1  # copies, as a share of the calls, for a policy that states no fraction
MAX_LATE_SHARE: Final = 0.5  # share of reissued calls above which every success earns
# Share of a budget of extra work that is never spent. The ledger counts work when it is done and a reader of
# traces when it was sent; the difference must not look like overspending.
RESERVE_SHARE: Final = 0.02


class LedgerTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms on which the ledger grants the budgets of a plan.

    Attributes:
        horizon_s: time over which each budget holds, seconds, from 10 s to a week.
        peak_factor: spend over any 10 s, as a multiple of the budget, from 1 to 100. The peak is never above
            30% of the work unless the budget itself is.
        floor_per_s: copies a second, from 0 to 1000, below which neither horizon nor peak denies any.
    """

    horizon_s: float = HORIZON_S
    peak_factor: float = PEAK_FACTOR
    floor_per_s: float = FLOOR_PER_S

    def __post_init__(self) -> None:
        """Check that every term is in its range."""
        for name, low, high in (
            ("horizon_s", MIN_HORIZON_S, MAX_HORIZON_S),
            ("peak_factor", 1.0, MAX_PEAK_FACTOR),
            ("floor_per_s", 0.0, MAX_FLOOR_PER_S),
        ):
            value = getattr(self, name)
            if not low <= value <= high:  # NaN fails too
                raise ValueError(f"{name} must be from {low:g} to {high:g}, not {value}")

    def peak(self, budget: float) -> float:
        """Largest spend over any 10 s, as a share of the work of these 10 s.

        Args:
            budget: share of the work that may be spent over the horizon, 0 or more.
        """
        return max(budget, min(budget * self.peak_factor, MAX_PEAK_SHARE))

    def service_bounds(self, budget: float, *, least_burst: int = 0) -> LedgerBounds:
        """Bounds of a service's account for a budget of extra work.

        Args:
            budget: share of the work that may be spent over the horizon, 0 or more.
            least_burst: smallest burst, in micro-units: what a single spend can cost.
        """
        return LedgerBounds(
            fraction=budget,
            burst=max(least_burst, round(budget * BURST_REQUESTS * REQUEST)) if budget else 0,
            peak=self.peak(budget),
            horizon_s=self.horizon_s,
        )

    def stage_bounds(self, policy: Reissue | None) -> LedgerBounds:
        """Bounds of a stage's account: its planned share, and over 10 s half a copy for each prompt call.

        The peak hardly depends on the plan. A stage that stalls may thus use the whole peak of its service,
        whatever share was planned for it, and a stage whose calls are all slow or lost earns no copies.

        Args:
            policy: reissue policy of the stage; None for no copies.
        """
        share = stage_share(policy)
        return LedgerBounds(
            fraction=share,
            burst=BURST_COPIES * CALL if share else 0,
            peak=max(MAX_STAGE_PEAK, STAGE_SLACK * share) if share else 0.0,
            horizon_s=self.horizon_s,
        )

    def utility_bounds(self, budget: float) -> LedgerBounds:
        """Bounds of the account of lost utility; one whole answer may be lost in any 10 s.

        Args:
            budget: mean loss over the horizon, as a share of the utility of whole answers, 0 or more.
        """
        return LedgerBounds(
            fraction=budget,
            burst=max(REQUEST, round(budget * BURST_REQUESTS * REQUEST)) if budget else 0,
            peak=self.peak(budget),
            peak_grace=REQUEST if budget else 0,
            horizon_s=self.horizon_s,
        )


def late_share(policy: Reissue) -> float:
    """Share of the calls, 0 to 1, that a policy expects to reach its reissue moment."""
    return min(1.0, policy.fraction / policy.probability)


def only_prompt_earn(policy: Reissue) -> bool:
    """Whether only calls that end before the reissue moment earn copies.

    Where everything is slow nothing is reissued then. A policy that reissues most calls leaves too few prompt
    calls; there every success earns.
    """
    return late_share(policy) <= MAX_LATE_SHARE


def stage_share(policy: Reissue | None) -> float:
    """Copies that a stage's own account grants over the horizon, as a share of the calls that earn.

    The planned fraction times the slack, divided by the share of calls that earn where only prompt calls do.

    Args:
        policy: reissue policy of the stage; None for no copies.
    """
    if policy is None:
        return 0.0
    planned = policy.fraction or UNSTATED_SHARE
    earning = 1.0 - late_share(policy) if only_prompt_earn(policy) else 1.0
    return min(planned * STAGE_SLACK / earning, float(policy.copies))
