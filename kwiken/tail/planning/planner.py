"""Entry point of planning: decides whether a plan accounts for load, and makes the plan."""

from __future__ import annotations

from dataclasses import replace

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.cuts_of_p99 import no_gain_notes, useless_budget_notes
from kwiken.tail.planning.study import PlanSettings, PlanStudy, study_latencies
from kwiken.tail.planning.under_load import plan_under_load
from kwiken.tail.queueing.load.decompose import known_utilisation, load_model
from kwiken.tail.queueing.load.guard import QUIET
from kwiken.tail.queueing.load.stage_model import LoadModel

MIN_REQUESTS = 10  # requests below which no quantile is meaningful


def make_plan(profile: Profile, *, budgets: Budgets, created: str, seed: int = 0) -> Plan:
    """Make a plan with the default settings; see `study_plan` for others and for the findings behind it.

    Args:
        budgets: upper bounds of the spend, by lever.
        created: RFC 3339 time to note in the plan.
        seed: seed of the draws behind the expectation.

    Raises:
        InputError: as `study_plan`.
    """
    return study_plan(profile, PlanSettings(budgets=budgets, created=created, seed=seed)).plan


def study_plan(profile: Profile, settings: PlanSettings) -> PlanStudy:
    """Make a plan and keep the findings behind it (Kwiken section 5.2).

    There are three cases:

    1. A load is given: the plan accounts for that load and for what its copies add.
    2. No load is given, and the replicas of some stage are known to be busy for `QUIET` of the time or more:
       the same, for the profile's own load.
    3. All replicas are nearly idle, or how busy they are is not known, or the plan is not guarded: latencies
       count as they were recorded.

    Args:
        settings: budgets, objective, levers and load.

    Returns:
        The study. The whole reissue budget is apportioned: on later requests the ledger keeps it. Budgets of
        utility and of catch-up keep a margin for them (see `kwiken.tail.apportion.margin`).

    Raises:
        InputError: for an unknown cost model, stages that the profile lacks or that cannot be partial, a
            load that some stage cannot serve, or a profile with too few requests.
    """
    if profile.requests < MIN_REQUESTS:
        raise InputError(
            f"a plan needs at least {MIN_REQUESTS} requests, and the profile has {profile.requests}; "
            "trace the service for longer",
            where="profile",
        )
    settings.queues.check(profile)
    given = settings.queues.replicas
    stages = (replace(stage, replicas=given.get(stage.name, stage.replicas)) for stage in profile.stages)
    profile = replace(profile, stages=tuple(stages)) if given else profile
    if not load_matters(profile, settings):
        study = study_latencies(profile, settings)
        searched = settings.objective == "tail" and settings.spread == "sumvar"
        useless = useless_budget_notes(study) if searched else no_gain_notes(study.plan)
        return replace(study, notes=(*useless, *study.notes))
    return plan_under_load(
        _model(profile, settings),
        lambda loaded: study_latencies(loaded, settings),
        load=settings.load or 1.0,
        seed=settings.seed,
    )


def load_matters(profile: Profile, settings: PlanSettings) -> bool:
    """Whether a plan has to account for load: it is asked to, or some stage is known to be busy enough."""
    if settings.load is not None:
        return True
    busiest = max(known_utilisation(profile, settings.queues).values(), default=0.0)
    return settings.guarded and busiest >= QUIET


def _model(profile: Profile, settings: PlanSettings) -> LoadModel:
    try:
        return load_model(
            profile, settings.queues, seed=settings.seed, copy_correlation=settings.copy_correlation
        )
    except InputError as error:
        if settings.load is not None or error.where is not None:
            raise
        raise InputError(f"{error}; or leave load out: `guarded`") from error
