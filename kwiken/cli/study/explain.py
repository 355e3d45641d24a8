"""`kwiken explain`: which stages make slow requests slow, and what a budget would buy at each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.bands import BANDS
from kwiken.apps.console.output import (
    note,
    note_written,
    print_json,
    print_table,
    progress,
    say,
    write_text,
)
from kwiken.base.extras import require
from kwiken.base.printable import printable
from kwiken.cli.shared.options import (
    SHARE,
    check_belongs,
    during_option,
    json_option,
    load_plan,
    load_profile,
    needs_extra,
    seed_option,
)
from kwiken.cli.shared.profile_findings import note_cut_short, note_few

if TYPE_CHECKING:
    from kwiken.tail.diagnosis.explanation import Explanation, StageStory
    from kwiken.tail.diagnosis.heat_map import Heat

MAX_PATHS_SHOWN = 5
MIN_CONTRADICTED_SHARE = 0.1  # of the requests, below which it is not mentioned
BUT_HEAT = "by replica and time they count with as long as they ran"


@click.command()
@click.argument("profile", metavar="PROFILE")
@click.option("--plan", "plan_file", metavar="FILE", help="Plan whose choices are shown beside.")
@click.option(
    "--budget",
    type=SHARE,
    default=0.05,
    show_default=True,
    help="Reissue budget to try at each stage alone, as a share of all work.",
)
@during_option
@seed_option
@click.option(
    "--html", "out", metavar="FILE", help="Write a page to explore the profile in a browser; - for stdout."
)
@json_option
@needs_extra("plan")
def command(
    *,
    profile: str,
    plan_file: str | None,
    budget: float,
    during_s: tuple[float, float] | None,
    seed: int,
    out: str | None,
    as_json: bool,
) -> None:
    """Say which stages make slow requests of PROFILE slow, and what copies of calls would buy at each."""
    if out is not None:
        if as_json:
            raise click.UsageError("--html and --json are two forms; give one")
        require("kwiken explain --html", "report")
    learned = load_profile(profile)
    plan = None if plan_file is None else load_plan(plan_file)
    if plan is not None:
        check_belongs(plan, learned, str(plan_file), profile)
    from kwiken.apps.console.notes import doubt_words
    from kwiken.model.profile.copy_dependence import copy_doubts
    from kwiken.tail.diagnosis.explanation import explain

    with progress("explaining"):
        story = explain(learned, plan, budget=budget, during_s=during_s, seed=seed)
    if as_json:
        print_json(story)
    elif out is not None:
        from kwiken.apps.report.build import build_exploration
        from kwiken.apps.report.collect import Wishes, explored
        from kwiken.apps.report.model.page import render

        with progress("planning"):
            material = explored(learned, plan, story, Wishes(reissue=budget, seed=seed))
        made = f"From {profile}, {datetime.now(UTC).isoformat(timespec='seconds')}."
        write_text(out, render(build_exploration(material, made=made)))
        note_written(out)
    else:
        _show(story, planned=plan is not None)
        for doubt in copy_doubts(learned):
            note(f"doubt: {doubt_words(doubt)}")
        _note_unread(story)
        note_cut_short(learned, f"their times are estimated, as in a plan; {BUT_HEAT}")
        note_few(learned)
        if story.contradicted > MIN_CONTRADICTED_SHARE:
            note(
                f"in {story.contradicted:.0%} of the requests latency_ms is far from what their stages come "
                "to, as where copies were sent while they were traced"
            )


def _show_slow(story: Explanation) -> None:
    """Print who makes the slowest requests slow: a sentence, and a table by service that sums up."""
    from kwiken.apps.report.sections.excess import excess_sentence, excess_table, replica_words

    for replica in story.slow_replicas:
        say(f"A slow replica: {replica_words(replica)}.")
    say(f"{excess_sentence(story.slow[-1])}.", "")
    table = excess_table(story.slow)
    print_table("Who makes slow requests slow", table.head, table.body)
    say("", table.caption, "")


def _show(story: Explanation, *, planned: bool) -> None:
    _show_slow(story)
    head = ("stage", "of mean", "blamed", "critical", "p99/p50", "cost", "p99 cut", "variance cut")
    rows = []
    for stage in story.stages:
        alone = f"{stage.alone:.1%}" if stage.alone_fraction else "-"
        row = [
            f"{stage.name} *" if stage.effective else stage.name,
            f"{stage.mean_share:.1%}",
            f"{stage.blamed:.1%}",
            f"{stage.critical:.1%}",
            f"{stage.tail_ratio:.1f}" if math.isfinite(stage.tail_ratio) else "-",
            f"{stage.cost:.1%}",
            alone,
            _variance_cut(stage),
        ]
        rows.append([*row, f"{stage.planned:.2%}"] if planned else row)
    requests = f"{story.requests} request{'s' if story.requests != 1 else ''}"
    times = f", p99 is {story.tail_ratio:.1f} times the median" if math.isfinite(story.tail_ratio) else ""
    title = f"{story.service}: {requests}{times}"
    print_table(title, (*head, "plan reissues") if planned else head, rows)
    say("", "blamed: share of the slowest 5% of requests; * effective: one of the few that make a path long")
    say(f"cuts: by copies at this stage alone, for {story.budget:.1%} of extra work")
    say(_effective(story))
    say("", f"critical paths ({story.effective_per_path:.1f} effective stages on the average one):")
    for path in story.paths[:MAX_PATHS_SHOWN]:
        say(f"  {path.share:6.1%}  {' -> '.join(path.stages)}")
    if len(story.paths) > MAX_PATHS_SHOWN:
        say(f"          and {len(story.paths) - MAX_PATHS_SHOWN} more")
    say(*_joint_lines(story))
    say(*_heat_lines(story.heat))


def _note_unread(story: Explanation) -> None:
    """Note on the stages whose answers lay unread at a busy gateway, in the words of a plan's note."""
    from kwiken.apps.console.notes import note_words
    from kwiken.tail.planning.notes import AnswersUnread

    if unread := {stage.name: stage.unread for stage in story.stages if stage.unread}:
        note(note_words(AnswersUnread(unread)))


def _effective(story: Explanation) -> str:
    """Line with the number of effective stages, and the numbers of stages that each of them waits for."""
    waits = sorted(stage.in_degree for stage in story.stages if stage.effective)
    middle = waits[len(waits) // 2] if waits else 0
    most = max(waits, default=0)
    return (
        f"effective: {len(waits)} of {len(story.stages)} stages; "
        f"stages that each comes after: {middle} in the median, {most} at most"
    )


def _joint_lines(story: Explanation) -> Iterator[str]:
    """Lines on how far stages are independent of each other, and copies of their calls."""
    kinds = (("pairs of stages", story.joint_stages), ("stages with copies", story.joint_copies))
    found = [(name, joint) for name, joint in kinds if joint is not None]
    if found:
        yield ""
    for name, joint in found:
        yield (
            f"correlation of latencies, {joint.pairs} {name}: below 0.1 for {joint.low:.0%}, "
            f"above 0.5 for {joint.high:.0%}"
        )


def _variance_cut(stage: StageStory) -> str:
    """Cell with the share of the stage's own variance that copies remove, and its confidence interval."""
    if not stage.alone_fraction:
        return "-"
    return f"{stage.variance_cut:.0%} ({stage.variance_cut_low:.0%} to {stage.variance_cut_high:.0%})"


SHADES = tuple(zip(BANDS, ".-+*%", strict=True))  # the sign of calls below each bound
HOTTEST, EMPTY = "#", " "
MAX_HEAT_ROWS = 40


def _heat_lines(maps: tuple[Heat, ...]) -> Iterator[str]:
    """Lines of a heat map: a row per replica, a sign per interval of time, by the p95 of its calls."""
    if not maps:
        return
    length = (maps[0].edges_s[-1] - maps[0].edges_s[0]) / (len(maps[0].edges_s) - 1)
    legend = ", ".join(f"{sign} below {limit:g}" for limit, sign in SHADES)
    yield ""
    yield f"latency by replica and time, {length:.3g} s a column: p95 over the stage's median"
    yield f"({legend}, {HOTTEST} above)"
    rows = [
        (name, heat.typical_ms, row)
        for heat in maps
        for name, row in zip(heat.labels, heat.slow_ms, strict=True)
    ]
    width = max(len(printable(name)) for name, _, _ in rows[:MAX_HEAT_ROWS])
    for name, typical, row in rows[:MAX_HEAT_ROWS]:
        yield f"  {printable(name):{width}}  |{''.join(_shade(value, typical) for value in row)}|"
    if len(rows) > MAX_HEAT_ROWS:
        yield f"  and {len(rows) - MAX_HEAT_ROWS} replicas more; --json has all"


def _shade(value: float | None, typical: float) -> str:
    if value is None or typical <= 0:
        return EMPTY
    return next((sign for limit, sign in SHADES if value < limit * typical), HOTTEST)
