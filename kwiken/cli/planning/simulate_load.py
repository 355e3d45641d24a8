"""`kwiken simulate --load`: simulates queues at another load and prints the result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kwiken.apps.console.output import print_json, print_table, progress, say
from kwiken.cli.planning.load_options import hurt_from, read_queues
from kwiken.cli.planning.plan import ladder_rows
from kwiken.cli.planning.plan_findings import show_notes

if TYPE_CHECKING:
    from kwiken.base.jobs import Job, Spread
    from kwiken.model.plan.plan import Plan
    from kwiken.model.profile.profile import Profile
    from kwiken.tail.queueing.load.simulate import LoadSimulation


def simulate_loaded(
    profile: Profile,
    plan: Plan | None,
    *,
    load: float,
    requests: int,
    seed: int,
    as_json: bool,
    queues: str | None,
    spread: Spread,
) -> None:
    """Simulate the profile's requests in queues, and print the result.

    Args:
        load: load as a factor on the profile's.
        seed: seed of all random numbers.
        queues: file with what is known of replicas and queues; None for none.
        as_json: whether to print JSON rather than tables.
        spread: function that runs jobs: the simulation, the thresholds of the stages and that of the plan.
    """
    from kwiken.tail.queueing.load.decompose import load_model
    from kwiken.tail.queueing.load.guard import guards, plan_hurts_above
    from kwiken.tail.queueing.load.simulate import policies_of, simulate_load

    with progress("simulating queues"):
        model = load_model(profile, read_queues(queues), seed=seed)
        policies = policies_of(model, plan)
        jobs: list[Job] = [
            (partial(simulate_load, factor=load, requests=requests, seed=seed), (model, plan)),
            (partial(guards, factor=load, seed=seed), (model, policies)),
        ]
        if plan is not None:
            jobs.append((partial(plan_hurts_above, seed=seed), (model, plan)))
        result, found, *of_plan = spread(jobs)
        above = {name: guard.above for name, guard in found.items()}
        whole = of_plan[0] if of_plan else None
    if as_json:
        print_json(_loaded_document(result, above, whole, requests, seed))
    else:
        _show_loaded(result, profile, plan, above, whole)


def _loaded_document(
    result: LoadSimulation, above: Mapping[str, float | None], whole: float | None, requests: int, seed: int
) -> dict[str, object]:
    from kwiken.apps.console.notes import note_summaries

    return {
        "before": result.before,
        "after": result.after,
        "spent": {"reissue": result.reissue, "utility_loss": 0.0, "catch_up": 0.0},
        "load": result.factor,
        "rate_per_s": result.rate_per_s,
        "stages": {
            name: {
                "spent": stage.spent,
                "fraction": stage.fraction,
                "utilisation": stage.before,
                "utilisation_after": stage.after,
                "replicas": result.model.stages[name].station.replicas,
                "reissue_hurts_above": above.get(name),
            }
            for name, stage in result.stages.items()
        },
        "reissue_hurts_above_load": whole,
        "notes": note_summaries(result.notes),
        "requests": requests,
        "seed": seed,
    }


def _show_loaded(
    result: LoadSimulation,
    profile: Profile,
    plan: Plan | None,
    above: Mapping[str, float | None],
    whole: float | None,
) -> None:
    title = (
        f"{len(result.before_ms)} requests of {profile.service} at {result.rate_per_s:.4g} a second, "
        f"{result.factor:g} times the profile's load"
    )
    print_table(title, ("ms", "before", "after", "change"), ladder_rows(result.before, result.after))
    columns = ("stage", "replicas", "busy before", "after", "calls reissued", "share of cost", "hurts above")
    say("")
    print_table("Stages", columns, _loaded_rows(result, plan, above))
    if plan is None:
        say("", "no plan given, so nothing was spent")
    else:
        say("", f"extra requests: {result.reissue:.2%} of cost spent, {plan.budgets.reissue:.2%} allowed")
        say(_verdict(result, plan, whole))
    show_notes(result.notes)


def _loaded_rows(
    result: LoadSimulation, plan: Plan | None, above: Mapping[str, float | None]
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, stage in result.stages.items():
        replicas = result.model.stages[name].station.replicas
        busy = ("-", "-", "-") if replicas is None else (str(replicas), _pct(stage.before), _pct(stage.after))
        reissued = plan is not None and name in plan.stages and plan.stages[name].reissue is not None
        hurts = hurt_from(above[name]) if name in above else "-"
        if reissued and name not in above:
            hurts = "not known" if replicas is None else "stays quiet"
        rows.append((name, *busy, f"{stage.fraction:.2%}", f"{stage.spent:.2%}", hurts))
    return rows


def _verdict(result: LoadSimulation, plan: Plan, above: float | None) -> str:
    """Line with the load from which the whole plan makes the tail worse."""
    reissued = [name for name, entry in plan.stages.items() if entry.reissue is not None]
    if all(result.model.stages[name].station.replicas is None for name in reissued):
        return "load acts on no stage that the plan reissues, so it is not known where reissues hurt"
    if above is None:
        return "reissue hurts at no load that the stages can serve"
    return f"reissue hurts above {above:.3g} times the profile's load: the tail is worse with it there"


def _pct(share: float) -> str:
    return f"{share:.1%}"
