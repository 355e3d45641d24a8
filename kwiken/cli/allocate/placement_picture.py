"""Picture of a placement: nodes with the workloads on them, and the pressure on each by resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kwiken.allocator.placement.node_ledger import DrawKind, NodeLedger
from kwiken.allocator.placement.order import PlacedOrNot
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.apps.report.charts.svg import Drawing, shorten

LEFT, TOP, ROW, GAP = 170, 110, 18, 4
CORES_WIDTH, CELL, KEY_WIDTH, KEYS_IN_ROW = 520, 22, 190, 4
MAX_NODES_DRAWN: Final = 200
MAX_NAME_LENGTH: Final = 22  # of a node or workload, in letters
HUES: Final = (212, 28, 140, 330, 265, 178, 52, 0, 95, 300)  # of workloads, in turn
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.s{font-size:10px;fill:#555}svg{background:#fff}"
)


def draw_placement(admissions: Sequence[PlacedOrNot], ledger: NodeLedger) -> str:
    """Draw a placement as a self-contained SVG.

    A row is a node. Its bar shows the cores that each workload draws, in the workload's colour; paler parts
    are kept for copies and for threads of late requests. The cells show the pressure by source of contention,
    darker for more. Of more than 200 nodes the fullest are drawn.

    Args:
        admissions: outcomes of all workloads.
        ledger: state of the nodes after the last of them.
    """
    cluster = ledger.cluster
    drawn = (cluster.cores - ledger.free_cores) / cluster.cores
    fullest = sorted(range(len(cluster.nodes)), key=lambda node: (-drawn[node], node))
    nodes = sorted(fullest[:MAX_NODES_DRAWN])
    hues = {one.request.name: HUES[place % len(HUES)] for place, one in enumerate(admissions)}
    cells = LEFT + CORES_WIDTH + 24
    below = TOP + len(nodes) * (ROW + GAP) + 14
    height = below + (1 + len(hues) // KEYS_IN_ROW) * 20 + 24
    drawing = Drawing(cells + len(SOURCES) * CELL + 20, height, label="Placement of workloads on nodes")
    drawing.text((LEFT, TOP - 10), "cores, by workload", "s")
    for place, source in enumerate(SOURCES):
        drawing.text((cells + (place + 0.7) * CELL, TOP - 8), source, "s", turn=True)
    per_core = CORES_WIDTH / max(float(cluster.cores[node]) for node in nodes)
    for row, node in enumerate(nodes):
        _draw_node(drawing, ledger, node, TOP + row * (ROW + GAP), per_core, hues)
        _draw_pressure(drawing, ledger, node, (cells, TOP + row * (ROW + GAP)))
    for place, (name, hue) in enumerate(hues.items()):
        x, y = LEFT + (place % KEYS_IN_ROW) * KEY_WIDTH, below + (place // KEYS_IN_ROW) * 20
        drawing.rect((x, y), (12, 12), "k", fill=_colour(hue))
        drawing.text((x + 17, y + 11), shorten(name, MAX_NAME_LENGTH))
    if len(nodes) < len(cluster.nodes):
        drawing.text((8, height - 6), f"and {len(cluster.nodes) - len(nodes)} nodes that are emptier", "s")
    return drawing.document(STYLE)


def _draw_node(
    drawing: Drawing, ledger: NodeLedger, node: int, y: float, per_core: float, hues: Mapping[str, int]
) -> None:
    found, cores = ledger.cluster.nodes[node], float(ledger.cluster.cores[node])
    drawing.text((LEFT - 8, y + 13), shorten(found.name, MAX_NAME_LENGTH), anchor="end")
    hint = f"{found.node_class}, {cores:g} cores, {ledger.cluster.memory_gb[node]:g} GB"
    drawing.rect((LEFT, y), (cores * per_core, ROW), "n", fill="#eef1f4", hint=hint)
    x = float(LEFT)
    for draw in ledger.residents(node):
        width = draw.cores * per_core
        hint = f"{draw.owner}: {draw.kind.value}, {draw.cores:g} cores, {draw.memory_gb:g} GB"
        fill = _colour(hues[draw.owner], 52 if draw.kind is DrawKind.REPLICA else 78)
        drawing.rect((x, y), (max(width - 1, 0.5), ROW), "r", fill=fill, hint=hint)
        x += width


def _draw_pressure(drawing: Drawing, ledger: NodeLedger, node: int, corner: tuple[float, float]) -> None:
    for place, source in enumerate(SOURCES):
        share = min(1.0, float(ledger.pressure[place, node]))
        at = corner[0] + place * CELL, corner[1]
        drawing.rect(
            at, (CELL - 2, ROW), "p", fill=_colour(8, 97 - 57 * share), hint=f"{source}: {share:.0%}"
        )


def _colour(hue: int, lightness: float = 52) -> str:
    return f"hsl({hue} 55% {lightness:.0f}%)"
