"""Simulation of a profile's requests at another load, without a plan and with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import ladder
from kwiken.model.plan.ledger_terms import LedgerTerms, only_prompt_earn
from kwiken.model.plan.plan import Ladder, Plan
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.load.notes import LeversNotSimulated, LoadNote
from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.simulator.network import QueueSimulation, poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.station import Earnings, Station
from kwiken.tail.simulation.trace_driven import REQUESTS, acting

MAX_BUDGET_ROUNDS: Final = 4  # simulations to bring the spend of all stages within the budget
MAX_OVERSPEND: Final = 0.01  # relative overspend that is accepted
WARM_UP: Final = 0.1  # extra requests as a share of the counted ones: they fill the queues and are discarded


class SharedRequests:
    """Requests drawn from a profile at a factor of its load, the same for every plan that is simulated.

    Args:
        factor: load to simulate, as a multiple of the profile's; above 0.
        requests: number of requests that count, without the warm-up.
        seed: seed of all draws.
    """

    def __init__(self, model: LoadModel, factor: float, requests: int, seed: int) -> None:
        self._model, self._seed = model, seed
        self._warm_up = int(requests * WARM_UP)
        count = requests + self._warm_up
        arriving, choosing, *working = np.random.default_rng([seed, 0]).spawn(2 + len(model.stages))
        self._arrivals = poisson_arrivals(model.rate_per_s * factor, count, arriving)
        rows = model.rows(factor, count, choosing)
        self._given = {
            name: stage.primaries(rows, rng, model.stalls.get(name), factor)
            for (name, stage), rng in zip(model.stages.items(), working, strict=True)
        }

    def run(self, changed: Mapping[str, Station]) -> QueueSimulation:
        """Simulate the requests.

        Args:
            changed: stations that replace the model's own, by stage; for example stations with copies.
        """
        stations = [changed.get(name, stage.station) for name, stage in self._model.stages.items()]
        rng = np.random.default_rng([self._seed, 1])
        return simulate_queues(stations, self._arrivals, rng=rng, given=self._given, warm_up=self._warm_up)


@dataclass(frozen=True)
class LoadedStage:
    """One stage under load.

    Attributes:
        before: share of its replicas' time in use without the plan; 0 where load does not act on the stage.
        after: share of its replicas' time in use with the plan.
        fraction: number of copies per call.
        spent: cost of its copies, as a share of the cost of all requests.
        extra_load: work of copies, as a share of the work of first attempts.
    """

    before: float
    after: float
    fraction: float
    spent: float
    extra_load: float


@dataclass(frozen=True)
class LoadSimulation:
    """Outcome of a simulation at one load.

    Attributes:
        factor: load as a multiple of the profile's.
        rate_per_s: requests a second at that load.
        before_ms: (n,) latency of each request without the plan.
        after_ms: (n,) latency of the same requests, at the same arrival times, with the plan.
        notes: what a reader of the result should know.
    """

    factor: float
    rate_per_s: float
    before_ms: Floats
    after_ms: Floats
    stages: Mapping[str, LoadedStage]
    model: LoadModel
    notes: tuple[LoadNote, ...] = ()

    @property
    def before(self) -> Ladder:
        """Percentiles without the plan."""
        return ladder(self.before_ms)

    @property
    def after(self) -> Ladder:
        """Percentiles with the plan."""
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
    """Simulate a profile's requests in the stages' queues, at a factor of the profile's load.

    A request takes the rests of one recorded request at all stages, drawn with replacement; arrivals are a
    Poisson process, work is drawn from its distribution, waits follow from both. Every replica has a
    processor of its own. Copies follow the runtime's rules: an account of the stage pays, the copy goes to
    the least loaded replica, and losers are cancelled. Where all stages together would spend more than the
    budget, all accounts earn less in proportion. Partial answers and catch-up are not simulated.

    Args:
        plan: reissue policies, costs and budget; None for none.
        factor: load as a multiple of the profile's; above 0.
        requests: number of requests, 1 or more.
        seed: seed of all draws; the runs with and without the plan share all draws that the plan does not
            affect.

    Raises:
        InputError: for fewer than one request, a load that some stage cannot serve, or a plan for a stage
            that the profile lacks.
        OverloadError: where a stage cannot serve the copies.
    """
    if requests < 1:
        raise InputError(f"requests must be 1 or more, not {requests}")
    model.check(factor)
    policies = policies_of(model, plan)
    trial = SharedRequests(model, factor, requests, seed)
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


def _notes(plan: Plan | None) -> tuple[LeversNotSimulated, ...]:
    """Note on the levers of the plan that are not simulated."""
    others = tuple(
        name
        for name, entry in (plan.stages.items() if plan is not None else ())
        if entry.partial is not None or entry.catch_up is not None
    )
    return (LeversNotSimulated(others),) if others else ()


def policies_of(model: LoadModel, plan: Plan | None) -> dict[str, Reissue]:
    """A plan's reissue policies by stage.

    Raises:
        InputError: for a stage that the profile lacks, or a partial answer of one that is no fan-out.
    """
    stages = acting(model.profile, plan)
    return {name: stage.reissue for name, stage in stages.items() if stage.reissue is not None}


def reissuing(
    station: Station,
    policy: Reissue,
    *,
    terms: LedgerTerms = LedgerTerms(),  # noqa: B008 - frozen
    scale: float = 1.0,
) -> Station:
    """The station with a reissue policy and the account that the runtime would give it.

    Args:
        station: the stage without copies.
        scale: factor on the earnings of the account, above 0.
    """
    bounds = terms.stage_bounds(policy)
    bounds = replace(bounds, fraction=bounds.fraction * scale)
    earnings = Earnings(bounds=bounds, prompt_only=only_prompt_earn(policy))
    return replace(station, reissue=policy, earnings=earnings)


def _within_budget(trial: SharedRequests, stations: Mapping[str, Station], plan: Plan) -> QueueSimulation:
    """Simulate copies; where they cost more than the budget, reduce all accounts' earnings in proportion."""
    scale = 1.0
    for _ in range(MAX_BUDGET_ROUNDS):
        changed = {
            name: reissuing(station, station.reissue, terms=plan.ledger, scale=scale)
            for name, station in stations.items()
            if station.reissue is not None
        }
        found = trial.run(changed)
        spent = sum(_spent(plan, found, name) for name in changed)
        if spent <= plan.budgets.reissue * (1 + MAX_OVERSPEND):
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
