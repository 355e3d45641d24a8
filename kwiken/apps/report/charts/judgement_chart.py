"""Chart of a judgement over time: p99 of each way to spend the budget, and below it what each spent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks, log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing
from kwiken.apps.report.model.number_format import ms, percent
from kwiken.tail.judging.judged_plans import EVEN, HINDSIGHT, PLAN
from kwiken.tail.judging.judgement_document import Judgement

WIDTH, HEIGHT = 1040, 420
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 44
SPLIT = 268  # height at which the lower panel begins
GAP = 26  # between the panels
MAX_LABELS = 12  # of stretches below the chart
MAX_LABEL = 14  # characters of a label, its last ones: they fit beside each other
TONES = {PLAN: "after", EVEN: "even", HINDSIGHT: "expected"}
JUDGEMENT_LEGEND = (
    ("before", "no plan"),
    ("after", "the plan"),
    ("even", "the budget spread evenly"),
    ("expected", "planned in hindsight"),
)


def draw_judgement(found: Judgement) -> Markup:
    """Draw p99 and spend by stretches of time, for copies as slow with their calls as pairs show."""
    drawing = Drawing(WIDTH, HEIGHT, label="p99 and spend of the judged requests over time")
    across = _across(found)
    arms = [arm for arm in found.arms if arm.correlation is None]
    before = [stretch.before.p99_ms for stretch in found.stretches]
    after = {arm.way: [outcome.after.p99_ms for outcome in arm.stretches] for arm in arms}
    up = log_scale([*before, *(value for values in after.values() for value in values)], SPLIT - GAP, TOP)
    for value in log_ticks(up):
        _rule(drawing, up(value), f"{value:g}")
    _line(drawing, "before", "no plan", across, [(up(value), ms(value)) for value in before])
    for way, values in after.items():
        _line(drawing, TONES[way], way, across, [(up(value), ms(value)) for value in values])
    drawing.text((14, (TOP + SPLIT - GAP) / 2), "p99, ms", "axis", anchor="middle", turn=True)
    spent = {arm.way: [outcome.spent for outcome in arm.stretches] for arm in arms}
    most = max([found.budget, *(value for values in spent.values() for value in values)])
    down = linear_scale(most, HEIGHT - BOTTOM, SPLIT)
    for value in linear_ticks(down, 3):
        _rule(drawing, down(value), percent(value))
    drawing.line((LEFT, down(found.budget)), (WIDTH - RIGHT, down(found.budget)), "line budget")
    drawing.text(
        (WIDTH - RIGHT, down(found.budget) - 4), f"budget {percent(found.budget)}", "tick", anchor="end"
    )
    for way, values in spent.items():
        _line(drawing, TONES[way], way, across, [(down(value), percent(value)) for value in values])
    drawing.text((14, (SPLIT + HEIGHT - BOTTOM) / 2), "spent", "axis", anchor="middle", turn=True)
    _times(drawing, found, across)
    return drawing.markup()


def _across(found: Judgement) -> list[float]:
    """Coordinate of the middle of each stretch, evenly spaced: times without requests take no room."""
    scale = Scale(0.0, float(len(found.stretches)), LEFT, WIDTH - RIGHT)
    return [scale(i + 0.5) for i in range(len(found.stretches))]


def _rule(drawing: Drawing, y: float, words: str) -> None:
    drawing.line((LEFT, y), (WIDTH - RIGHT, y), "rule")
    drawing.text((LEFT - 6, y + 4), words, "tick", anchor="end")


def _line(
    drawing: Drawing, tone: str, label: str, across: Sequence[float], points: Sequence[tuple[float, str]]
) -> None:
    drawing.path([(x, y) for x, (y, _) in zip(across, points, strict=True)], f"line {tone}")
    for x, (y, value) in zip(across, points, strict=True):
        drawing.circle((x, y), 3.2, f"dot {tone}", hint=f"{label}: {value}")


def _times(drawing: Drawing, found: Judgement, across: Sequence[float]) -> None:
    step = -(-len(across) // MAX_LABELS)
    for x, stretch in list(zip(across, found.stretches, strict=True))[::step]:
        start = datetime.fromtimestamp(stretch.start_s, UTC)
        label = stretch.recording or f"{start:%m-%d %H:%M}"
        drawing.text((x, HEIGHT - BOTTOM + 16), label[-MAX_LABEL:], "tick", anchor="middle")
    named = found.stretches[0].recording is not None
    told = "profile" if named else "start of the stretch, UTC"
    drawing.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8), told, "axis", anchor="middle")
