"""`kwiken fit`: learn a service's stages and latencies from its traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli._options import json_option, out_option
from cli._output import note, note_written, print_json, print_table, progress, write_text
from kwiken import InputError

if TYPE_CHECKING:
    from kwiken import Profile, StageProfile


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@out_option(what="profile")
@click.option(
    "--root",
    metavar="OP",
    help="Requests are spans of this operation, or SERVICE:OP.  [default: the most frequent root]",
)
@click.option("--service", metavar="NAME", help="Only requests of this service.")
@click.option("--mermaid", is_flag=True, help="Print the DAG as a Mermaid drawing on stdout.")
@json_option
def command(
    *,
    traces: tuple[str, ...],
    out: str | None,
    root: str | None,
    service: str | None,
    mermaid: bool,
    as_json: bool,
) -> None:
    """Learn a service from TRACES: files or folders of Jaeger JSON or OTLP JSON lines, or a Jaeger.

    A Jaeger is named as jaeger://HOST:PORT/SERVICE?lookback=1h. Files may be compressed by gzip.

    Shows the stages, what comes after what, and what was set aside. Without -o the profile is not kept.
    """
    if (out == "-") + mermaid + as_json > 1:
        raise click.UsageError("-o -, --mermaid and --json all want stdout; choose one")
    from kwiken import profile_to_json

    profile = _learn(traces, root, service)
    if out is not None:
        write_text(out, profile_to_json(profile) + "\n")
    if as_json:
        print_json(summary(profile))
        return
    if mermaid:
        from kwiken import to_mermaid

        print(to_mermaid(boxes(profile)), end="")
    _show(profile, out)


def _learn(traces: tuple[str, ...], root: str | None, service: str | None) -> Profile:
    from otel import fit_profile

    try:
        with progress("reading traces") as bar:
            return fit_profile(
                traces,
                root=root,
                service=service,
                on_progress=lambda done, total: bar.update(done, total=total),
            )
    except InputError as error:
        if error.where is not None:
            raise
        more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
        raise InputError(str(error), where=f"{traces[0]}{more}") from error


def summary(profile: Profile) -> dict[str, Any]:
    """What was learned, without the samples; times are milliseconds."""
    from kwiken import ladder

    return {
        "service": profile.service,
        "profile": profile.digest,
        "requests": profile.requests,
        "latency": ladder(profile.latency_ms) if profile.requests else None,
        "stages": [_facts(stage) for stage in profile.stages],
        "counts": dict(profile.counts),
    }


def _facts(stage: StageProfile) -> dict[str, Any]:
    import numpy as np

    calls = stage.calls_ms[~np.isnan(stage.calls_ms)]
    p50, p99 = np.percentile(calls, (50, 99)).tolist() if len(calls) else (None, None)
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
    }


def boxes(profile: Profile) -> list[Any]:
    """The profile's DAG to draw; latencies below the names, stages that some requests skip dashed."""
    from kwiken import Box

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


def _show(profile: Profile, out: str | None) -> None:
    """The stages for the eye, numbered, so that `after` can be short."""
    columns = ("stage", "after", "visits", "calls", "p50 ms", "p99 ms", "reissue")
    numbers = {stage.name: number for number, stage in enumerate(profile.stages, 1)}
    rows = [_row(_facts(stage), numbers) for stage in profile.stages]
    print_table(f"{profile.requests} requests of {profile.service}", columns, rows)
    if profile.requests:
        from kwiken import ladder

        steps = ladder(profile.latency_ms)
        values = [f"{getattr(steps, name):.2f}" for name in steps.__struct_fields__]
        names = [name.removesuffix("_ms").replace("p999", "p99.9") for name in steps.__struct_fields__]
        note("")
        print_table("Latency of whole requests, ms", names, [values])
    counted = ", ".join(
        f"{name.replace('_', ' ')} {count}" for name, count in profile.counts.items() if count
    )
    note(f"\nread and set aside: {counted or 'nothing'}")
    note_written(out)


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
