"""A profile's requests at another load, without a plan and with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.latency import ladder
from kwiken.plan import Ladder, Plan
from kwiken.queueing.load.stage_model import LoadModel
from kwiken.queueing.load.trial import Trial
from kwiken.queueing.simulator import Earnings, QueueSimulation, Station
from kwiken.service import Reissue
from kwiken.simulation import REQUESTS, acting

# The runtime's rules for accounts, in kwiken/runtime/decisions/program.py: a stage may pass its planned share
# by so much ...
SLACK: Final = 1.5
BURST: Final = 16.0  # ... and save so many copies.
UNSTATED: Final = 0.1  # share of the calls that a policy which states none may reissue
MOSTLY: Final = 0.5  # from this share of late calls on all calls earn
ROUNDS: Final = 4  # of holding the sum of all stages to the budget
CLOSE: Final = 0.01  # relative overspend that needs no further round


@dataclass(frozen=True)
class LoadedStage:
    """One stage under load.

    Attributes:
        before: share of its replicas' time that is used without the plan; 0 where load does not act on it.
        after: the same share with the plan.
        fraction: copies per call.
        spent: what its copies cost, as a share of the cost of all requests.
        extra_load: work that copies caused, as a share of the work of first attempts.
    """

    before: float
    after: float
    fraction: float
    spent: float
    extra_load: float


@dataclass(frozen=True)
class LoadSimulation:
    """What became of requests at some load.

    Attributes:
        factor: the load, times the profile's.
        rate_per_s: requests a second.
        before_ms: (n,) latency of each request without the plan.
        after_ms: (n,) with it: the same requests at the same moments.
        stages: by name.
        model: what was simulated.
        notes: what a reader should know, in words.
    """

    factor: float
    rate_per_s: float
    before_ms: Floats
    after_ms: Floats
    stages: Mapping[str, LoadedStage]
    model: LoadModel
    notes: tuple[str, ...] = ()

    @property
    def before(self) -> Ladder:
        """Percentiles without the plan."""
        return ladder(self.before_ms)

    @property
    def after(self) -> Ladder:
        """Percentiles with it."""
        return ladder(self.after_ms)

    @property
    def reissue(self) -> float:
        """Extra cost of all copies, as a share of the cost of all requests."""
        return sum(stage.spent for stage in self.stages.values())


def simulate_load(
    model: LoadModel,
    plan: Plan | None = None,
    *,
    factor: float = 1.0,
    requests: int = REQUESTS,
    seed: int = 0,
) -> LoadSimulation:
    """Send a profile's requests through its queues, at some factor of its load.

    A request takes the rests of one recorded request in all stages, drawn with replacement; arrivals are
    Poisson, work is drawn from its law, waits follow from both. Every replica has processors of its own.
    Copies go as the runtime's do: paid by an account of the stage, to the replica that has the least to do,
    and losers are cancelled. Where all stages together would spend more than the budget, all accounts earn
    less in proportion. Partial answers and catch-up are not simulated.

    Args:
        model: of the profile.
        plan: reissue policies, costs and budget; None for none.
        factor: the load, times the profile's.
        requests: number of requests.
        seed: of all draws; both arms share all that the plan does not change.

    Raises:
        InputError: for fewer than one request, a load that some stage cannot serve, or a plan for a stage
            that the profile lacks.
        OverloadError: where a stage cannot serve the copies.
    """
    if requests < 1:
        raise InputError(f"requests must be 1 or more, not {requests}")
    model.check(factor)
    policies = policies_of(model, plan)
    trial = Trial(model, factor, requests, seed)
    alone = trial.run({})
    stations = {name: reissuing(model.stages[name].station, policy) for name, policy in policies.items()}
    after = alone if plan is None or not stations else _within_budget(trial, stations, plan)
    return LoadSimulation(
        factor=factor,
        rate_per_s=model.rate_per_s * factor,
        before_ms=alone.latency_ms,
        after_ms=after.latency_ms,
        stages=_stages(model, plan, alone, after),
        model=model,
        notes=(*model.notes, *_notes(plan)),
    )


def _notes(plan: Plan | None) -> list[str]:
    """What of a plan is left out."""
    others = [
        name
        for name, entry in (plan.stages.items() if plan is not None else ())
        if entry.partial is not None or entry.catch_up is not None
    ]
    if not others:
        return []
    return [
        f"only reissues go through queues; partial answers and catch-up are left out: {', '.join(others)}"
    ]


def policies_of(model: LoadModel, plan: Plan | None) -> dict[str, Reissue]:
    """A plan's reissue policies by stage.

    Args:
        model: the service as queues.
        plan: whose policies to take; None for none.

    Raises:
        InputError: for a stage that the profile lacks, or a partial answer of one that is no fan-out.
    """
    stages = acting(model.profile, plan)
    return {name: stage.reissue for name, stage in stages.items() if stage.reissue is not None}


def reissuing(station: Station, policy: Reissue, *, scale: float = 1.0) -> Station:
    """The station with a policy and the account that the runtime would give it.

    Args:
        station: the stage.
        policy: when copies go.
        scale: of what calls earn.
    """
    planned = policy.fraction or UNSTATED
    late = min(1.0, policy.fraction / policy.probability)
    prompt = late <= MOSTLY
    share = planned * SLACK / (1.0 - late if prompt else 1.0)
    earnings = Earnings(fraction=min(1.0, share * scale), burst=BURST, prompt_only=prompt, keeps_back=True)
    return replace(station, reissue=policy, earnings=earnings)


def _within_budget(trial: Trial, stations: Mapping[str, Station], plan: Plan) -> QueueSimulation:
    """Send copies; where they cost more than the budget, let all accounts earn less until they do not."""
    scale = 1.0
    for _ in range(ROUNDS):
        changed = {
            name: reissuing(station, station.reissue, scale=scale)
            for name, station in stations.items()
            if station.reissue is not None
        }
        found = trial.run(changed)
        spent = sum(_spent(plan, found, name) for name in changed)
        if spent <= plan.budgets.reissue * (1 + CLOSE):
            break
        scale *= plan.budgets.reissue / spent
    return found


def _spent(plan: Plan, found: QueueSimulation, name: str) -> float:
    """Cost of a stage's copies, as a share of the cost of all requests."""
    return plan.cost.stages.get(name, 0.0) * found.stages[name].fraction


def _stages(
    model: LoadModel, plan: Plan | None, before: QueueSimulation, after: QueueSimulation
) -> dict[str, LoadedStage]:
    return {
        name: LoadedStage(
            before=_mean(before.stages[name].utilisation),
            after=_mean(after.stages[name].utilisation),
            fraction=after.stages[name].fraction,
            spent=_spent(plan, after, name) if plan is not None else 0.0,
            extra_load=after.stages[name].extra_load,
        )
        for name in model.stages
    }


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
