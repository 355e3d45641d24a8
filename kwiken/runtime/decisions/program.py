"""Program: a plan compiled into fast per-stage settings."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from kwiken.base.errors import DefinitionError
from kwiken.model.plan.accounts import REQUEST
from kwiken.model.plan.arm_accounts import ArmAccounts
from kwiken.model.plan.ledger_terms import RESERVE_SHARE, UNSTATED_SHARE, LedgerTerms
from kwiken.model.plan.plan import CatchUpPolicy, Plan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.decisions.compiled_stage import CallTimeouts, CatchUpRule, CompiledStage, ReissueRule
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger
from kwiken.runtime.decisions.stage_state import StageState

LATE_LEVELS = 1  # priority levels that a call of a late request gains


class Program:
    """Service and plan, compiled; immutable, so that a request keeps the program with which it started.

    Attributes:
        stages: compiled stages, parents before children.
        serial: whether each stage waits for the one before it and none is a fan-out.
        digest: digest of the plan; None without a plan.
        request_budget: amount that one request may spend on copies, in micro-units: the cost of a request,
            in which each stage counts as many times as its policy has copies.
        reissues: whether any stage is reissued.
        catches_up: whether any stage helps late requests.
        observable: part of a request's cost in the stages whose replicas report their work, 0 to 1: by the
            plan's shares or by the number of stages, whichever is more.
        even_cost: cost of a call if all calls of a request cost the same, in micro-units.
        levers: whether the plan changes anything, so that some requests must run without it as a control
            group.
        prompt: age of a request, seconds, up to which a success fills the catch-up account; infinite if no
            stage catches up.
        weight: sum of the utility weights of the stages whose answers may be missing or partial.
    """

    __slots__ = (
        "catches_up",
        "digest",
        "even_cost",
        "levers",
        "observable",
        "plan",
        "prompt",
        "reissues",
        "request_budget",
        "serial",
        "sink",
        "sources",
        "stages",
        "weight",
    )

    def __init__(self, stages: tuple[CompiledStage, ...], plan: Plan | None, sink: int) -> None:
        self.stages = stages
        self.plan = plan
        self.sink = sink
        self.digest = plan.digest if plan is not None else None
        self.request_budget = sum(
            stage.cost * stage.definition.fanout * max(1, stage.copies) for stage in stages
        )
        self.reissues = any(stage.reissue.after < inf for stage in stages)
        self.prompt = min(stage.catch_up.after for stage in stages)
        self.catches_up = self.prompt < inf
        self.levers = self.reissues or self.catches_up or any(stage.partial is not None for stage in stages)
        defined = [stage.definition for stage in stages]
        self.even_cost = REQUEST // sum(each.fanout for each in defined)
        own = [stage for stage in stages if stage.definition.remote is None]
        by_plan = sum(stage.cost * stage.definition.fanout for stage in own) / REQUEST
        self.observable = max(min(1.0, by_plan), len(own) / len(stages))
        self.weight = sum(
            each.utility_weight for each in defined if each.fanout > 1 or each.optional or each.items_so_far
        )
        self.sources = tuple(stage.index for stage in stages if not stage.parents)
        self.serial = all(
            stage.definition.fanout == 1 and (stage.index == 0 or stage.index - 1 in stage.parents)
            for stage in stages
        )

    @property
    def dearest_copy(self) -> int:
        """Highest cost of a call that may be reissued, in micro-units."""
        return max((stage.cost for stage in self.stages if stage.reissue.after < inf), default=0)

    @property
    def dearest_catch_up(self) -> int:
        """Highest extra cost that one call of a late request may cause, in micro-units."""
        return max(
            (stage.cost * max(stage.catch_up.copies, stage.catch_up.threads - 1) for stage in self.stages),
            default=0,
        )


def compile_program(service: Service, plan: Plan | None, states: Mapping[str, StageState]) -> Program:
    """Compile a plan for a service.

    Args:
        plan: plan for it; None to run it without a plan.

    Raises:
        InputError, DefinitionError: the plan does not fit the service; nothing has changed then.
    """
    if plan is not None:
        plan.check(service)
        _refuse_unfit(service, plan)
    places = {name: index for index, name in enumerate(service.stages)}
    stages = tuple(_compile_stage(service, plan, name, states[name], places) for name in service.stages)
    return Program(stages, plan, places[service.sink])


def _compile_stage(
    service: Service, plan: Plan | None, name: str, state: StageState, places: Mapping[str, int]
) -> CompiledStage:
    stage = service[name]
    entry = plan.stages.get(name) if plan is not None else None
    policy = reissue_of(service, plan, name)
    catch_up = entry.catch_up if entry is not None else None
    copies = policy.copies if policy is not None else 0
    return CompiledStage(
        name=name,
        definition=stage,
        state=state,
        index=places[name],
        parents=tuple(places[parent] for parent in stage.after),
        children=tuple(places[child] for child in service.children(name)),
        timeouts=CallTimeouts.of(stage),
        cost=_call_cost(service, plan, stage),
        copies=max(1, copies) if catch_up is not None and catch_up.reissue else copies,
        reissue=ReissueRule.of(policy),
        catch_up=_catch_up_rule(catch_up) if catch_up is not None else CatchUpRule(),
        partial=entry.partial if entry is not None else None,
    )


def _catch_up_rule(policy: CatchUpPolicy) -> CatchUpRule:
    return CatchUpRule(
        after=policy.after_ms / 1000,
        copies=policy.reissue,
        threads=policy.threads,
        levels=LATE_LEVELS if policy.priority else 0,
    )


def reissue_of(service: Service, plan: Plan | None, name: str) -> Reissue | None:
    """Reissue policy in force for a stage: the plan's, or without any plan the stage's own."""
    if plan is None:
        return service[name].reissue
    entry = plan.stages.get(name)
    return entry.reissue if entry is not None else None


def _call_cost(service: Service, plan: Plan | None, stage: Stage) -> int:
    share = plan.cost.stages.get(stage.name, 0.0) if plan is not None else 1 / len(service.stages)
    return round(share * REQUEST / stage.fanout)


def _refuse_unfit(service: Service, plan: Plan) -> None:
    """Refuse a plan that asks a stage for something it cannot do."""
    for name, entry in plan.stages.items():
        late = entry.catch_up
        if entry.partial is not None and service[name].fanout == 1:
            raise DefinitionError("the plan makes it partial, but it is no fan-out", stage=name)
        if late is None:
            continue
        stage = service[name]
        if late.reissue and not stage.idempotent:
            raise DefinitionError("the plan reissues it where late, but it is not idempotent", stage=name)
        if late.threads > stage.threads:
            raise DefinitionError(
                f"the plan gives late calls {late.threads} threads, but it is defined with {stage.threads}",
                stage=name,
            )


def retune(
    ledger: Ledger, states: Mapping[str, StageState], *programs: Program, service: Service, now: float
) -> None:
    """Set the bounds of the accounts by what is in force; earnings and spends stay.

    Args:
        programs: programs that requests run under, one or more; of several each bound is the widest one.
            Without a plan, stages' own policies have a budget of 10%.
        now: present time, seconds.
    """
    of_plans = [program.plan.ledger for program in programs if program.plan is not None] or [LedgerTerms()]
    terms = of_plans[-1]
    losses = (each.plan.budgets.utility_loss if each.plan is not None else 0.0 for each in programs)
    ledger.retune(
        terms.service_bounds(
            max(_reissue_budget(program) for program in programs),
            least_burst=max(program.dearest_copy for program in programs),
        ),
        terms.service_bounds(
            max(_catch_up_budget(program) for program in programs),
            least_burst=max(program.dearest_catch_up for program in programs),
        ),
        terms.utility_bounds(max(losses)),
        floor_per_s=max(each.floor_per_s for each in of_plans),
        now=now,
    )
    for name, state in states.items():
        bounds = [terms.stage_bounds(reissue_of(service, program.plan, name)) for program in programs]
        state.account.retune(max(bounds, key=lambda each: (each.fraction, each.peak)))


def arm_accounts(program: Program, *, service: Service, share: float, left: int, now: float) -> ArmAccounts:
    """Accounts of one arm of a trial, with the bounds that its program has when all requests run under it.

    Args:
        program: program of the arm's requests.
        share: share of the requests in the arm, 0 to 1.
        left: what the service's account has left, in micro-units.
        now: present time, seconds.
    """
    terms = program.plan.ledger if program.plan is not None else LedgerTerms()
    return ArmAccounts(
        terms.service_bounds(_reissue_budget(program), least_burst=program.dearest_copy),
        {
            stage.name: terms.stage_bounds(reissue_of(service, program.plan, stage.name))
            for stage in program.stages
        },
        share=share,
        floor_per_s=terms.floor_per_s,
        left=left,
        now=now,
    )


def _reissue_budget(program: Program) -> float:
    """Share of the work that copies may spend, less the reserve."""
    if not program.reissues:
        return 0.0
    return UNSTATED_SHARE if program.plan is None else program.plan.budgets.reissue * (1 - RESERVE_SHARE)


def _catch_up_budget(program: Program) -> float:
    """Share of the work that catch-up may spend, less the reserve."""
    if program.plan is None or not program.catches_up:
        return 0.0
    return program.plan.budgets.catch_up * (1 - RESERVE_SHARE)
