"""`kwiken fit`: learn a service's stages and latencies from its traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import (
    check_writable,
    note,
    note_written,
    print_json,
    print_table,
    progress,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.printable import printable_json
from kwiken.cli.shared.engines import engine_at, engine_options
from kwiken.cli.shared.input_files import check_apart, check_exist, named_by
from kwiken.cli.shared.options import (
    copyable_option,
    given,
    json_option,
    kind_by_option,
    load_profile,
    needs_extra,
    once_option,
    out_option,
    refuse_shared_stdout,
    seconds_of,
)
from kwiken.cli.shared.profile_findings import drift_summary, note_cut_short, note_few, show_drift
from kwiken.cli.study.fit_histograms import facts_of, is_prometheus, learn_from_prometheus, note_losses

if TYPE_CHECKING:
    from kwiken.model.profile.profile import Profile, StageProfile
    from kwiken.otel.fit.fit import Fits, Kind
    from kwiken.otel.histograms.fit import HistogramFit


MAX_DEPTH: Final = 20
UNLABELLED: Final = "(none)"  # the fit's name of the class of requests whose spans lack the attribute
WARNING: Final = "warning_"  # start of the counts that have notes of their own
MAX_KINDS_SHOWN: Final = 20
MIN_KINDS_LISTED: Final = 2
MAX_ROWS_LISTED: Final = 500  # kinds or roots in a list; JSON has all
_NOT_IN_FILE_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@out_option(what="profile", metavar="FILE|FOLDER")
@click.option(
    "--root",
    metavar="OP",
    help="Requests are spans of this operation, or SERVICE:OP.  [default: the most frequent root]",
)
@click.option("--service", metavar="NAME", help="Only requests of this service.")
@click.option(
    "--depth",
    type=click.IntRange(1, MAX_DEPTH),
    default=1,
    show_default=True,
    help="Levels of calls that become stages; above 1, what is inside of a call does too.",
)
@click.option("--spans", is_flag=True, help="Any span is a call, not only a call from service to service.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="OP",
    help="Leave out spans of this operation, or SERVICE:OP; what they call is called by their caller then. "
    "A name or a pattern; repeatable.",
)
@click.option(
    "--kind",
    metavar="NAME",
    help="Requests of this kind: a name that --list shows, or an end of its route.  "
    "[default: the most frequent]",
)
@click.option(
    "--all", "every", is_flag=True, help="A profile for each kind of requests; -o is then a folder."
)
@click.option("--list", "listed", is_flag=True, help="List root operations and kinds of requests, and stop.")
@click.option(
    "--like",
    metavar="FILE",
    help="A profile of other traces: requests of its kind are fitted into its stages.",
)
@kind_by_option
@click.option(
    "--half-life",
    "half_life_s",
    callback=seconds_of,
    metavar="TIME",
    help="A request so long before the last one counts half, as in 90s, 30m, 1h or 2d.  [default: all alike]",
)
@once_option
@copyable_option
@engine_options(processes="this one alone")
@click.option("--mermaid", is_flag=True, help="Print the DAG as a Mermaid drawing on stdout.")
@json_option
@needs_extra("plan")
def command(
    *,
    traces: tuple[str, ...],
    out: str | None,
    every: bool,
    listed: bool,
    like: str | None,
    once: tuple[str, ...],
    copyable: tuple[str, ...],
    mermaid: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Learn a service from TRACES: files or folders of Jaeger, OTLP or Zipkin JSON, or a Jaeger.

    A Jaeger is named as jaeger://HOST:PORT/SERVICE?lookback=1h. Files may be compressed by gzip. A service
    too big to trace is learned from its histograms alone: prometheus://HOST:PORT?lookback=1h.

    Shows the stages, what comes after what, and what was set aside. Without -o the profile is not kept. With
    -o - or --mermaid stdout carries that document, and the tables go to stderr.
    """
    refuse_shared_stdout(out=out == "-", mermaid=mermaid, json=as_json)
    _check_out(out, every=every)
    _check_choices(listed=listed, like=like, every=every, kind=settings["kind"])
    if listed and not is_prometheus(traces):
        _list(_learn(traces, listed=True, every=False, **settings), as_json=as_json)
        return
    model = None if like is None else load_profile(like)
    fits, histograms = _learn_or_ask(traces, every=every, like=model, **settings)
    from kwiken.model.profile.change_over_time import drift
    from kwiken.model.profile.idempotence import kept_copyable, kept_single
    from kwiken.model.service.drawing import to_mermaid

    fits = replace(fits, profiles=kept_copyable(kept_single(fits.profiles, once), copyable))
    files = _write(fits, out, traces, every=every)
    if as_json:
        more = {} if histograms is None else {"histograms": facts_of(histograms)}
        print_json(_summaries(fits, files, every=every) | more)
        return
    for profile in fits.profiles:
        if mermaid:
            write_text("-", to_mermaid(boxes(profile)))
        _show(profile, to_stderr=mermaid or out == "-")
        show_drift(drift(profile))
    _show_kinds(fits, every=every, to_stderr=mermaid or out == "-")
    if histograms is not None:
        note_losses(histograms)
    for file in files:
        note_written(file)
    if out is None:
        note_written(None)


def _check_out(out: str | None, *, every: bool) -> None:
    if every and out == "-":
        raise click.UsageError("--all writes several profiles, so -o must be a folder")
    if out is not None and not every:
        check_writable(out)


def _check_choices(*, listed: bool, like: str | None, every: bool, kind: str | None) -> None:
    """Refuse options that contradict one another or would have no effect."""
    if every and kind is not None:
        raise click.UsageError("--all learns every kind, so --kind has no effect")
    if like is not None and (other := given("kind", "every", "spans", "depth", "ignore")) is not None:
        raise click.UsageError(
            f"--like takes the kind and the stages of its profile, so {other} has no effect"
        )
    if listed and (
        other := given(
            "out", "like", "kind", "every", "once", "copyable", "half_life_s", "kind_by", "mermaid"
        )
    ):
        raise click.UsageError(f"--list learns no profile, so {other} has no effect")


def _learn_or_ask(traces: tuple[str, ...], **settings: Any) -> tuple[Fits, HistogramFit | None]:
    """Learn from traces, or from the histograms of a Prometheus."""
    if not is_prometheus(traces):
        return _learn(traces, listed=False, **settings), None
    found = learn_from_prometheus(traces, settings["service"])
    from kwiken.otel.fit.fit import Fits

    return Fits((found.profile,), (), {}, {}), found


def _learn(
    traces: tuple[str, ...], *, listed: bool, every: bool, engine: str, jobs: int | None, **settings: Any
) -> Fits:
    check_exist(traces)
    from kwiken.otel.fit.fit import fit_profiles, list_kinds

    with engine_at(engine, jobs) as run, named_by(traces), progress("reading traces") as bar:

        def tell(done: int, total: int) -> None:
            bar.update(done, total=total)

        if listed:
            return list_kinds(traces, on_progress=tell, spread=run, **settings)
        return fit_profiles(traces, every=every, on_progress=tell, spread=run, **settings)


def _write(fits: Fits, out: str | None, traces: tuple[str, ...], *, every: bool) -> list[str]:
    """Write the profiles; returns the file of each, or no files if none were to be written."""
    from kwiken.model.profile.codec import profile_to_json

    if out is None:
        return []
    files = _names(fits, Path(out)) if every else [out]
    for file in files if every else ():
        check_apart(file, list(traces))
    for file, profile in zip(files, fits.profiles, strict=True):
        write_text(file, printable_json(profile_to_json(profile)) + "\n")
    return files


def _names(fits: Fits, folder: Path) -> list[str]:
    """Path of a file for each profile, named by its kind of requests; creates the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(folder)) from error
    taken: Counter[str] = Counter()
    files = []
    for profile in fits.profiles:
        name = _NOT_IN_FILE_NAMES.sub("_", _kind_name(fits, profile)).strip("_.")[:100] or "profile"
        taken[name.lower()] += 1
        again = taken[name.lower()]
        files.append(str(folder / f"{name}{f'-{again}' if again > 1 else ''}.json"))
    return files


def kind_of(profile: Profile) -> str:
    """Kind of a profile's requests, as `service:operation`."""
    if profile.origin is not None:
        return profile.origin.kind
    match = profile.stages[0].match
    return f"{match.service}:{match.operation}"


def _kind_name(fits: Fits, profile: Profile) -> str:
    """Short name of the kind of a profile's requests."""
    label = kind_of(profile)
    return next((kind.name for kind in fits.kinds if kind.label == label), label)


def _listing(fits: Fits) -> dict[str, Any]:
    return {"roots": dict(fits.roots), "requests_by_kind": [asdict(kind) for kind in fits.kinds]}


def _summaries(fits: Fits, files: list[str], *, every: bool) -> dict[str, Any]:
    found = _listing(fits) | {"left_out": dict(fits.left_out)}
    if not every:
        return summary(fits.profiles[0]) | found
    parts = [summary(profile) for profile in fits.profiles]
    return {"profiles": [part | {"file": file} for part, file in zip_longest(parts, files)]} | found


def _list(fits: Fits, *, as_json: bool) -> None:
    """Print root operations and kinds of requests."""
    if as_json:
        print_json(_listing(fits))
        return
    rows = [(root, str(number)) for root, number in fits.roots.items()]
    _list_table(f"Root operations: {len(rows)}", ("operation", "requests"), rows)
    say("")
    _list_table(f"Kinds of requests: {len(fits.kinds)}", KIND_HEAD, _kind_rows(fits.kinds))
    note_repeated(fits)
    note_scattered(fits)


def _list_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the first rows of a list, and the number of the others."""
    print_table(title, head, rows[:MAX_ROWS_LISTED])
    if len(rows) > MAX_ROWS_LISTED:
        say(f"and {len(rows) - MAX_ROWS_LISTED:,} more; --json has all")


def note_repeated(fits: Fits) -> None:
    """Note requests that are connections or loops, and which of their parts are better requests."""
    for kind, part in fits.repeated.items():
        note(
            f"requests of {kind} mostly wait, as a connection or a loop does, and repeat {part}: learn these "
            f"as requests, by --root {part!r}"
        )


def note_scattered(fits: Fits) -> None:
    """Note that most kinds have a single request, and what would be right."""
    if fits.scattered:
        note(
            f"note: most of the {len(fits.kinds):,} kinds have a single request, as where names of spans "
            "hold identifiers (GET /item/shoe); record spans under the names of their routes (GET /item/{id})"
        )


KIND_HEAD: Final = ("kind", "requests", "p50 ms", "p99 ms", "stages")


def _kind_rows(kinds: Sequence[Kind]) -> list[tuple[str, ...]]:
    return [
        (
            kind.name,
            str(kind.requests),
            f"{kind.p50_ms:.2f}",
            f"{kind.p99_ms:.2f}",
            "-" if kind.stages is None else str(kind.stages),
        )
        for kind in kinds
    ]


def _show_kinds(fits: Fits, *, every: bool, to_stderr: bool) -> None:
    """List the kinds of requests among the traces, and say which one was learned and how to learn others."""
    for kind, why in fits.left_out.items():
        note(f"nothing learned of {kind}: {why}")
    note_repeated(fits)
    if len(fits.kinds) < MIN_KINDS_LISTED:
        return
    shown, more = fits.kinds[:MAX_KINDS_SHOWN], len(fits.kinds) - MAX_KINDS_SHOWN
    print_table("Kinds of requests", KIND_HEAD, _kind_rows(shown), to_stderr=to_stderr, apart=True)
    if more > 0:
        note(f"and {more} more; --list shows them")
    note_scattered(fits)
    if not every:
        learned = _kind_name(fits, fits.profiles[0])
        note(f"learned: {learned}; choose another kind by --kind NAME, or learn each by --all -o FOLDER")


def summary(profile: Profile) -> dict[str, Any]:
    """Summary of a profile, without its samples; times in milliseconds."""
    from kwiken.model.latency import ladder
    from kwiken.model.profile.change_over_time import drift

    return {
        "service": profile.service,
        "kind": kind_of(profile),
        "profile": profile.digest,
        "requests": profile.requests,
        "latency": ladder(profile.latency_ms) if profile.requests else None,
        "stages": [_facts(stage) for stage in profile.stages],
        "counts": dict(profile.counts),
        "kinds": _kinds(profile),
        "drift": drift_summary(drift(profile)),
    }


def _kinds(profile: Profile) -> dict[str, int]:
    """Number of requests of each class; empty if the requests are not classified."""
    if profile.classes is None:
        return {}
    return {name: int((profile.classes == i).sum()) for i, name in enumerate(profile.class_names)}


def _facts(stage: StageProfile) -> dict[str, Any]:
    import numpy as np

    from kwiken.model.latency import percentiles_of

    calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
    p50, p99 = percentiles_of(calls, (50, 99)) if len(calls) else (None, None)
    return {
        "name": stage.name,
        "after": stage.after,
        "match": stage.match,
        "visit_share": stage.visit_share,
        "calls_per_request": stage.calls_per_request,
        "shards": stage.calls_ms.shape[1],
        "p50_ms": p50,
        "p99_ms": p99,
        "busy_ms": stage.busy_ms,
        "censored": int(stage.censored.sum()),
        "reissuable": stage.reissuable,
        "writes": stage.writes,
    }


def boxes(profile: Profile) -> list[Any]:
    """Boxes of the profile's DAG for a drawing: latencies below the names, optional stages dashed."""
    from kwiken.model.service.drawing import Box

    drawn = []
    for facts in (_facts(stage) for stage in profile.stages):
        notes = (
            [f"p50 {facts['p50_ms']:.2f} ms, p99 {facts['p99_ms']:.2f} ms"]
            if facts["p50_ms"] is not None
            else []
        )
        skipped = facts["visit_share"] < 1
        notes += [f"visited by {facts['visit_share']:.1%}"] if skipped else []
        drawn.append(
            Box(
                name=facts["name"],
                after=facts["after"],
                notes=tuple(notes),
                shards=facts["shards"],
                optional=skipped,
            )
        )
    return drawn


def _show(profile: Profile, *, to_stderr: bool) -> None:
    """Print a table of the stages, numbered so that the column `after` stays short."""
    columns = ("stage", "after", "visits", "calls", "p50 ms", "p99 ms", "reissue")
    numbers = {stage.name: number for number, stage in enumerate(profile.stages, 1)}
    rows = [_row(_facts(stage), numbers) for stage in profile.stages]
    from kwiken.model.profile.weighting import KEPT_OF_SAMPLED, SLOW_CHOSEN

    kept = profile.counts.get(KEPT_OF_SAMPLED)
    estimated = f", estimated from {kept} that were sampled" if kept is not None else ""
    title = f"{profile.requests} requests of {profile.service}{estimated}"
    print_table(title, columns, rows, to_stderr=to_stderr)
    if profile.requests:
        from kwiken.model.latency import ladder

        steps = ladder(profile.latency_ms)
        values = [f"{getattr(steps, name):.2f}" for name in steps.__struct_fields__]
        names = [name.removesuffix("_ms").replace("p999", "p99.9") for name in steps.__struct_fields__]
        print_table("Latency of whole requests, ms", names, [values], to_stderr=to_stderr, apart=True)
    kinds = [f"{name} {count}" for name, count in _kinds(profile).items()]
    if kinds:
        note("", f"kinds of requests: {', '.join(kinds)}")
    if profile.class_names == (UNLABELLED,):
        note("no span has the attribute that --kind-by names, so all requests are of one kind")
    counted = ", ".join(
        f"{name.replace('_', ' ')} {count}"
        for name, count in profile.counts.items()
        if count and not name.startswith(WARNING)
    )
    note("", f"read and set aside: {counted or 'nothing'}", "")
    _note_writes(profile)
    note_cut_short(profile, "the times shown for them are lower bounds; plan and explain estimate the rest")
    note_few(profile)
    if SLOW_CHOSEN in profile.counts:
        share = profile.counts[SLOW_CHOSEN] / profile.requests
        note(
            f"warning: {share:.0%} of the requests are slow, with a step at a round latency, as where a "
            "sampler keeps slow requests and drops others; nothing in the spans says with which probability "
            "(ot=th in tracestate, sampler.param, a sample rate), so the percentiles are too high"
        )


def _note_writes(profile: Profile) -> None:
    """Note which stages were taken for reads, and which for writes and why."""
    from kwiken.model.profile.idempotence import taken_for

    reads, writes = taken_for(profile)
    if reads:
        note(
            f"taken for reads, so copies may be sent: {', '.join(reads)}; --once STAGE keeps one from copies"
        )
    if writes:
        told = ", ".join(f"{name} ({why})" for name, why in writes.items())
        note(f"taken for writes, so no copies are sent: {told}; --copyable STAGE allows them")


def _row(facts: dict[str, Any], numbers: Mapping[str, int]) -> tuple[str, ...]:
    known = facts["p50_ms"] is not None
    shards = f" (x{facts['shards']})" if facts["shards"] > 1 else ""
    return (
        f"{numbers[facts['name']]}. {facts['name']}{shards}",
        ", ".join(str(numbers[parent]) for parent in facts["after"]) or "-",
        f"{facts['visit_share']:.1%}",
        f"{facts['calls_per_request']:.2f}",
        f"{facts['p50_ms']:.2f}" if known else "-",
        f"{facts['p99_ms']:.2f}" if known else "-",
        "yes" if facts["reissuable"] else "no",
    )
