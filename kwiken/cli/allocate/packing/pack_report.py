"""Report of `kwiken pack`: requests, moves, the frontier and findings, as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kwiken.allocator.packing.dial import PackedState, dials_of
from kwiken.allocator.packing.documents.usage_files import UsageTable
from kwiken.allocator.packing.repacking import Repacking
from kwiken.allocator.packing.tasks.usage import gaps
from kwiken.apps.console.output import note, print_table, say

VERSION: Final = 1
MAX_OWNERS_SHOWN: Final = 15
MAX_MOVES_SHOWN: Final = 40
DIALS: Final = tuple(range(11))


def show(found: Repacking, judged: tuple[float, float] | None) -> None:
    """Print the tables: requests by use beside those stated, moves, the frontier, and the outcome.

    Args:
        judged: share of the time above capacity in later usage, before and after; None for none.
    """
    owners = _owners(found)
    rows = [
        (
            one["owner"],
            str(one["replicas"]),
            f"{one['stated_cores']:.4g}",
            f"{one['cores']:.4g}",
            f"{one['p99_cores']:.4g}",
            f"{one['stated_memory_gb']:.4g}",
            f"{one['memory_gb']:.4g}",
        )
        for one in owners[:MAX_OWNERS_SHOWN]
    ]
    head = ("owner", "replicas", "cores stated", "by use", "p99 of use", "GB stated", "by use")
    print_table("requests of a replica, those that differ most first", head, rows)
    if len(owners) > MAX_OWNERS_SHOWN:
        say(f"and {len(owners) - MAX_OWNERS_SHOWN} owners more; --json has all")
    say("")
    moves = [
        (str(number), one["task"], one["from"], one["to"], one["frees"] or "-")
        for number, one in enumerate(_moves(found), start=1)
    ]
    if moves:
        print_table(
            "moves, in order",
            ("move", "task", "from", "to", "frees"),
            moves[:MAX_MOVES_SHOWN],
        )
        if len(moves) > MAX_MOVES_SHOWN:
            say(f"and {len(moves) - MAX_MOVES_SHOWN} moves more; --json has all")
        say("")
    points = [
        (
            "start" if at == 0 else f"{at}",
            str(one.nodes),
            f"{one.cost:.4g}",
            str(one.moves),
            _percent(one.share),
            _percent(one.seen),
            str(one.at_risk),
            dials + (" <- chosen" if at == found.chosen else ""),
        )
        for at, one, dials in frontier(found)
    ]
    print_table(
        "frontier: nodes against risk",
        ("step", "nodes", "cost", "moves", "above capacity", "as seen", "tasks at risk", "dial"),
        points,
    )
    before, now = found.states[0], found.outcome
    say("")
    say(
        f"nodes {before.nodes} to {now.nodes}: {before.nodes - now.nodes} freed by {now.moves} moves; "
        f"tasks at risk {before.at_risk} to {now.at_risk}"
    )
    say(
        f"predicted share of the time in which a node needs more cores than it has: {_percent(before.share)} "
        f"before, {_percent(now.share)} after, {_margin(found)}"
    )
    if judged is not None:
        say(f"the same share in the later usage: {_percent(judged[0])} before, {_percent(judged[1])} after")


def _margin(found: Repacking) -> str:
    """Source of a predicted share."""
    if found.factor is None:
        return "by later use, as the halves of the usage predict each other"
    return f"with {found.factor:g} times the deviation of independent tasks"


def frontier(found: Repacking) -> Iterator[tuple[int, PackedState, str]]:
    """States that some place of the dial chooses, the start and the chosen one, with the dials of each."""
    dials = dials_of(found.states)
    for at in sorted({0, found.chosen, *dials}):
        yield at, found.states[at], dials.get(at, "")


def note_findings(found: Repacking, table: UsageTable | None, pending: int) -> None:
    """Note on stderr what was assumed, and what stands in the way.

    Args:
        table: usage that was read; None for none.
        pending: number of tasks that stand on no node.
    """
    if table is None:
        note("note: without --usage, requests stand for use; only moves that requests allow are told")
    else:
        _note_usage(found, table)
    packed = found.packed
    closed = ~packed.open_nodes
    if packed.tasks:
        closed |= ~packed.allowed[np.unique(packed.kinds)].any(axis=0)
    if closed.any():
        note(f"note: {np.sum(closed)} nodes receive nothing: not ready, cordoned, or tainted for all tasks")
    if pending:
        note(f"note: {pending} pods stand on no node yet and are left out")
    for reason, count in Counter(
        reason for task, reason in found.packed.stays.items() if not found.packed.resident[task]
    ).most_common():
        note(f"note: {count} {'task stays' if count == 1 else 'tasks stay'} in place: {reason}")


def _note_usage(found: Repacking, table: UsageTable) -> None:
    for what, (names, count) in (("replicas", table.unknown), ("nodes", table.gone)):
        if count:
            more = f" and {count - len(names)} more" if count > len(names) else ""
            note(f"note: {count} {what} of the usage are not in the cluster: {', '.join(names)}{more}")
    silent = int(np.sum(~found.use.known & ~found.packed.resident))
    if silent:
        note(f"note: {silent} tasks have fewer than 8 samples of use and keep their requests")
    if (count := gaps(table.series.times_s)) > 0:
        note(f"note: the usage has {count} gaps")
    if found.factor is not None and not found.learned:
        note(f"note: too little usage to learn a margin; {found.factor:g} times the deviation is taken")


def summary(found: Repacking, judged: tuple[float, float] | None) -> dict[str, Any]:
    """The answer as plain values for JSON.

    Args:
        judged: share of the time above capacity in later usage, before and after; None for none.
    """
    cores, memory_gb = found.requests
    return {
        "version": VERSION,
        "margin": {
            "by": "later use" if found.factor is None else "deviation",
            "factor": found.factor,
            "learned": found.learned,
        },
        "before": _state(found.states[0]),
        "after": _state(found.outcome),
        "judged": None if judged is None else {"before": judged[0], "after": judged[1]},
        "freed": [
            found.packed.cluster.nodes[step.freed].name for step in found.taken if step.freed is not None
        ],
        "moves": list(_moves(found)),
        "requests": _owners(found),
        "tasks": [
            {
                "task": name,
                "node": found.packed.cluster.nodes[int(found.node[task])].name,
                "stated_cores": float(found.packed.cores[task]),
                "cores": float(cores[task]),
                "stated_memory_gb": float(found.packed.memory_gb[task]),
                "memory_gb": float(memory_gb[task]),
                "stays": found.packed.stays.get(task),
            }
            for task, name in enumerate(found.packed.tasks)
        ],
        "frontier": [_state(one) for one in found.states],
        "dials": {str(dial): found.at_dial(dial) for dial in DIALS},
        "chosen": found.chosen,
    }


def _state(state: PackedState) -> dict[str, Any]:
    return {
        "nodes": state.nodes,
        "cost": state.cost,
        "moves": state.moves,
        "above_capacity": state.share,
        "above_capacity_seen": state.seen,
        "tasks_at_risk": state.at_risk,
    }


def _moves(found: Repacking) -> Iterator[dict[str, Any]]:
    nodes = found.packed.cluster.nodes
    for step in found.taken:
        for place, move in enumerate(step.moves):
            last = place == len(step.moves) - 1 and step.freed is not None
            yield {
                "task": found.packed.tasks[move.task],
                "from": nodes[move.source].name,
                "to": nodes[move.target].name,
                "frees": _freed(found, move.source) if last else None,
            }


def _freed(found: Repacking, node: int) -> str:
    cluster = found.packed.cluster
    return f"{cluster.nodes[node].name}: {cluster.cores[node]:g} cores, {cluster.memory_gb[node]:.4g} GB"


def _owners(found: Repacking) -> list[dict[str, Any]]:
    """Requests by owner, those that differ most in all replicas together first."""
    packed = found.packed
    cores, memory_gb = found.requests
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    for task, owner in enumerate(packed.owners):
        if not packed.resident[task]:
            first.setdefault(owner, task)
            counts[owner] = counts.get(owner, 0) + 1
    rows: list[dict[str, Any]] = [
        {
            "owner": owner,
            "replicas": counts[owner],
            "stated_cores": float(packed.cores[task]),
            "cores": float(cores[task]),
            "p99_cores": float(found.use.p99[task]),
            "stated_memory_gb": float(packed.memory_gb[task]),
            "memory_gb": float(memory_gb[task]),
        }
        for owner, task in first.items()
    ]
    rows.sort(key=lambda row: -abs(row["stated_cores"] - row["cores"]) * row["replicas"])
    return rows


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 1e-4 or share == 0 else "below 0.01%"  # noqa: PLR2004 - what two digits show
