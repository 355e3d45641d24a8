"""Sections of the page; a section is None if its data are missing."""

from __future__ import annotations

from kwiken.apps.report.charts.curves import draw_curve
from kwiken.apps.report.charts.dag import MAX_BOXES, draw_dag
from kwiken.apps.report.charts.gantt import GanttRequest, draw_gantt
from kwiken.apps.report.charts.percentiles import Band, Line, draw_ladder
from kwiken.apps.report.model.number_format import between, change, count, ms, percent
from kwiken.apps.report.model.page import Figure, Row, Section, Table
from kwiken.apps.report.model.result import DemoResult
from kwiken.apps.report.model.statistics import MIN_BEYOND, NAMES, PERCENTILES, ladder_of, rungs
from kwiken.apps.report.sections.views import Material, boxes, critical_shares, most_telling, variance_shares

LABELS = {
    "before": "before",
    "after": "with the plan",
    "even": "same budget, spread evenly",
    "p95": "a copy at p95, every stage",
    "expected": "expected by the plan",
}
LEARNED = "without the plan, in the profile"
MEANWHILE = "expected meanwhile"  # for the requests without the plan in the same minutes
ACHIEVED = "with the plan, at the gateway"
HEAD = tuple(NAMES.values())


def latency(material: Material) -> Section | None:
    """Build the section with each measured arm's percentiles, beside the plan's expectation."""
    lines = [
        Line(arm, LABELS.get(arm, arm), values) for arm, values in material.arms.items() if values.size > 1
    ]
    bands = _bands(material, measured=bool(lines))
    if not lines and not bands:
        return None
    legend = tuple((line.key, line.label) for line in lines) + tuple((band.key, band.label) for band in bands)
    caption = (
        "Each step to the right, from p90 to p99 to p99.9, is a tenth of the requests. Both axes are "
        "logarithmic. Latency counts from the moment when a request was due."
    )
    figure = Figure(svg=draw_ladder(lines, bands), caption=caption, legend=legend)
    return Section(
        id="latency",
        title="Latency",
        words=_doubts(material),
        rows=(Row((figure,)), Row((_ladder_table(material),))),
    )


def _bands(material: Material, *, measured: bool) -> list[Band]:
    if material.result is not None:
        promise = material.result.expectation
        label = f"{LABELS['expected']}, {percent(promise.coverage, places=0)} interval"
        return [Band("expected", label, rungs(promise.after), dict(promise.bounds))]
    if material.plan is None or material.plan.expected is None:
        return []
    expected = material.plan.expected
    after = Band("expected", LABELS["expected"], rungs(expected.after), dict(expected.bounds.after))
    before = Band("before", LEARNED, rungs(expected.before), dict(expected.bounds.before))
    return [after] if measured else [before, after]


def _doubts(material: Material) -> tuple[str, ...]:
    """Remark on percentiles that rest on too few requests."""
    sizes = [values.size for values in material.arms.values()]
    if not sizes:
        return ()
    thin = [
        name
        for name, at in zip(HEAD, PERCENTILES.values(), strict=True)
        if min(sizes) * (1 - at / 100) < MIN_BEYOND
    ]
    if not thin:
        return ()
    verb, state = ("rests", "is uncertain") if len(thin) == 1 else ("rest", "are uncertain")
    return (f"{' and '.join(thin)} {verb} on fewer than {MIN_BEYOND} requests an arm and {state}.",)


def _ladder_table(material: Material) -> Table:
    """Table of percentiles by arm, each with its change against the first measured arm.

    The expectation is compared with the requests that the plan was learned from, not with later ones. What
    was achieved is compared with the expectation for the same minutes, where there is one.
    """
    measured = {LABELS.get(arm, arm): rungs(ladder_of(values)) for arm, values in material.arms.items()}
    learned, expected, bounds = _promised(material)
    columns = [
        (label, ladder, None if i == 0 else measured[next(iter(measured))])
        for i, (label, ladder) in enumerate(measured.items())
    ]
    if expected:
        columns += [(LEARNED, learned, None), (LABELS["expected"], expected, learned)]
    result = material.result
    if result is not None and result.meanwhile is not None:
        expected = rungs(result.meanwhile.after)
        columns.append((MEANWHILE, expected, None))
    if result is not None and result.achieved.p99_ms > 0:
        columns.append((ACHIEVED, rungs(result.achieved), expected))
    head = ["", *(cell for label, _, base in columns for cell in (label, "change")[: 1 + (base is not None)])]
    body = []
    for name, key in zip(HEAD, PERCENTILES, strict=True):
        cells = [name]
        for _, ladder, base in columns:
            cells += [ms(ladder[key])] if base is None else [ms(ladder[key]), change(base[key], ladder[key])]
        if bounds:
            cells.append(between(*bounds[key]) if key in bounds else "\N{EN DASH}")
        body.append(tuple(cells))
    return Table(head=(*head, *(["interval expected"] if bounds else [])), body=tuple(body), strong=("p99",))


Rungs = dict[str, float]


def _promised(material: Material) -> tuple[Rungs, Rungs, dict[str, tuple[float, float]]]:
    """Percentiles that a plan was learned from, those that it expects, and their bounds; empty if unknown."""
    if material.result is not None:
        promise = material.result.expectation
        return rungs(promise.before), rungs(promise.after), promise.bounds
    if material.plan is not None and material.plan.expected is not None:
        expected = material.plan.expected
        return rungs(expected.before), rungs(expected.after), expected.bounds.after
    return {}, {}, {}


def budget(material: Material) -> Section | None:
    """Build the section with the DAG, and the effect of the budget by stage."""
    drawn = boxes(material)
    if not drawn:
        return None
    words = []
    if material.plan is not None:
        words.append(
            "Each box states the share of the stage's calls that get a copy at another replica, and the age "
            "at which the copy is sent. The bar is the stage's share of the reissue budget."
        )
    if len(drawn) > MAX_BOXES:
        words.append(f"Of {len(drawn)} stages the {MAX_BOXES} with the largest budgets and costs are drawn.")
    figure = Figure(svg=draw_dag(drawn), tight=True)
    table = _stage_table(material)
    return Section(
        id="stages",
        title="Where the budget goes" if material.plan is not None else "Stages",
        words=tuple(words),
        rows=(Row((figure, table)),),
    )


def _stage_table(material: Material) -> Table:
    if material.result is not None:
        return _result_table(material.result)
    assert material.profile is not None  # `budget` has looked
    critical, variance = critical_shares(material.profile), variance_shares(material.profile)
    head = ["stage", "on the critical path", "share of variance"]
    head += ["cost", "calls copied", "copy after"] if material.plan is not None else []
    body = []
    for box in boxes(material):
        cells = [box.name, percent(critical[box.name], places=0), percent(variance[box.name])]
        if material.plan is not None:
            cells += [percent(box.cost), percent(box.fraction) if box.fraction else "none", ms(box.after_ms)]
        body.append(tuple(cells))
    return Table(head=tuple(head), body=tuple(body))


def _result_table(result: DemoResult) -> Table:
    head = ("stage", "cost", "budget", "calls copied", "copy after", "spent", "spread evenly: spent")
    body = []
    for stage in result.stages:
        own = (
            percent(stage.cost),
            percent(stage.budget, places=0),
            percent(stage.fraction),
            ms(stage.after_ms),
        )
        body.append((stage.name, *own, percent(stage.used), percent(stage.even_used)))
    total = (percent(result.spent.reissue), percent(result.spent_even.reissue))
    body.append(("all stages", percent(sum(s.cost for s in result.stages)), "", "", "", *total))
    caption = "Cost and spend are shares of the service's primary work. Spent is what the live run used."
    return Table(head=head, body=tuple(body), caption=caption, strong=("all stages",))


def curves(material: Material) -> Section | None:
    """Build the section with one curve per stage: its variance by its share of the budget."""
    if not material.curves:
        return None
    shown = most_telling(material.curves)
    legend_words = (
        "Variance that is left at a stage, as a function of the share of its calls that get a copy. Small "
        "dots are exact for the recorded calls. The line is their lower convex hull; the budget goes where "
        "it falls fastest for its cost. The blue dot is the plan's choice, the grey dot the even spread's."
    )
    left = len(material.curves) - len(shown)
    words = (legend_words, *((f"Not shown: {count(left, 'stage')} with less to gain.",) if left else ()))
    figures = tuple(Figure(svg=draw_curve(view), stages=(view.name,)) for view in shown)
    return Section(
        id="curves", title="Latency-response curves by stage", words=words, rows=(Row(figures, grid=True),)
    )


def timelines(material: Material) -> Section | None:
    """Build the section with a slow request of `before`, and one that a copy rescued."""
    if not material.requests:
        return None
    legend = (
        ("primary", "call"), ("reissue", "copy"), ("retry", "retry"),
        ("stopped", "cancelled, another attempt won"), ("critical", "critical path"),
        *((("paused", "its replica was paused"),) if _any_paused(material) else ()),
    )  # fmt: skip
    times = [request.total_ms for request in material.requests]
    shared = max(times) <= 6 * min(times)  # beyond that the shorter one would be too small to read
    figures = []
    for index, request in enumerate(material.requests):
        svg = draw_gantt(request, key=f"g{index}", span_ms=max(times) if shared else None)
        figures.append(
            Figure(
                svg=svg,
                caption=_story(request),
                link=trace_link(material.jaeger, request),
                legend=legend if index == 0 else (),
            )
        )
    words = () if shared or len(times) == 1 else ("Each timeline has a time axis of its own.",)
    rows = tuple(Row((figure,)) for figure in figures)
    return Section(id="requests", title="Timelines of single requests", words=words, rows=rows)


def trace_link(jaeger: str | None, request: GanttRequest) -> tuple[str, str] | None:
    """Address of a request's trace in Jaeger's page, and its text; None without a Jaeger."""
    return None if jaeger is None else (f"{jaeger}/trace/{request.trace_id}", "Open it in Jaeger.")


def _any_paused(material: Material) -> bool:
    tracks = (track for request in material.requests for track in request.tracks)
    return any(bar.paused for track in tracks for bar in track.bars)


def _story(request: GanttRequest) -> str:
    start = f"{LABELS.get(request.arm, request.arm)}: ".capitalize() if request.arm else ""
    return f"{start}{ms(request.total_ms)} at the gateway, trace {request.trace_id}.{_rescue(request)}"


def _rescue(request: GanttRequest) -> str:
    """Text on the copy that answered first on the critical path, and the time it saved, if known."""
    for track in request.tracks:
        for copy in track.bars:
            if copy.kind == "reissue" and copy.outcome == "won" and copy.critical:
                others = [bar for bar in track.bars if bar.shard == copy.shard and bar.outcome == "cancelled"]
                left = max((end - copy.end for bar in others for _, end in bar.paused), default=0.0)
                spared = (
                    f" The replica of the first call stayed paused for another {ms(left)}."
                    if left > 0
                    else ""
                )
                return f" A copy of {track.name}, sent at {ms(copy.start)}, answered first.{spared}"
    return ""


def disturbance(material: Material) -> Section | None:
    """Build the section on the disturbance of the replicas."""
    if material.result is None:
        return None
    done = material.result.disturbance
    if done.calm:
        calm = "None (--calm): the tail is the machine's own."
        return Section(id="disturbance", title="Disturbance", words=(calm,))
    rows = tuple(
        (name, percent(paused.planned), percent(paused.realised), f"{paused.bursts:,}")
        for name, paused in done.stages.items()
    )
    head = ("stage", "paused, planned", "paused, realised", "bursts")
    words = (done.law, "It was the same in all arms, whatever plan was in force.")
    table = Table(
        head=head, body=rows, caption="Shares of the time in which a replica of the stage was paused."
    )
    return Section(id="disturbance", title="Disturbance", words=words, rows=(Row((table,)),))


def method(material: Material) -> Section | None:
    """Build the section on the method of measurement, with the counts."""
    result = material.result
    if result is None:
        return _learned(material)
    s = result.settings
    blocks = (
        f"One open-loop load of {s.rate:g} requests a second ran over all blocks without a gap. There were "
        f"{s.rounds} rounds of blocks of {s.block_s:g} s; plans were switched under traffic, in this order: "
        f"{'; '.join(s.order)}. A request belongs to the block in which it was due. The first "
        f"{s.settle_s:g} s of each block are left out ({count(result.settling, 'request')}). The profile is "
        f"from the {s.learn_s:g} s before."
    )
    machine = (
        f"Gateway, replicas, load and disturbance shared {count(s.processors, 'processor')}. "
        f"Seed {s.seed}, the only one of this run, drew the disturbance; {s.wall_s:.0f} s in all."
        + (f" {s.pace[:1].upper()}{s.pace[1:]}." if s.pace else "")
    )
    rows = tuple(
        (
            LABELS.get(arm, arm),
            f"{c.requests:,}",
            f"{c.failed:,}",
            f"{c.seconds:.1f} s",
            percent(c.replica_cpu, places=0),
        )
        for arm, c in result.arms.items()
    )
    head = ("arm", "requests", "failed", "measured for", "processors busy")
    measured = count(result.requests, "request")
    caption = f"{measured} measured, {result.failed:,} failed, {result.dropped:,} never sent."
    table = Table(head=head, body=rows, caption=caption)
    return Section(
        id="method",
        title="How it was measured",
        words=(blocks, machine, *result.remarks),
        rows=(Row((table,)),),
    )


def _learned(material: Material) -> Section | None:
    if material.profile is None:
        return None
    counts = tuple(
        (name.replace("_", " "), f"{number:,}") for name, number in material.profile.counts.items()
    )
    words = (
        f"{count(material.profile.requests, 'request')} in {count(len(material.profile.stages), 'stage')}.",
    )
    rows = (Row((Table(head=("count", "number"), body=counts),)),) if counts else ()
    return Section(id="method", title="Requests of the profile", words=words, rows=rows)
