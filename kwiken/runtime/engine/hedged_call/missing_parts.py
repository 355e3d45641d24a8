"""Account of the parts that an answer lacks: what they were worth, and the budget that pays for them."""

from __future__ import annotations

from kwiken.model.plan.accounts import REQUEST
from kwiken.runtime.decisions.compiled_stage import CompiledStage
from kwiken.runtime.engine.hedged_call.context import Request, Shared


def miss(request: Request, stage: CompiledStage, utility: float, *, chosen: bool) -> None:
    """Record on the request that a stage's answer is worth less than a whole one.

    Args:
        chosen: whether a stop rule decided it; else a failure caused it.
    """
    lost = stage.definition.utility_weight * (1.0 - utility)
    request.lost_weight += lost
    if not chosen:
        request.failed_weight += lost
    request.partial = True


def lose(shared: Shared, request: Request, stage: CompiledStage, utility: float, *, forced: bool) -> bool:
    """Charge the utility that a stage's answer lacks; returns whether the partial answer may be given.

    The unit is a whole answer's utility. The plan states the weight of the stage's part in it: all of it
    where every part is needed, a share where parts count independently (Kwiken section 5.3). Without a plan
    the weight is the stage's share of the utility weights.
    """
    weight = (
        stage.definition.utility_weight / request.program.weight
        if stage.partial is None
        else stage.partial.weight
    )
    lost = weight * (1.0 - utility)
    return shared.ledger.lose(round(lost * REQUEST), shared.now(), forced=forced)
