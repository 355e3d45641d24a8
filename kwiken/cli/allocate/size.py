"""`kwiken size`: the cheapest replicas, nodes and reissues of a service that meet its p99 at a rate."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, progress, read_text, say, write_text
from kwiken.base.errors import InputError
from kwiken.base.printable import printable_json
from kwiken.cli.planning.load_options import queues_option, read_queues
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE, MAX_PROFILES, MAX_WORKLOADS_FILE
from kwiken.cli.shared.engines import engine_at, engine_options
from kwiken.cli.shared.options import (
    LATENCY_FORM,
    POSITIVE,
    SHARE,
    copyable_option,
    json_option,
    load_profile,
    milliseconds,
    needs_extra,
    once_option,
    removed_option,
    seed_option,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwiken.allocator.capacity.outcomes import SizeOutcome
    from kwiken.allocator.capacity.study import SizeStudy
    from kwiken.allocator.capacity.supply import StageNeed
    from kwiken.allocator.workloads.profile import WorkloadProfile
    from kwiken.allocator.workloads.workload import Workload
    from kwiken.model.nodes.nodes import Cluster
    from kwiken.model.profile.profile import Profile

PLAN_FILE: Final = "plan.json"
PLACEMENT_FILE: Final = "placement.json"
MIN_CONFIDENCE: Final = 0.95  # share of resampled recordings within the margin, from which on a target is met


def _target_ms(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Click callback: parse a latency into milliseconds."""
    ms = milliseconds(value)
    if ms is None:
        raise click.BadParameter(f"{value!r} is not a latency; write {LATENCY_FORM}", ctx, param)
    return ms


@click.command()
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--target-p99",
    metavar="TIME",
    required=True,
    callback=_target_ms,
    help="p99 of whole requests to reach, such as 50ms, 0.2s, or 50 for milliseconds.",
)
@click.option("--rate", type=POSITIVE, required=True, help="Requests a second at which it has to be reached.")
@click.option(
    "--nodes",
    metavar="FILE",
    help="Nodes to place replicas on; without this file all cores are alike and cost 1.",
)
@click.option(
    "--workloads", metavar="FILE", help="Memory, spread and most replicas of stages, as for kwiken place."
)
@click.option(
    "--profiles", metavar="FILE", help="Speeds of the stages by class of nodes, from kwiken classify."
)
@click.option(
    "--reissue",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Most copies of late calls, as a share of all work.",
)
@click.option("-o", "--out", metavar="FOLDER", help="Folder for plan.json and, with --nodes, placement.json.")
@removed_option("--picture", "--json, and draw what you need from the numbers")
@click.option(
    "--explain",
    is_flag=True,
    help="Show the effect of a replica more or fewer, other nodes, and more or fewer copies.",
)
@queues_option
@once_option
@copyable_option
@engine_options(processes="this one alone")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    profile: str,
    target_p99: float,
    rate: float,
    nodes: str | None,
    workloads: str | None,
    profiles: str | None,
    reissue: float,
    out: str | None,
    explain: bool,
    once: tuple[str, ...],
    copyable: tuple[str, ...],
    engine: str,
    jobs: int | None,
    seed: int,
    as_json: bool,
    queues: str | None,
) -> None:
    """Size the service of PROFILE: the cheapest replicas, nodes and reissues that meet its p99 at a rate.

    A replica more, a faster node and more copies all have a cost; the cheapest mix is searched. The answer is
    a plan and, with --nodes, a placement that belong together. It is checked in the queueing simulator, on
    recorded requests that the search did not use.
    """
    from kwiken.apps.console.notes import note_words

    if profiles is not None and workloads is None:
        raise InputError("says nothing without --workloads, which names the stages", where="--profiles")
    learned = load_profile(profile)
    from dataclasses import replace

    from kwiken.allocator.capacity.settings import SizeSettings
    from kwiken.allocator.capacity.study import study_size
    from kwiken.model.profile.idempotence import kept_copyable, kept_single

    made_from = learned.digest
    (learned,) = kept_copyable(kept_single((learned,), once), copyable)
    cluster = None if nodes is None else _cluster(nodes)
    settings = SizeSettings(
        target_p99_ms=target_p99,
        rate_per_s=rate,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cluster=cluster,
        needs={} if workloads is None else _needs(workloads, profiles, learned, cluster),
        max_reissue=reissue,
        queues=read_queues(queues),
        frontier=as_json,
        seed=seed,
    )
    with engine_at(engine, jobs) as run, progress("sizing"):
        study = study_size(learned, settings, run)
    from msgspec import structs

    # The plan names the digest of the profile's file, since later verbs read that file.
    study = replace(study, plan=structs.replace(study.plan, profile=made_from))
    if out is not None:
        _write(study, out)
    if as_json:
        print_json(_summary(study, settings.rate_per_s, target_p99))
        return
    _show(study, target_p99, cluster)
    if learned.origin is None:  # of our own runtime, whose stages `kwiken up` can start
        note(f"to run it: {_words_to_run(study, nodes, out)}")
    if explain:
        _explain(study)
    note(*(f"note: {note_words(one)}" for one in study.model.notes))
    if unseen := _unseen(study):
        note(f"note: {unseen}")
    if out is None:
        note("not written: give -o FOLDER to keep the plan, and with --nodes the placement")


def _cluster(nodes: str) -> Cluster:
    text = read_text(nodes, MAX_NODES_FILE)
    from kwiken.model.nodes.document import nodes_from_toml

    return nodes_from_toml(text, where=nodes)


def _needs(
    workloads: str, profiles: str | None, learned: Profile, cluster: Cluster | None
) -> dict[str, StageNeed]:
    """What the stages' replicas need, from the workloads that name this service."""
    texts = (
        read_text(workloads, MAX_WORKLOADS_FILE),
        None if profiles is None else read_text(profiles, MAX_PROFILES),
    )
    from kwiken.allocator.capacity.supply import StageNeed
    from kwiken.allocator.workloads.profile import profiles_from_json
    from kwiken.allocator.workloads.workload import workloads_from_toml

    wanted = workloads_from_toml(texts[0], where=workloads)
    predicted: dict[str, WorkloadProfile] = {}
    if texts[1] is not None:
        predicted = {one.name: one for one in profiles_from_json(texts[1], where=str(profiles))}
    needs: dict[str, StageNeed] = {}
    for place, workload in enumerate(wanted):
        if workload.service != learned.service or not workload.stage:
            continue
        if workload.stage in needs:
            raise InputError(f"workloads[{place}].stage: {workload.stage!r} is given twice", where=workloads)
        needs[workload.stage] = StageNeed(
            memory_gb=workload.memory_gb,
            spread=workload.spread,
            max_replicas=workload.max_replicas,
            speeds=_speeds(workload, predicted, cluster),
        )
    if not needs:
        raise InputError(f"no workload is a stage of service {learned.service!r}", where=workloads)
    return needs


def _speeds(
    workload: Workload, predicted: Mapping[str, WorkloadProfile], cluster: Cluster | None
) -> dict[str, float]:
    import math

    found = predicted.get(workload.name)
    if found is None or cluster is None:
        return {}
    return {name: math.exp(float(mean)) for name, mean in zip(found.classes, found.het.mean, strict=True)}


def _write(study: SizeStudy, folder: str) -> None:
    from pathlib import Path

    documents = {PLAN_FILE: printable_json(study.plan.to_json()) + "\n"}
    if study.placement is not None:
        documents[PLACEMENT_FILE] = study.placement.to_json()
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made a folder: {error.strerror}", where=folder) from error
    for name, text in documents.items():
        write_text(str(Path(folder) / name), text)
    note(f"written to {folder}: {' and '.join(documents)}")


def _show(study: SizeStudy, target_ms: float, cluster: Cluster | None) -> None:
    outcome, trials = study.outcome, study.outcome.trials
    say(_sureness(study, target_ms))
    priced = cluster is not None and cluster.classes[0].cost_per_hour is not None
    placed = ("nodes",) if cluster is not None else ()  # without nodes, all cores are alike
    columns = ("stage", *placed, "replicas", "busy", "copies", "after ms", "cost/h" if priced else "cores")
    rows = []
    for stage, name in enumerate(trials.names):
        size, policy = outcome.sizes[stage], trials.policy(stage, outcome.sizes[stage])
        sized = trials.sized(stage)
        if not sized and policy is None:
            continue
        cost = size.replicas * float(trials.supply.price[stage, size.node_class])
        rows.append(
            (
                name,
                *([trials.supply.classes[size.node_class] if sized else "-"] if placed else []),
                str(size.replicas) if sized else "as it is",
                f"{outcome.verified.utilisation[name]:.0%}" if sized else "-",
                f"{outcome.verified.copies[name]:.2%}" if policy is not None else "-",
                f"{policy.after_ms:.4g}" if policy is not None else "-",
                f"{cost:.4g}" if sized else "-",
            )
        )
    print_table("", columns, rows)
    low, high = study.interval_ms
    unit = "an hour" if priced else ("core" if outcome.cost == 1 else "cores")
    say(
        f"cost {outcome.cost:.4g} {unit}; p99 {outcome.p99_ms:.4g} ms simulated ({low:.4g} to {high:.4g} in "
        f"95% of the resampled recordings), target {target_ms:g} ms; "
        f"{study.plain.p99_ms:.4g} ms without the copies"
    )


def _sureness(study: SizeStudy, target_ms: float) -> str:
    """Whether the target is surely met, as one line."""
    from kwiken.allocator.capacity.study import MARGIN

    within = study.probability(target_ms)
    told = f"p99 is at most {MARGIN:.0%} above {target_ms:g} ms in {within:.0%} of the resampled recordings"
    if within >= MIN_CONFIDENCE:
        return f"met: {told}{', which show no pause of a replica' if _unseen(study) else ''}"
    return (
        f"not surely met: {told}, and {MIN_CONFIDENCE:.0%} count as met; more recorded requests tell more, "
        "and a lower --target-p99 leaves more room"
    )


def _unseen(study: SizeStudy) -> str:
    """Note on pauses of replicas that the recording is too short to show; empty where it showed some."""
    watched_s = study.watched_s
    if study.outcome.trials.pauses or not watched_s:
        return ""
    return (
        f"no pause of a replica was recognised in {watched_s:.3g} s of the replicas' time: pauses that come "
        f"once in {watched_s / 3:.3g} s or less often may have been missed, and p99 may be higher for them"
    )


def _words_to_run(study: SizeStudy, nodes: str | None, out: str | None) -> str:
    """Command line that starts the service at these sizes, with what is written of them."""
    from pathlib import Path
    from shlex import quote

    words = ["kwiken up SERVICE"]
    if nodes is not None and out is not None:
        words.append(f"--placement {quote(str(Path(out) / PLACEMENT_FILE))} --nodes {quote(nodes)}")
    else:
        sizes = zip(study.outcome.trials.names, study.outcome.sizes, strict=True)
        words += [f"--replicas {name}={size.replicas}" for name, size in sizes if size.replicas]
    if out is not None:
        words.append(f"--plan {quote(str(Path(out) / PLAN_FILE))}")
    return " ".join(words)


def _explain(study: SizeStudy) -> None:
    rows = [
        (
            one.stage,
            one.move,
            _signed(one.p99_change_ms) if one.p99_change_ms < float("inf") else "cannot serve",
            _signed(one.cost_change),
            one.forbidden or "-",
        )
        for one in study.marginals
    ]
    say("")
    print_table("one move more or less", ("stage", "move", "p99 ms", "cost", "forbidden by"), rows)


def _signed(value: float) -> str:
    return f"{value:+.3g}" if abs(value) >= 5e-4 else "0"  # noqa: PLR2004 - rounds to nothing


def _summary(study: SizeStudy, rate_per_s: float, target_ms: float) -> dict[str, Any]:
    from kwiken.allocator.capacity.study import MARGIN
    from kwiken.apps.console.notes import note_summaries

    return {
        "target_p99_ms": target_ms,
        "rate_per_s": rate_per_s,
        **_outcome(study.outcome),
        "met": study.probability(target_ms) >= MIN_CONFIDENCE,
        "margin": MARGIN,
        "probability": study.probability(target_ms),
        "p99_interval_ms": study.interval_ms,
        "watched_s": study.watched_s,
        "p99_ms_without_copies": study.plain.p99_ms,
        "plan": study.plan,
        "placement": study.placement,
        "moves": study.marginals,
        "frontier": [
            {"with_copies": point.with_copies, "p99_ms": point.p99_ms, "cost": point.cost}
            for point in study.frontier
        ],
        "notes": note_summaries(study.model.notes),
    }


def _outcome(outcome: SizeOutcome) -> dict[str, Any]:
    trials = outcome.trials
    stages: Sequence[dict[str, Any]] = [
        {
            "stage": name,
            "replicas": size.replicas or None,
            "class": trials.supply.classes[size.node_class] if size.replicas else None,
            "reissue": trials.policy(stage, size),
            "copies": outcome.verified.copies[name],
            "utilisation": outcome.verified.utilisation[name],
        }
        for stage, (name, size) in enumerate(zip(trials.names, outcome.sizes, strict=True))
    ]
    return {"cost": outcome.cost, "p99_ms": outcome.p99_ms, "stages": stages}
