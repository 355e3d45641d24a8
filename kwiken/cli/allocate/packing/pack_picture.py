"""Picture of a packing: nodes in use against the risk that they need more than they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kwiken.allocator.packing.dial import PackedState, dials_of
from kwiken.apps.report.charts.scales import log_scale, log_ticks
from kwiken.apps.report.charts.svg import Drawing

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 64, 20, 44, 48
MIN_SHARE: Final = 1e-6  # risk that is drawn as the least
TICKS: Final = 5
EDGE: Final = 40  # width of a label
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:10px;fill:#555}svg{background:#fff}"
    ".rule{stroke:#e4e7ea}.told{stroke:#1f6feb;fill:none;stroke-width:2}.dot{fill:#1f6feb}.seen{fill:#c4551d}"
    ".chosen{fill:none;stroke:#222;stroke-width:2}"
)


def draw_frontier(states: Sequence[PackedState], chosen: int) -> str:
    """Draw the frontier as a self-contained SVG: nodes upward, share of the time above capacity across.

    Args:
        states: states of the cluster after each step.
        chosen: index of the state that the dial chose.
    """
    drawing = Drawing(WIDTH, HEIGHT, label="Nodes in use against the share of time above capacity")
    shares = [max(MIN_SHARE, state.share) for state in states]
    across = log_scale([MIN_SHARE, 1e-2, *shares], LEFT, WIDTH - RIGHT)
    low, high = min(state.nodes for state in states), max(state.nodes for state in states)
    span = max(high - low, 1)

    def up(nodes: float) -> float:
        return HEIGHT - BOTTOM - (nodes - low) / span * (HEIGHT - BOTTOM - TOP)

    for value in sorted({round(low + span * step / (TICKS - 1)) for step in range(TICKS)}):
        drawing.line((LEFT, up(value)), (WIDTH - RIGHT, up(value)), "rule")
        drawing.text((LEFT - 6, up(value) + 4), f"{value:,g}", "t", anchor="end")
    for share in log_ticks(across):
        drawing.line((across(share), TOP), (across(share), HEIGHT - BOTTOM), "rule")
        drawing.text((across(share), HEIGHT - BOTTOM + 15), f"{100 * share:g}%", "t", anchor="middle")
    drawing.text(
        ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10), "time that a node needs more than it has", anchor="middle"
    )
    drawing.text((14, (TOP + HEIGHT - BOTTOM) / 2), "nodes in use", anchor="middle", turn=True)
    drawing.path(
        [(across(share), up(state.nodes)) for share, state in zip(shares, states, strict=True)], "told"
    )
    for state in states:
        if state.seen > MIN_SHARE:
            hint = f"as seen: {state.nodes} nodes, {state.seen:.3%} of the time"
            drawing.circle((across(state.seen), up(state.nodes)), 1.5, "seen", hint=hint)
    for at, told in dials_of(states).items():
        place = across(shares[at]), up(states[at].nodes)
        drawing.circle(place, 3, "dot", hint=f"dial {told}: {states[at].nodes} nodes, {states[at].share:.3%}")
        near_edge = place[0] > WIDTH - RIGHT - EDGE
        drawing.text(
            (place[0] + (-5 if near_edge else 5), place[1] - 7),
            told,
            "t",
            anchor="end" if near_edge else "start",
        )
    drawing.circle(
        (across(shares[chosen]), up(states[chosen].nodes)),
        7,
        "chosen",
        hint=f"chosen: {states[chosen].nodes}",
    )
    drawing.rect((LEFT, 12), (12, 12), "dot")
    drawing.text((LEFT + 18, 22), "with the learned margin; numbers are places of the dial")
    drawing.rect((LEFT + 340, 12), (12, 12), "seen")
    drawing.text((LEFT + 358, 22), "joint use at its word")
    return drawing.document(STYLE)
