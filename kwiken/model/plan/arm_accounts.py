"""Accounts of one arm of a trial: while two plans are tried side by side, each spends what its requests earn.

With one account for both, the plan that wants more copies takes those of the other, so that a trial shows
neither plan as it would be alone. Budgets are therefore split by arm, as in experiments on markets (Liu, Mao
and Kang 2021, "Trustworthy and Powerful Online Marketplace Experimentation with Budget-split Design"). The
account of the whole service still pays for every copy, so that a trial never spends above the budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from kwiken.model.plan.accounts import BY_FLOOR, CALL, Account, Floor, LedgerBounds, grant


class ArmAccounts:
    """Accounts of one arm, which begins with its share of what the service has left.

    Args:
        bounds: what the arm's plan may spend if it has the whole service.
        stages: the same for each stage; empty where stages have no accounts.
        share: share of the requests in the arm, 0 to 1.
        floor_per_s: copies a second below which none is denied if the plan has the whole service.
        left: what the service's account has left, in micro-units; negative for a debt.
        now: present time, seconds.

    Attributes:
        service: account of the arm, for copies in all stages.
    """

    __slots__ = ("floor", "service", "stages")

    def __init__(
        self,
        bounds: LedgerBounds,
        stages: Mapping[str, LedgerBounds],
        *,
        share: float,
        floor_per_s: float,
        left: int,
        now: float,
    ) -> None:
        own = replace(bounds, burst=round(bounds.burst * share))
        self.service = Account(own)
        self.service.endow(round(left * share) - own.burst, now)
        self.floor = Floor(floor_per_s * share)
        self.stages = {name: Account(each) for name, each in stages.items()}


def grant_in_arm(
    arm: ArmAccounts,
    service: Account,
    cost: int,
    now: float,
    *,
    floor: Floor | None = None,
    stage: Account | None = None,
    name: str = "",
    denied: int | None = None,
    spare: float = inf,
) -> int:
    """Grant a copy and charge it to the arm and to the service, or deny it and charge nothing.

    The service's account keeps nothing back for calls that were denied before: the arm's does.

    Args:
        cost: cost of the copy, in micro-units of a request's cost.
        now: present time, seconds.
        stage: account of the stage for all arms; None to charge no stage.
        name: name of the stage, if it is charged.
        denied: number of earlier denials of the same call, as in `Account.refusal`.
        spare: spare capacity of the present load, as a share of the work; none at 0.

    Returns:
        `WITHIN` or `BY_FLOOR` if the copy is granted, else the bound that denied it.
    """
    own = arm.stages[name] if stage is not None else None
    verdict = grant(arm.service, cost, now, floor=arm.floor, stage=own, denied=denied, spare=spare)
    if verdict > BY_FLOOR:
        service.denied[verdict] += 1
        if stage is not None:
            stage.denied[verdict] += 1
        return verdict
    verdict = grant(service, cost, now, floor=floor, stage=stage, spare=spare)
    if verdict > BY_FLOOR:
        arm.service.refund(cost, arm.service.head)
        if own is not None:
            own.refund(CALL, own.head)
    return verdict
