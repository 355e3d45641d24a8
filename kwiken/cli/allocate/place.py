"""`kwiken place`: sizes workloads for their targets, and places them on the nodes of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    note,
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.extras import require
from kwiken.cli.allocate.place_traffic import Distances, distances, load_demand, nearby, show_distances
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE, MAX_PLACEMENT, MAX_PROFILES, MAX_WORKLOADS_FILE
from kwiken.cli.shared.options import (
    NameChoice,
    Real,
    json_option,
    load_plan,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    removed_option,
    seed_option,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kwiken.allocator.placement.explanations import PlacementExplanation
    from kwiken.allocator.placement.headroom import Caution
    from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
    from kwiken.allocator.placement.order import AddedNodes, PlacedOrNot, Scheduler
    from kwiken.allocator.placement.request import PlacementRequest
    from kwiken.allocator.workloads.profile import WorkloadProfile
    from kwiken.allocator.workloads.workload import Workload
    from kwiken.model.nodes.nodes import Cluster
    from kwiken.model.nodes.placement import PlacedWorkload, Placement
    from kwiken.model.plan.plan import Plan

# Copied from the package, so that a help text does not load NumPy.
SCHEDULERS: Final = (
    "thrifty",
    "sampled",
    "least-loaded",
    "reservation",
)
# Schedulers of earlier releases, and what to use instead.
REMOVED: Final = {
    **dict.fromkeys(("quasar", "exact", "paragon", "paragon-margin", "hashed"), "thrifty"),
    **dict.fromkeys(("interference-only", "heterogeneity-only"), "thrifty"),
    "paragon-statistical": "sampled",
}
# Of performance, bought against neighbours. In `benchmarks.outside.shared_machines` 0.1 and 0.15 cost 3-14%
# more for each target that is kept, and keep as many of those that are promised.
KEPT_FREE: Final = 0.05
WAITING: Final = 3  # exit code: a target waits, or is far from met
MAX_WAITING_SHOWN: Final = 20  # workloads for which it is found what would make room
MAX_NEIGHBOURS_SHOWN: Final = 12
MAX_REPLICAS_SHOWN: Final = 60
UNITS: Final = {"rate": " requests/s", "ips": " instructions/s"}


@click.command()
@click.argument("nodes", metavar="NODES")
@click.argument("workloads", metavar="WORKLOADS")
@click.option(
    "--profiles", metavar="FILE", required=True, help="Predictions of the workloads, from kwiken classify."
)
@out_option(what="placement")
@click.option("--picture", metavar="FILE", help="SVG to write: nodes, what is on them, pressure by resource.")
@click.option(
    "--confidence",
    type=Real(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="Probability with which each target is to be met; headroom comes from the predictions' deviation.",
)
@click.option(
    "--kept-free",
    type=Real(0.0, 0.5),
    default=KEPT_FREE,
    show_default=True,
    help="Share of performance bought against neighbours, which are let in up to the pressure that costs it.",
)
@click.option(
    "--scheduler",
    "chosen",
    type=NameChoice(SCHEDULERS, REMOVED),
    default=SCHEDULERS[0],
    show_default=True,
    help="What chooses nodes and sizes; the last two are for comparison.",
)
@click.option(
    "--guarantee",
    "promised",
    metavar="QUALITY:FAILURE",
    help="For sampled: share of the nodes that the chosen one is better than, and how often not. [0.9:0.001]",
)
@click.option(
    "--stream", is_flag=True, help="For sampled: answer arrivals and departures, JSON lines on stdin."
)
@click.option(
    "--agents",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="For --stream: agents at once.",
)
@click.option("--journal", metavar="FILE", help="For --stream: file that keeps the jobs across a kill.")
@click.option(
    "--scan-every",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="For --stream: decisions for each one that is compared with a full scan; 0 for none.",
)
@removed_option("--advise", "100 x the nodes that --guarantee examines / nodes as percentageOfNodesToScore")
@click.option(
    "--beside", metavar="FILE", help="Placement that runs already: its replicas stay where they can."
)
@click.option(
    "--traffic",
    metavar="FILE",
    help="Who sends how much to whom, from kwiken traffic fit: callers and callees are brought together, at "
    "no more cost and no target lost.",
)
@removed_option("--lines", "python -m papers arq, in a checkout of kwiken's source")
@click.option("--plan", "plan_file", metavar="FILE", help="Plan whose copies and threads need cores too.")
@click.option("--explain", is_flag=True, help="Show the factors of each prediction, and who costs whom what.")
@click.option("--compare", is_flag=True, help="Show what every scheduler makes of it.")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    nodes: str,
    workloads: str,
    profiles: str,
    out: str | None,
    picture: str | None,
    confidence: float,
    kept_free: float,
    chosen: str,
    promised: str | None,
    stream: bool,
    agents: int,
    journal: str | None,
    scan_every: int,
    beside: str | None,
    traffic: str | None,
    plan_file: str | None,
    explain: bool,
    compare: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Place WORKLOADS on NODES, with as little as meets their targets.

    Workloads are served by priority. One that cannot come near its target waits, and the nearest target that
    it could meet is shown, and what would make room. Best-effort work fills what is left, and makes room for
    others. Exit code 3 when a workload with a target waits, or runs and misses its target by more than 5%;
    the placement is written all the same.
    """
    if picture is not None:
        require("place --picture", "report")
    _check_sampled(
        chosen,
        guarantee=promised is not None,
        stream=stream,
        journal=journal is not None,
        single=bool(out or picture or beside or traffic or explain or compare or as_json),
    )
    refuse_shared_stdout(out=out == "-", picture=picture == "-", json=as_json)
    running = None if beside is None else _load_placement(beside)
    plan = None if plan_file is None else load_plan(plan_file)
    cluster, wanted, by_name = _documents(nodes, workloads, profiles)
    from kwiken.allocator.placement.explanations import explain_placement
    from kwiken.allocator.placement.headroom import Caution
    from kwiken.allocator.schedulers.names import scheduler

    caution = Caution(confidence=confidence, later_loss=kept_free)
    requests = _requests(wanted, by_name, cluster, caution, plan, plan_file)
    demand = None if traffic is None else load_demand(traffic, wanted, cluster)
    sampler = None
    if chosen == "sampled":
        from kwiken.cli.allocate.place_sampled import SampledSettings, answered, sampler_for, sampler_words

        sampled = SampledSettings(promised, stream, agents, journal, scan_every)
        if answered(sampled, requests, cluster, seed):
            return
        sampler = sampler_for(sampled, len(cluster.nodes), seed)
    with progress("placing"):
        found = _place(requests, cluster, chosen, seed, running, sampler)
    both = None
    if demand is not None:
        nearer = nearby(sampler or scheduler(chosen, seed=seed), demand)
        with progress("bringing callers and callees together"):
            near = _place(requests, cluster, chosen, seed, running, nearer)
        both, found = distances(cluster, demand, found[0], near[0]), near
    admissions, ledger, placement = found
    if sampler is not None:
        note(sampler_words(sampler))
    with progress("finding what makes room"):
        room = _missing_room(admissions, chosen, seed)
    told = explain_placement(admissions, ledger) if explain else None
    with progress("comparing schedulers"):
        compared = _compare(requests, cluster, seed, running) if compare else None
    _write(placement, admissions, ledger, out, picture)
    if as_json:
        more = {} if both is None else {"traffic": both.summary()}
        print_json({"placement": placement, "explanation": told, "schedulers": compared, "room": room} | more)
    else:
        unkept = {one.request.name for one in admissions if not one.request.keeps_latency}
        _show(placement, wanted, room, unkept, to_stderr="-" in {out, picture})
        _show_more(told, compared, both, to_stderr="-" in {out, picture})
        note_written(out)
    _end(placement)


def _show_more(
    told: PlacementExplanation | None,
    compared: Sequence[Mapping[str, Any]] | None,
    both: Distances | None,
    *,
    to_stderr: bool,
) -> None:
    """Print how far calls go, the explanation and the comparison, those that are wanted."""
    if both is not None:
        show_distances(both, explain=told is not None, to_stderr=to_stderr)
    if told is not None:
        _explain(told)
    if compared is not None:
        _show_compared(compared)


def _documents(
    nodes: str, workloads: str, profiles: str
) -> tuple[Cluster, tuple[Workload, ...], dict[str, WorkloadProfile]]:
    """Nodes, workloads and the workloads' profiles by name, from their files."""
    texts = [
        read_text(path, most)
        for path, most in ((nodes, MAX_NODES_FILE), (workloads, MAX_WORKLOADS_FILE), (profiles, MAX_PROFILES))
    ]
    from kwiken.allocator.workloads.workload import workloads_from_toml
    from kwiken.cli.placing.target_inputs import profiles_by_name
    from kwiken.model.nodes.document import nodes_from_toml

    cluster = nodes_from_toml(texts[0], where=nodes)
    wanted = workloads_from_toml(texts[1], where=workloads)
    by_name = profiles_by_name(texts[2], where=profiles)
    _check_profiles(wanted, by_name, workloads, profiles)
    return cluster, wanted, by_name


def _load_placement(path: str) -> Placement:
    text = read_text(path, MAX_PLACEMENT)
    from kwiken.model.nodes.placement import Placement

    return Placement.from_json(text, where=path)


def _write(
    placement: Placement,
    admissions: Sequence[PlacedOrNot],
    ledger: NodeLedger,
    out: str | None,
    picture: str | None,
) -> None:
    if out is not None:
        write_text(out, placement.to_json())
    if picture is not None:
        from kwiken.cli.allocate.placement_picture import draw_placement

        write_text(picture, draw_placement(admissions, ledger))


def _end(placement: Placement) -> None:
    """Exit with the code that says that a workload waits or is far from its target, if one does or is."""
    if any(placed.status == "queued" or _far_from_met(placed) for placed in placement.workloads):
        click.get_current_context().exit(WAITING)


def _far_from_met(placed: PlacedWorkload) -> bool:
    """Whether a workload runs, and is predicted to miss its target by more than the share that is accepted.

    The schedulers that size for targets let such a workload wait; those of reservations place it.
    """
    from kwiken.allocator.placement.order import MIN_SHARE_ACCEPTED

    return placed.status == "short" and placed.expected < MIN_SHARE_ACCEPTED * placed.required


def _check_sampled(chosen: str, *, guarantee: bool, stream: bool, journal: bool, single: bool) -> None:
    """Refuse options of the sampled scheduler that do not go together.

    Args:
        single: whether an option of a single placement is given.
    """
    if chosen != "sampled" and (guarantee or stream):
        raise click.UsageError("--guarantee and --stream need --scheduler sampled")
    if stream and single:
        raise click.UsageError("--stream answers on stdout, and takes no option of a single placement")
    if journal and not stream:
        raise click.UsageError("--journal is for --stream")


def _missing_room(admissions: Sequence[PlacedOrNot], name: str, seed: int) -> dict[str, AddedNodes | None]:
    """What would make room for each workload that waits, the highest priority first."""
    from kwiken.allocator.placement.order import nodes_to_add
    from kwiken.allocator.schedulers.names import scheduler

    best_effort = {one.request.name for one in admissions if one.request.workload.best_effort}
    chosen = scheduler(name, seed=seed)
    waiting = sorted(
        (one for one in admissions if one.queued and one.request.keeps_latency),
        key=lambda one: -one.request.workload.priority,
    )
    return {one.request.name: nodes_to_add(one, chosen, best_effort) for one in waiting[:MAX_WAITING_SHOWN]}


def _check_profiles(
    wanted: Sequence[Workload], profiles: Mapping[str, WorkloadProfile], workloads_file: str, file: str
) -> None:
    for place, workload in enumerate(wanted):
        if workload.name not in profiles:
            raise InputError(
                f"workloads[{place}]: {workload.name!r} has no profile in {file}, "
                f"which has {', '.join(profiles) or 'none'}",
                where=workloads_file,
            )


def _requests(
    wanted: Sequence[Workload],
    profiles: Mapping[str, WorkloadProfile],
    cluster: Cluster,
    caution: Caution,
    plan: Plan | None,
    plan_file: str | None,
) -> list[PlacementRequest]:
    from kwiken.allocator.placement.request import request_for

    if plan is not None and not any(one.service == plan.service and one.stage for one in wanted):
        raise InputError(
            f"is for service {plan.service!r}, and no workload is a stage of it", where=plan_file
        )
    return [
        request_for(workload, profiles[workload.name], cluster, caution, _extra_work(workload, plan))
        for workload in wanted
    ]


def _extra_work(workload: Workload, plan: Plan | None) -> dict[DrawKind, float]:
    """Extra work of each replica under a plan, by kind, as shares of its own work."""
    from kwiken.allocator.placement.node_ledger import DrawKind

    if plan is None or workload.service != plan.service or workload.stage not in plan.stages:
        return {}
    policies = plan.stages[workload.stage]
    shares = {}
    if policies.reissue is not None:
        shares[DrawKind.REISSUES] = policies.reissue.fraction
    if policies.catch_up is not None:
        shares[DrawKind.CATCH_UP] = plan.budgets.catch_up
    return shares


def _place(
    requests: Sequence[PlacementRequest],
    cluster: Cluster,
    name: str,
    seed: int,
    running: Placement | None,
    chosen: Scheduler | None = None,
) -> tuple[list[PlacedOrNot], NodeLedger, Placement]:
    from kwiken.allocator.placement.node_ledger import NodeLedger
    from kwiken.allocator.placement.order import admit_all
    from kwiken.allocator.placement.placement_document import document, resume
    from kwiken.allocator.schedulers.names import scheduler

    ledger = NodeLedger(cluster)
    there = [] if running is None else resume(running, {one.name: one for one in requests}, ledger)
    admissions = admit_all(requests, ledger, chosen or scheduler(name, seed=seed), there)
    caution = requests[0].caution
    placement = document(cluster, admissions, scheduler=name, confidence=caution.confidence)
    return admissions, ledger, placement


def _compare(
    requests: Sequence[PlacementRequest], cluster: Cluster, seed: int, running: Placement | None
) -> list[dict[str, Any]]:
    """Outcome under every scheduler."""
    from kwiken.allocator.placement.placement_document import total_cost

    rows = []
    for name in SCHEDULERS:
        _, _, placement = _place(requests, cluster, name, seed, running)
        promised = [one for one in placement.workloads if one.status != "best-effort"]
        rows.append(
            {
                "scheduler": name,
                "met": sum(one.status == "met" for one in promised),
                "short": sum(one.status == "short" for one in promised),
                "queued": sum(one.status == "queued" for one in promised),
                "replicas": sum(len(one.replicas) for one in promised),
                "cost_per_hour": sum(one.cost_per_hour for one in promised),
                "best_effort_cost_per_hour": total_cost(placement)
                - sum(one.cost_per_hour for one in promised),
            }
        )
    return rows


def _show(
    placement: Placement,
    wanted: Sequence[Workload],
    room: Mapping[str, AddedNodes | None],
    unkept: Collection[str],
    *,
    to_stderr: bool,
) -> None:
    columns = ("workload", "status", "target", "expected", "needed", "surely", "replicas", "cost/h", "on")
    rows = [
        (
            placed.name,
            placed.status.value,
            f"{placed.required:.4g}" if placed.required else "-",
            f"{placed.expected:.4g}" if placed.replicas else "-",
            f"{placed.needed:.4g}" if placed.required and placed.replicas else "-",
            f"{placed.probability:.1%}" if placed.required and placed.replicas else "-",
            str(len(placed.replicas)),
            f"{placed.cost_per_hour:.3g}",
            _where([replica.node for replica in placed.replicas]),
        )
        for placed in placement.workloads
    ]
    print_table("", columns, rows, to_stderr=to_stderr)
    targets = {one.name: one.target for one in wanted}
    for placed in placement.workloads:
        target = targets[placed.name]
        if placed.status == "queued" and target is not None:
            measure = target.measure.value
            if target.p99_ms is not None and placed.name in unkept:
                note(
                    f"{placed.name} waits: no replica of its sizes keeps a p99 of {target.p99_ms:.4g} ms on "
                    "these classes of nodes, however few requests it gets"
                )
                continue
            note(
                f"{placed.name} waits: it needs {_in_unit(measure, placed.required)}; the nearest that the "
                f"free nodes can promise is {_in_unit(measure, placed.nearest)}, and that of all nodes, if "
                f"they were empty, {_in_unit(measure, placed.nearest_empty)}"
            )
            if placed.name in room:
                note(f"{placed.name}: {_in_words(room[placed.name])}")
        elif target is not None and _far_from_met(placed):
            measure = target.measure.value
            advice = "" if placement.scheduler == SCHEDULERS[0] else f"; {SCHEDULERS[0]} sizes for targets"
            note(
                f"{placed.name} misses its target: {_in_unit(measure, placed.expected)} is predicted, and "
                f"{_in_unit(measure, placed.required)} is needed{advice}"
            )
        for victim, count in placed.evicted.items():
            note(f"{placed.name} evicts {count} replica{'s' if count != 1 else ''} of {victim}")


def _in_words(added: AddedNodes | None) -> str:
    """What would make room, as a phrase."""
    if added is None:
        return "no number of nodes of one class makes room, with as many replicas as it may have"
    nodes = "node" if added.count == 1 else "nodes"
    return (
        f"{added.count} more {nodes} of class {added.node_class} would make room, at a cost of "
        f"{added.cost_per_hour:.4g} an hour"
    )


def _in_unit(measure: str, performance: float) -> str:
    """Performance as a target states it: a time for completions, else a rate."""
    if performance <= 0:
        return "nothing"
    return f"{1 / performance:.4g} s" if measure == "completions" else f"{performance:.4g}{UNITS[measure]}"


def _where(nodes: Sequence[str]) -> str:
    counts = {node: nodes.count(node) for node in dict.fromkeys(nodes)}
    shown = [node if count == 1 else f"{count} x {node}" for node, count in counts.items()]
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")  # noqa: PLR2004


def _explain(told: Any) -> None:
    head = (
        "replica",
        "node",
        "cores",
        "alone",
        "x size",
        "x class",
        "x latency",
        "x contention",
        "x number",
        "= rate",
        "worst",
    )
    rows = [
        (
            found.workload,
            found.node,
            f"{found.cores:g}",
            f"{found.base:.4g}",
            f"{found.size:.3f}",
            f"{found.node_class:.3f}",
            f"{found.latency:.3f}",
            f"{found.contention:.3f}",
            f"{found.efficiency:.3f}",
            f"{found.rate:.4g}",
            found.source or "-",
        )
        for found in told.factors[:MAX_REPLICAS_SHOWN]
    ]
    say("")
    print_table("factors of each replica's prediction", head, rows)
    if len(told.factors) > MAX_REPLICAS_SHOWN:
        say(f"and {len(told.factors) - MAX_REPLICAS_SHOWN} replicas more; --json has all")
    if told.neighbours:
        costs = [
            (cost.node, cost.by, cost.to, f"{cost.loss:.2%}", cost.source)
            for cost in told.neighbours[:MAX_NEIGHBOURS_SHOWN]
        ]
        say("")
        print_table("what neighbours cost", ("node", "by", "to", "loss", "at"), costs)
    for name, count in told.refused.items():
        if count:
            say(f"{name}: {count} nodes have room for one more replica, and contention forbids it")


def _show_compared(compared: Sequence[Mapping[str, Any]]) -> None:
    head = ("scheduler", "met", "short", "queued", "replicas", "cost/h", "best effort cost/h")
    rows = [
        (
            found["scheduler"],
            *(str(found[key]) for key in ("met", "short", "queued", "replicas")),
            f"{found['cost_per_hour']:.4g}",
            f"{found['best_effort_cost_per_hour']:.4g}",
        )
        for found in compared
    ]
    say("")
    print_table("every scheduler on the same nodes", head, rows)
