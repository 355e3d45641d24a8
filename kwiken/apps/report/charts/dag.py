"""Drawing of the DAG with each stage's cost and budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from kwiken.apps.report.charts.layers import DagLayout, lay_out
from kwiken.apps.report.charts.svg import Drawing, Point, short_name
from kwiken.apps.report.model.number_format import ms, percent

BOX_W, BOX_H = 196, 70
SLOT_W, SLOT_H = 214, 104
PASS_W = 34  # room for an edge that passes a layer
MARGIN = 10
MAX_BOXES = 48
NAME_LENGTH = 22  # characters of a bold name that fit into a box, in a wide font


@dataclass(frozen=True, kw_only=True)
class StageBox:
    """Box of one stage.

    Attributes:
        label: text in the box; the name by default.
        cost: share of the service's cost, from 0 to 1.
        budget: share of the budget that the plan gives the stage, from 0 to 1.
        fraction: share of its calls that are reissued, from 0 to 1.
        after_ms: age of a call at which its copy is sent.
        fanout: number of parallel calls, 1 or more.
        reissuable: whether copies may be sent at all.
    """

    name: str
    after: tuple[str, ...]
    cost: float | None = None
    budget: float = 0.0
    fraction: float = 0.0
    after_ms: float | None = None
    fanout: int = 1
    reissuable: bool = True
    label: str = ""


def fewer(boxes: Sequence[StageBox], most: int = MAX_BOXES) -> list[StageBox]:
    """Select the most important boxes, by budget and then cost; edges bridge the boxes left out."""
    if len(boxes) <= most:
        return list(boxes)
    ranked = sorted(boxes, key=lambda box: (-box.budget, -(box.cost or 0.0)))
    kept = {box.name for box in ranked[:most]}
    import networkx as nx

    graph = nx.DiGraph([(parent, box.name) for box in boxes for parent in box.after])
    graph.add_nodes_from(box.name for box in boxes)
    reach = nx.transitive_closure_dag(graph).subgraph(kept)
    thin = nx.transitive_reduction(reach)
    return [
        replace(box, after=tuple(sorted(thin.predecessors(box.name)))) for box in boxes if box.name in kept
    ]


def draw_dag(boxes: Sequence[StageBox]) -> Markup:
    """Draw the DAG from the sources at the top to the last stage; expects parents before children."""
    shown = fewer(boxes)
    layout = lay_out({box.name: box.after for box in shown})
    centres, width = _places(layout)
    drawing = Drawing(
        width, len(layout.layers) * SLOT_H - (SLOT_H - BOX_H) + 2 * MARGIN, label="Stages and edges"
    )
    for chain in layout.chains.values():
        _draw_edge(drawing, [centres[name] for name in chain])
    for box in shown:
        _draw_box(drawing, box, centres[box.name])
    return drawing.markup()


def _places(layout: DagLayout) -> tuple[dict[str, Point], float]:
    """Centre of every node, and the width of the drawing."""

    def room(name: str) -> float:
        return PASS_W if name in layout.dummies else SLOT_W

    width = max((sum(map(room, layer)) for layer in layout.layers), default=0.0) + 2 * MARGIN
    centres = {}
    for depth, layer in enumerate(layout.layers):
        x = (width - sum(map(room, layer))) / 2
        for name in layer:
            centres[name] = (x + room(name) / 2, MARGIN + depth * SLOT_H + BOX_H / 2)
            x += room(name)
    return centres, width


def _draw_edge(drawing: Drawing, stops: list[Point]) -> None:
    """Draw an edge from the bottom of a box to the top of another; vertical where it passes a layer."""
    start = (stops[0][0], stops[0][1] + BOX_H / 2)
    for x, y in stops[1:]:
        drawing.curve(start, (x, y - BOX_H / 2), "edge")
        start = (x, y + BOX_H / 2)
        if (x, y) != stops[-1]:
            drawing.line((x, y - BOX_H / 2), start, "edge")
    x, y = stops[-1]
    drawing.path(
        [(x - 4, y - BOX_H / 2 - 7), (x, y - BOX_H / 2), (x + 4, y - BOX_H / 2 - 7)], "tip", closed=True
    )


def _draw_box(drawing: Drawing, box: StageBox, centre: Point) -> None:
    left, top = centre[0] - BOX_W / 2, centre[1] - BOX_H / 2
    kind = "box" if box.budget > 0 else "box idle"
    drawing.rect((left, top), (BOX_W, BOX_H), kind, round_=7, hint=box.name)
    many = f" \N{MULTIPLICATION SIGN}{box.fanout}" if box.fanout > 1 else ""
    name = short_name(box.label or box.name, NAME_LENGTH - len(many)) + many
    drawing.text((left + 10, top + 19), name, "name")
    drawing.text((left + 10, top + 36), _policy(box), "small")
    cost = f"cost {percent(box.cost)}" if box.cost is not None else ""
    given = f"budget {percent(box.budget, places=0)}" if box.budget > 0 else ""
    drawing.text((left + 10, top + 51), "  ·  ".join(part for part in (cost, given) if part), "small")
    drawing.rect((left + 10, top + 58), (BOX_W - 20, 5), "track", round_=2.5)
    if box.budget > 0:
        drawing.rect((left + 10, top + 58), ((BOX_W - 20) * min(1.0, box.budget), 5), "fill", round_=2.5)


def _policy(box: StageBox) -> str:
    if box.fraction > 0 and box.after_ms is not None:
        return f"{percent(box.fraction)} copied after {ms(box.after_ms)}"
    return "no copies planned" if box.reissuable else "cannot be copied"
