"""`kwiken fit prometheus://...`: what is learned from histograms, and what they cannot tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, progress
from kwiken.cli.shared.options import given
from kwiken.otel.http.query_address import scheme_of

if TYPE_CHECKING:
    from kwiken.otel.histograms.fit import HistogramFit

_OF_TRACES: Final = (
    "root",
    "depth",
    "spans",
    "ignore",
    "kind",
    "every",
    "listed",
    "like",
    "kind_by",
    "half_life_s",
    "engine",
    "jobs",
)
NOTABLE_DIFFERENCE: Final = 0.1  # relative difference of percentiles that is pointed out
UNJOINED: Final = "histograms do not tell which stages and shards were slow for the same request: "
UNKNOWN: Final = (
    "not known either: how slow a copy is beside its call (taken as independent), changes over the window, "
    "and kinds of requests; traces tell them"
)
FEW_COPIES: Final = 0.001  # share of calls with copies that changes no percentile shown


def is_prometheus(sources: Sequence[str]) -> bool:
    """Whether any source is an address of Prometheus."""
    return any(scheme_of(source) == "prometheus" for source in sources)


def learn_from_prometheus(sources: Sequence[str], service: str | None) -> HistogramFit:
    """Learn a profile from a Prometheus.

    Args:
        sources: sources on the command line, at least one of them an address of Prometheus.
        service: name of the service; None if there is only one.

    Raises:
        click.UsageError: there are other sources too, or options that only traces have.
        InputError: Prometheus does not answer, or has no histograms of the service.
    """
    if len(sources) > 1:
        raise click.UsageError("an address of Prometheus must be the only source")
    if (option := given(*_OF_TRACES)) is not None:
        raise click.UsageError(f"histograms hold no single requests, so {option} has no effect")
    from kwiken.otel.histograms.fit import fit_histograms

    with progress("asking Prometheus"):
        return fit_histograms(sources[0], service=service)


def facts_of(found: HistogramFit) -> dict[str, Any]:
    """What was measured of whole requests beside the profile, as JSON."""
    return {
        "requests": found.requests,
        "measured": {"p50_ms": found.measured_ms[0], "p99_ms": found.measured_ms[1]},
        "independent": {"p50_ms": found.independent_ms[0], "p99_ms": found.independent_ms[1]},
        "put_together": {"p50_ms": found.put_together_ms[0], "p99_ms": found.put_together_ms[1]},
        "correlation": found.correlation,
        "copied_share": found.copied_share,
        "bucket_ratio": found.bucket_ratio,
        "source": found.source,
        "lost": losses(found),
    }


def losses(found: HistogramFit) -> list[str]:
    """Sentences on what the profile lacks because it was learned from histograms."""
    measured, made = found.measured_ms[1], found.put_together_ms[1]
    told = [
        *([found.order] if found.order else []),
        UNJOINED + _joined(found),
        f"latencies are known to a bucket, whose bounds are up to {found.bucket_ratio - 1:.0%} apart",
        UNKNOWN,
    ]
    if abs(made - measured) > NOTABLE_DIFFERENCE * measured:
        way = "more" if made > measured else "less"
        told.append(
            f"requests' p99 is {measured:.2f} ms as measured and {made:.2f} ms as put together, "
            f"{abs(made - measured) / measured:.0%} {way}: plan from traces, or take the plan's expectation "
            "as a direction only"
        )
    if found.copied_share > FEW_COPIES:
        told.append(
            f"{found.copied_share:.1%} of the calls had a copy, and the histograms hold the winners' "
            "latencies; without copies the tails are longer"
        )
    return told


def _joined(found: HistogramFit) -> str:
    independent = f"p99 as if all calls were independent: {found.independent_ms[1]:.2f} ms"
    if found.correlation == 0:
        return f"they are taken as independent ({independent})"
    return (
        f"all calls of a request are taken to share one correlation, {found.correlation:.2f}, by which p99 "
        f"is as measured ({independent})"
    )


def note_losses(found: HistogramFit) -> None:
    """Say what was measured, and what the profile lacks."""
    note(
        f"learned from the histograms of {found.requests} requests, measured by {found.source} with p50 "
        f"{found.measured_ms[0]:.2f} ms and p99 {found.measured_ms[1]:.2f} ms"
    )
    for sentence in losses(found):
        note(sentence)
