"""`kwiken classify`: predicts workloads' performance on every node from a few measurements of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.document_sizes import MAX_PROFILES, MAX_WORKLOADS_FILE
from kwiken.cli.shared.options import json_option, needs_extra, out_option

if TYPE_CHECKING:
    from kwiken.allocator.workloads.classification import Classification, Proposal
    from kwiken.allocator.workloads.measurements import Measured
    from kwiken.allocator.workloads.profile import WorkloadProfile
    from kwiken.allocator.workloads.workload import Workload

    Required = Mapping[str, float | None]  # by name of a workload: performance that meets its target

MAX_MEASUREMENTS: Final = 64 * MIB
UNITS: Final = {
    "rate": "requests/s",
    "capacity": "requests/s, never idle",
    "completions": "completions/s",
    "ips": "instructions/s",
}
MAX_PROPOSALS: Final = 3  # of each kind, that are shown
METHODS: Final = ("nearest", "gaussian", "best")  # of `CompletionKind`, which needs NumPy to import
MAX_NEIGHBOURS: Final = 5  # of a workload in one matrix, that are shown
KINDS: Final = {
    "size": "by size",
    "replicas": "by replicas",
    "class": "by node class",
    "tolerated": "tolerated",
    "caused": "caused",
}


@click.command()
@click.argument("measurements", metavar="MEASUREMENTS")
@out_option(what="profiles")
@click.option("--known", metavar="FILE", help="Profiles of earlier runs, found again by their identity.")
@click.option(
    "--targets", metavar="WORKLOADS", help="Targets: propose measurements that decide whether they are met."
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="best",
    show_default=True,
    help="Complete by nearest workloads, by Gaussian models, or by what errs least on held-out workloads.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Show every prediction, the methods, the neighbours, what to measure next.",
)
@json_option
@needs_extra("plan")
def command(
    *,
    measurements: str,
    out: str | None,
    known: str | None,
    targets: str | None,
    method: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Predict how the workloads of MEASUREMENTS perform at every size, number of replicas and node class.

    MEASUREMENTS is a TOML or JSON document with workloads that were measured everywhere, and two or more
    measurements of each new one. Every prediction has a standard deviation.
    """
    if out == "-" and (explain or as_json):
        raise InputError("is written to stdout too; give -o FILE", where="--explain" if explain else "--json")
    text = read_text(measurements, MAX_MEASUREMENTS)
    wanted = None if targets is None else read_text(targets, MAX_WORKLOADS_FILE)
    earlier = None if known is None else read_text(known, MAX_PROFILES)
    from kwiken.allocator.workloads.classification import Classifier
    from kwiken.allocator.workloads.completion.selection import CompletionKind
    from kwiken.allocator.workloads.identity import KnownProfiles
    from kwiken.allocator.workloads.measurements import measurements_from_text
    from kwiken.allocator.workloads.profile import profiles_from_json, profiles_to_json
    from kwiken.allocator.workloads.workload import workloads_from_toml

    read = measurements_from_text(text, where=measurements)
    listed = () if wanted is None else workloads_from_toml(wanted, where=str(targets))
    required = {each.name: _required(each, read.workloads, str(targets)) for each in listed}
    cache = KnownProfiles(() if earlier is None else profiles_from_json(earlier, where=str(known)))
    classifier = Classifier(read, CompletionKind(method))
    found: list[tuple[WorkloadProfile, Classification | None]] = []
    with progress("classifying", total=len(read.workloads)) as bar:
        for workload in read.workloads:
            profile = cache.find(workload, read)
            classified = None if profile is not None else classifier.classify(workload)
            found.append((profile or _profile(classified), classified))
            bar.advance()
    if out is not None:
        write_text(out, profiles_to_json(tuple(profile for profile, _ in found)))
    if as_json:
        print_json({"workloads": [_as_json(profile, classified, required) for profile, classified in found]})
        return
    _show(found, required, to_stderr=out == "-")
    if explain:
        for profile, classified in found:
            _explain(profile, classified, required)
    note_written(out)


def _profile(classified: Classification | None) -> WorkloadProfile:
    assert classified is not None  # one that is not known was classified
    return classified.profile()


def _required(workload: Workload, measured: Sequence[Measured], where: str) -> float | None:
    """Performance that meets a workload's target; None for best-effort work."""
    if workload.target is None:
        return None
    for each in measured:
        if each.name == workload.name and not workload.target.judged_by(each.measure):
            told = f"has a target of {workload.target.measure}, and is measured as {each.measure}"
            raise InputError(f"workload {each.name!r} {told}", where=where)
    return workload.target.required


def _show(
    found: list[tuple[WorkloadProfile, Classification | None]],
    required: Required,
    *,
    to_stderr: bool,
) -> None:
    columns = ("workload", "unit", "one replica", "deviation", "typical deviation", "measure next")
    rows = [
        (
            profile.name,
            UNITS[profile.measure.value],
            f"{profile.base:.4g}",
            f"{profile.base_deviation:.1%}",
            f"{_typical(profile):.1%}",
            "known before" if classified is None else _next(classified, required),
        )
        for profile, classified in found
    ]
    print_table("", columns, rows, to_stderr=to_stderr)


def _typical(profile: WorkloadProfile) -> float:
    """Root mean square of the deviation of log performance over sizes, counts and classes."""
    variances = [float((each.deviation**2).mean()) for each in (profile.up, profile.out, profile.het)]
    return float((profile.base_deviation**2 + sum(variances)) ** 0.5)


def _next(classified: Classification, required: Required) -> str:
    proposals = classified.proposals(required.get(classified.measured.name))
    return _text(proposals[0]) if proposals else "-"


def _text(proposal: Proposal) -> str:
    from kwiken.allocator.workloads.classification import label_text

    what = label_text(proposal.label)
    return f"{what} replicas" if proposal.kind == "replicas" else what


def _explain(profile: WorkloadProfile, classified: Classification | None, required: Required) -> None:
    from kwiken.allocator.workloads.classification import label_text
    from kwiken.allocator.workloads.sources import SOURCES

    unit = UNITS[profile.measure.value]
    say("", f"{profile.name}: {profile.base:.4g} {unit} with one replica at the reference")
    for title, labels, estimate in (
        ("by size", profile.sizes, profile.up),
        ("by replicas", profile.replicas.tolist(), profile.out),
        ("by node class", profile.classes, profile.het),
    ):
        rows = [
            (label_text(label), f"{_factor(mean):.3f}", f"{deviation:.1%}")
            for label, mean, deviation in zip(labels, estimate.mean, estimate.deviation, strict=True)
        ]
        print_table("", (title, "times the reference", "deviation"), rows)
    scores = [
        (
            source,
            *(
                f"{each.mean[at]:.2f} ± {each.deviation[at]:.2f}"
                for each in (profile.tolerated, profile.caused)
            ),
        )
        for at, source in enumerate(SOURCES)
        if source not in profile.assumed
    ]
    if scores:
        print_table("", ("source", "tolerated", "caused"), scores)
    if profile.assumed:
        say(f"taken as harmless, because nobody measured them: {', '.join(profile.assumed)}")
    if classified is None:
        say("known by its identity from an earlier classification")
        return
    for kind, chosen in classified.methods.items():
        if chosen is not None:
            baseline = chosen.errors.get("column means")
            beside = "" if baseline is None else f" (column means {baseline:.3f})"
            error = f"held-out error {chosen.error:.3f}{beside}"
            say(f"{KINDS[kind]}: {chosen.name}; {error}")
            _explain_neighbours(kind, classified)
    for proposal in _best(classified, required):
        say(f"measure {_text(proposal)}: removes {proposal.share:.0%} of the remaining variance")


def _explain_neighbours(kind: str, classified: Classification) -> None:
    """Neighbours of a workload in one matrix, and where they disagree."""
    from kwiken.allocator.workloads.classification import label_text

    found = classified.neighbours(kind)
    if found is None:
        return
    near = list(zip(found.names, found.distances, strict=True))
    listed = ", ".join(f"{name} ({distance:.3f})" for name, distance in near[:MAX_NEIGHBOURS])
    more = f" and {len(near) - MAX_NEIGHBOURS} more" if len(near) > MAX_NEIGHBOURS else ""
    use = "nearest" if found.used else "nearest, not used"
    say(f"  {use}: {listed}{more}")
    unit = "points of a score" if kind in ("tolerated", "caused") else "log units"
    where = f"{label_text(found.label)} replicas" if kind == "replicas" else label_text(found.label)
    say(f"  they disagree most at {where}: deviation {found.spread:.3f} {unit}")


def _factor(log: float) -> float:
    return math.exp(log)


def _best(classified: Classification, required: Required) -> list[Proposal]:
    """The most telling runs and sources."""
    proposals = classified.proposals(required.get(classified.measured.name))
    sources = [proposal for proposal in proposals if proposal.kind == "source"]
    runs = [proposal for proposal in proposals if proposal.kind != "source"]
    return [*runs[:MAX_PROPOSALS], *sources[:MAX_PROPOSALS]]


def _as_json(
    profile: WorkloadProfile, classified: Classification | None, required: Required
) -> dict[str, Any]:
    """What `--json` prints of one workload."""
    told: dict[str, Any] = {
        "name": profile.name,
        "measure": profile.measure,
        "base": profile.base,
        "base_deviation": profile.base_deviation,
        "typical_deviation": _typical(profile),
        "known_before": classified is None,
    }
    if classified is None:
        return told
    methods = {
        kind: {
            "method": chosen.name,
            "held_out_error": chosen.error,
            "scale": chosen.scale,
            "tails": None if math.isinf(chosen.tails.freedom) else chosen.tails.freedom,
            "narrowing": chosen.tails.narrowing,
            "errors": chosen.errors,
            "neighbours": _neighbours_as_json(kind, classified),
        }
        for kind, chosen in classified.methods.items()
        if chosen is not None
    }
    proposals = [
        {"kind": each.kind, "label": each.label, "share": each.share} for each in _best(classified, required)
    ]
    return {**told, "methods": methods, "measure_next": proposals}


def _neighbours_as_json(kind: str, classified: Classification) -> dict[str, Any] | None:
    from kwiken.allocator.workloads.classification import label_text

    found = classified.neighbours(kind)
    if found is None:
        return None
    return {
        "used": found.used,
        "nearest": [
            {"workload": name, "distance": distance}
            for name, distance in zip(found.names, found.distances, strict=True)
        ],
        "disagree_at": label_text(found.label),
        "disagree_by": found.spread,
    }
