"""Settings of the planner, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kwiken.base.errors import InputError
from kwiken.model.plan import Budgets, LedgerTerms
from kwiken.model.profile import CostModel
from kwiken.tail.apportion import INSURANCE, OBJECTIVES, SPREADS
from kwiken.tail.queueing.load import QueueSettings


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Settings of a plan. Budgets and the time of creation are needed; all else has a default.

    Attributes:
        budgets: upper bounds of the spend, by lever.
        created: RFC 3339 time to note in the plan.
        objective: `tail`, the stages' variances and means by their effect on p99; `variance`, the sum of the
            variances alone, as in the source.
        cost: cost model, as `costs` takes it.
        spread: `sumvar`; or, for comparison, `equal` (the same budget for every stage) or `uniform` (the same
            fraction of calls at every stage).
        insurance: share of the reissue budget, 0 to 1, that gives every stage the same share of copies,
            because what has not stalled may stall tomorrow; not for `variance`, which is the source's.
        ledger: terms of the ledger, which the plan states, and whose refusals the expectation includes; None
            for the default terms, and an expectation without refusals. See `expect`.
        seed: seed of the draws behind the expectation.
        copy_correlation: correlation of the normal scores of a copy and its call, at every stage; 0 for
            independent copies; by default the one that each stage's pairs show, and 0 without pairs.
        partial: names of the fan-outs whose answers may be partial; by default all, if there is a utility
            budget.
        utility_weights: relative part of each stage in the utility of the whole answer, where parts count
            independently; by default an answer needs every stage's part.
        guarded: whether to account for the load of copies, where some stage is busy enough for it to matter,
            and send none where that hurts.
        load: load to plan for, as a factor of the profile's, which is accounted for in any case; None for
            the profile's own, accounted for where it matters.
        queues: what is known of replicas and queues beside the profile.

    Raises:
        InputError: for an unknown objective or spread, settings that do not go together, a load that is not a
            finite number above 0, or an insurance that is no share.
    """

    budgets: Budgets
    created: str
    objective: str = "tail"
    cost: CostModel | None = None
    spread: str = "sumvar"
    insurance: float = INSURANCE
    ledger: LedgerTerms | None = None
    seed: int = 0
    copy_correlation: float | None = None
    partial: Collection[str] | None = None
    utility_weights: Mapping[str, float] | None = None
    guarded: bool = True
    load: float | None = None
    queues: QueueSettings = field(default_factory=QueueSettings)

    def __post_init__(self) -> None:
        _check_known("objective", self.objective, OBJECTIVES)
        _check_known("spread", self.spread, SPREADS)
        if not 0 <= self.insurance <= 1:
            raise InputError(f"must be a share from 0 to 1, not {self.insurance}", where="insurance")
        if self.load is not None and not 0 < self.load < math.inf:
            raise InputError(f"must be a finite number above 0, not {self.load}", where="load")
        if not self.guarded and (self.load is not None or self.queues != QueueSettings()):
            where = "queues" if self.load is None else "load"
            raise InputError("has no effect on a plan that leaves load out", where=where)


def _check_known(where: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        raise InputError(f"must be one of {', '.join(known)}, not {given!r}", where=where)
