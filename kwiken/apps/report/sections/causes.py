"""Section on causes: excess by service, blame by stage, effect of a budget at each, heat map of replicas."""

from __future__ import annotations

import math

from kwiken.apps.report.charts.heat_map import LEGEND, draw_heat
from kwiken.apps.report.model.number_format import count, percent
from kwiken.apps.report.model.page import Figure, Row, Section, Table
from kwiken.apps.report.sections.excess import excess_sentence, excess_table, replica_words
from kwiken.apps.report.sections.views import Material
from kwiken.tail.diagnosis.explanation import Explanation

MAX_STAGES_SHOWN = 24
MAX_PATHS_SHOWN = 4
ARROW = " \N{RIGHTWARDS ARROW} "


def diagnosis(material: Material) -> Section | None:
    """Build the section: excess, blame, critical paths, what-ifs and heat map; None without a profile."""
    story = material.story
    if story is None:
        return None
    ranked = sorted(story.stages, key=lambda stage: -stage.blamed)
    worst = ranked[0]
    blamed = (
        "A stage is blamed for one of the slowest 5% of requests if it took longer there than its mean plus "
        f"two standard deviations. {worst.name} is blamed most often: for "
        f"{percent(worst.blamed, places=0)} of these requests."
    )
    rows = [Row((excess_table(story.slow),)), Row((_table(story),))]
    if story.heat:
        picture, left = draw_heat(story.heat)
        more = f" Not shown: {count(left, 'replica')}." if left else ""
        caption = (
            "A dark row is a replica that is often slow. A dark column is a time at which all replicas were "
            "slow. A dark diagonal is slowness that moved from replica to replica. Latencies are those "
            "without copies."
            f"{more}"
        )
        rows.append(Row((Figure(svg=picture, caption=caption, legend=LEGEND),)))
    return Section(
        id="causes",
        title="Why slow requests are slow",
        words=(
            *(f"A slow replica: {replica_words(each)}." for each in story.slow_replicas),
            f"{excess_sentence(story.slow[-1])}.",
            blamed,
            _paths(story),
        ),
        rows=tuple(rows),
    )


def _paths(story: Explanation) -> str:
    told = "; ".join(
        f"{percent(path.share, places=0)} {ARROW.join(path.stages)}" for path in story.paths[:MAX_PATHS_SHOWN]
    )
    return (
        f"Critical paths, by share of requests: {told}. An average path has {story.effective_per_path:.1f} "
        "effective stages: the few that make it long."
    )


def _less(share: float, *, places: int) -> str:
    """Format a decrease; a value that rounds to zero has no sign."""
    told = percent(max(0.0, share), places=places)
    return f"\N{MINUS SIGN}{told}" if told.strip("0.%") else "0%"


def _table(story: Explanation) -> Table:
    shown = sorted(story.stages, key=lambda stage: -stage.blamed)[:MAX_STAGES_SHOWN]
    kept = {stage.name for stage in shown}
    budget = f"{100 * story.budget:.3g}%"
    head = (
        "stage",
        "share of mean latency",
        "blamed for slow requests",
        "on the critical path",
        "p99 over median",
        f"p99, if it had {budget} alone",
        "its variance then (90% interval)",
    )
    body = []
    for stage in story.stages:
        if stage.name not in kept:
            continue
        gain, variance = "\N{EN DASH}", "\N{EN DASH}"
        if stage.alone_fraction:
            gain = _less(stage.alone, places=1)
            low, high = percent(stage.variance_cut_low, places=0), percent(stage.variance_cut_high, places=0)
            variance = f"{_less(stage.variance_cut, places=0)} ({low} to {high})"
        body.append(
            (
                stage.name,
                percent(stage.mean_share, places=1),
                percent(stage.blamed, places=1),
                percent(stage.critical, places=0),
                f"{stage.tail_ratio:.1f}" if math.isfinite(stage.tail_ratio) else "\N{EN DASH}",
                gain,
                variance,
            )
        )
    left = len(story.stages) - len(shown)
    caption = f"The last two columns say what changes if one stage gets all copies, for {budget} of all work."
    if left:
        caption += f" Not shown: {count(left, 'stage')} with less blame."
    return Table(head=head, body=tuple(body), caption=caption)
