"""Drawing of the DAG: a layered layout, with each stage's cost and budget."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from kwiken.apps.report.charts.svg import Drawing, Point, short_name
from kwiken.apps.report.model.number_format import ms, percent

BOX_W, BOX_H = 196, 70
SLOT_W, SLOT_H = 214, 104
PASS_W = 34  # room for an edge that passes a layer
MARGIN = 10
MAX_BOXES = 48
NAME_LENGTH = 22  # characters of a bold name that fit into a box, in a wide font
Parents = Mapping[str, Sequence[str]]
SWEEPS = 6


# After Sugiyama, Tagawa and Toda (1981): layers, dummy nodes on edges that pass a layer, barycentre sweeps.
@dataclass(frozen=True)
class DagLayout:
    """Layers from top to bottom, and the route of each edge.

    Attributes:
        layers: names in each layer from left to right; dummy nodes stand for edges that pass the layer.
        chains: for each edge (parent, child), the nodes from parent to child with the dummies between them.
    """

    layers: tuple[tuple[str, ...], ...]
    chains: dict[tuple[str, str], tuple[str, ...]]
    dummies: frozenset[str]


def lay_out(parents: Parents) -> DagLayout:
    """Lay out a DAG given by each node's parents; expects parents before children."""
    level: dict[str, int] = {}
    for name, above in parents.items():
        level[name] = 1 + max((level[parent] for parent in above), default=-1)
    layers: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name, depth in level.items():
        layers[depth].append(name)
    chains = _route(parents, level, layers)
    links = [pair for chain in chains.values() for pair in itertools.pairwise(chain)]
    _order(layers, links)
    dummies = frozenset(name for layer in layers for name in layer if name not in parents)
    return DagLayout(tuple(map(tuple, layers)), chains, dummies)


def _route(
    parents: Parents, level: dict[str, int], layers: list[list[str]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Add dummy nodes to the layers that an edge passes; returns the chain of each edge."""
    chains = {}
    for child, above in parents.items():
        for parent in above:
            between = []
            for depth in range(level[parent] + 1, level[child]):
                dummy = f"\0{parent}\0{child}\0{depth}"  # NUL: no stage has such a name
                layers[depth].append(dummy)
                between.append(dummy)
            chains[parent, child] = (parent, *between, child)
    return chains


def _order(layers: list[list[str]], links: list[tuple[str, str]]) -> None:
    """Sort each layer by the mean position of its neighbours above, then below, a few times."""
    up: dict[str, list[str]] = {}
    down: dict[str, list[str]] = {}
    for parent, child in links:
        up.setdefault(child, []).append(parent)
        down.setdefault(parent, []).append(child)
    for sweep in range(SWEEPS):
        neighbours, ways = (up, layers) if sweep % 2 == 0 else (down, layers[::-1])
        for fixed, moving in itertools.pairwise(ways):
            place = {name: index - (len(fixed) - 1) / 2 for index, name in enumerate(fixed)}
            here = {name: index - (len(moving) - 1) / 2 for index, name in enumerate(moving)}
            moving.sort(key=lambda name: _mean([place[n] for n in neighbours.get(name, ())], here[name]))


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


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
