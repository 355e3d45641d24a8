"""Choice of sources for `kwiken probe stage --sources auto`: what an error of each would cost the service."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, print_table
from kwiken.base.errors import InputError
from kwiken.cli.shared.options import LATENCY_FORM, load_profile, milliseconds

if TYPE_CHECKING:
    from kwiken.allocator.neighbours.intervals import SourcePlan
    from kwiken.allocator.workloads.measurements import Measurements
    from kwiken.model.profile.profile import Profile

QOS: Final = 0.95  # share of its performance that a stage keeps where no profile says what its service bears
ROOM: Final = 1.05  # of the profile's p99, where no target is given
REQUESTS: Final = 20_000  # that are replayed for each factor on the stage's latencies
MAX_SHOWN_ERROR: Final = 0.5  # largest error that is tried: an interval that ends there has no end


def chosen_sources(
    known: Measurements,
    stage: str,
    profile_file: str | None,
    target_p99: str | None,
    *,
    to_stdout: bool,
) -> tuple[str, ...]:
    """Names of the sources to measure, the one whose error costs most first; shows why.

    Args:
        known: history, whose workloads stand for the stage and for its neighbours.
        stage: name of the stage, as in the profile.
        profile_file: profile of the service; None where the stage's own performance counts.
        target_p99: p99 that the service must keep, as a text; None for 5% above the profile's.
        to_stdout: whether the table goes to stdout, and not to stderr.

    Raises:
        InputError: names the stage that the profile does not have, or a target that is missed already.
    """
    from kwiken.allocator.neighbours.intervals import sources_to_measure

    if not known.tolerated.labels:
        raise InputError("the history has no scores of contention", where="--sources")
    slowdown = 1.0 / QOS
    if profile_file is None:
        note("no --profile: the stage is to keep 95% of its own performance, whatever its service bears")
    else:
        slowdown = _slowdown(load_profile(profile_file), stage, profile_file, target_p99)
        note(f"the service keeps its p99 while {stage!r} takes up to {slowdown:.2f} times as long")
    found = sources_to_measure(
        known.tolerated.rows, known.caused.rows, slowdown, tuple(known.tolerated.labels)
    )
    _show(found, to_stdout=to_stdout)
    return found.sources


def _slowdown(profile: Profile, stage: str, where: str, target_p99: str | None) -> float:
    from kwiken.allocator.neighbours.intervals import allowed_slowdown
    from kwiken.tail.simulation.trace_driven import simulate

    names = [each.name for each in profile.stages]
    if stage not in names:
        raise InputError(f"has no stage {stage!r}; there are {', '.join(names)}", where=where)

    def p99_ms(factor: float) -> float:
        slower = tuple(
            replace(each, calls_ms=each.calls_ms * factor) if each.name == stage else each
            for each in profile.stages
        )
        return simulate(replace(profile, stages=slower), None, requests=REQUESTS).before.p99_ms

    today_ms = p99_ms(1.0)
    target_ms = ROOM * today_ms if target_p99 is None else milliseconds(target_p99)
    if target_ms is None:
        raise InputError(
            f"must be a latency such as {LATENCY_FORM}, not {target_p99!r}", where="--target-p99"
        )
    if today_ms > target_ms:
        raise InputError(f"is missed already: the profile's p99 is {today_ms:.4g} ms", where="--target-p99")
    return allowed_slowdown(p99_ms, target_ms)


def _show(found: SourcePlan, *, to_stdout: bool) -> None:
    def bound(points: float) -> str:
        return "any" if points >= MAX_SHOWN_ERROR else f"{points:.2f}"

    rows = [
        (
            each.source,
            bound(each.under),
            bound(each.over),
            f"{each.missed:.1%}",
            "yes" if each.measured else "",
        )
        for each in found.intervals
    ]
    columns = ("source", "too low by", "too high by", "targets missed unmeasured", "measured")
    print_table("how far a tolerated score may be off", columns, rows, to_stderr=not to_stdout)
