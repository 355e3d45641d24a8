"""Judgement of a plan as a document: percentiles, spend and denied copies of each way to spend the budget."""

from __future__ import annotations

import msgspec

from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Ladder


class _Struct(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Cut(_Struct, frozen=True):
    """Fall of a percentile, with its confidence interval (90%, from a block bootstrap).

    Attributes:
        share: share by which the percentile falls; below 0 where it rises.
        low: lower bound of the share.
        high: upper bound of the share.
    """

    share: float
    low: float
    high: float


class StretchOutcome(_Struct, frozen=True):
    """Outcome of a plan in one stretch of time.

    Attributes:
        after: ladder of the requests with the plan, milliseconds.
        spent: extra work, as a share of all work.
        denied: share of the wanted copies' cost that the ledger denied; 0 where none were wanted.
    """

    after: Ladder
    spent: float
    denied: float


class Arm(_Struct, frozen=True):
    """Outcome of one way to spend the budget.

    Attributes:
        way: `plan`; `even`, the same budget for every stage; `hindsight`, planned on the judged requests.
        correlation: correlation of the normal scores of a copy and its call; None for the one that recorded
            pairs show, 0 where there are none.
        after: ladder of all judged requests, milliseconds.
        cuts: fall of each percentile, by field of `Ladder`.
        spent: extra work, as a share of all work.
        spent_between: confidence interval of the spend.
        denied: share of the wanted copies' cost that the ledger denied.
    """

    way: str
    correlation: float | None
    after: Ladder
    cuts: dict[str, Cut]
    spent: float
    spent_between: tuple[float, float]
    denied: float
    stretches: tuple[StretchOutcome, ...]


class Stretch(_Struct, frozen=True):
    """Stretch of time, without any plan.

    Attributes:
        start_s: start, seconds since 1970.
        end_s: end, seconds since 1970.
        before: ladder of the requests, milliseconds.
        recording: name of the recording that the stretch is the whole of; None for a part of the only one.
    """

    start_s: float
    end_s: float
    requests: int
    before: Ladder
    recording: str | None = None


class Judgement(_Struct, frozen=True):
    """Judgement of a plan, or of the plans made block by block, on requests later than those planned on.

    Attributes:
        requests: number of judged requests; p99 rests on a hundredth of them.
        budget: reissue budget, as a share of all work.
        ledger: terms on which the budget was granted.
        before: ladder of the judged requests without any plan, milliseconds.
        stretches: stretches of time, in order; for a judgement by blocks the judged blocks, and for one of
            several recordings the recordings.
        arms: outcome of every way to spend the budget, at every correlation of copies with their calls.
        in_sample: whether the plan was learned from the very requests that it is judged on, so that its cut
            says little of later ones.
        unshown: stages with copies of which no trace shows that a copy is quick when its call is slow: the
            plan's cut holds if a copy is as quick as a usual call, and its interval says nothing.
    """

    service: str
    requests: int
    budget: float
    ledger: LedgerTerms
    before: Ladder
    stretches: tuple[Stretch, ...]
    arms: tuple[Arm, ...]
    in_sample: bool = False
    unshown: tuple[str, ...] = ()

    def arm(self, way: str, correlation: float | None = None) -> Arm:
        """Outcome of one way at one correlation.

        Args:
            way: way to spend the budget, as named by `Arm`.
            correlation: correlation of copies with their calls; None for the one that pairs show.

        Raises:
            KeyError: where it was not judged.
        """
        for arm in self.arms:
            if (arm.way, arm.correlation) == (way, correlation):
                return arm
        raise KeyError((way, correlation))
