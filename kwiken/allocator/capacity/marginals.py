"""Marginal effects on p99 and cost: a replica or a level of copies more or less, or faster nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.supply import Sizes, StageSize
from kwiken.allocator.capacity.trials import FIXED_LEVEL, LEVELS
from kwiken.model.latency import critical_path


@dataclass(frozen=True)
class Marginal:
    """Effect of one move at one stage.

    Attributes:
        move: `replica more`, `replica less`, `faster nodes`, `more copies` or `fewer copies`.
        p99_change_ms: change of the p99 of whole requests in the trials, milliseconds; infinite where the
            stage could not serve its calls.
        cost_change: change of the cost in an hour.
        forbidden: what stands against the move: `nodes`, `reissues` (the budget), or empty for nothing.
    """

    stage: str
    move: str
    p99_change_ms: float
    cost_change: float
    forbidden: str = ""


def marginals(search: Search, sizes: Sizes) -> list[Marginal]:
    """Effect of a replica more or less, of faster nodes, and of more or fewer copies, stage by stage.

    Args:
        sizes: size of each stage.
    """
    found = []
    before, cost = search.p99_ms(sizes), search.supply.cost(sizes)
    moves = [_moves(search, stage, now) for stage, now in enumerate(sizes)]
    search.prepare((stage, size) for stage, some in enumerate(moves) for _, size in some)
    for stage, name in enumerate(search.trials.names):
        for move, size in moves[stage]:
            changed = (*sizes[:stage], size, *sizes[stage + 1 :])
            found.append(
                Marginal(
                    stage=name,
                    move=move,
                    p99_change_ms=search.p99_ms(changed) - before,
                    cost_change=search.supply.cost(changed) - cost,
                    forbidden=search.forbidden(changed),
                )
            )
    return found


def _moves(search: Search, stage: int, now: StageSize) -> list[tuple[str, StageSize]]:
    trials, moves = search.trials, []
    if trials.sized(stage):
        moves.append(("replica more", replace(now, replicas=now.replicas + 1)))
        if now.replicas > 1:
            moves.append(("replica less", replace(now, replicas=now.replicas - 1)))
        speeds = search.supply.speed[stage]
        faster = np.flatnonzero((speeds > speeds[now.node_class]) & (search.supply.limit[stage] > 0))
        if faster.size:
            nearest = int(faster[np.argmin(speeds[faster])])
            moves.append(("faster nodes", replace(now, node_class=nearest)))
    if trials.reissuable(stage) and (not trials.sized(stage) or now.replicas > 1):
        level = trials.given_level(stage) if now.level == FIXED_LEVEL else now.level
        if level + 1 < len(LEVELS):
            moves.append(("more copies", replace(now, level=level + 1)))
        if level > 0:
            moves.append(("fewer copies", replace(now, level=level - 1)))
    return moves


def slowest_stage(search: Search, sizes: Sizes, share: float = 0.01) -> tuple[str, float]:
    """Find the stage that adds most to the latency of the slowest requests.

    Args:
        sizes: size of each stage, which can serve the calls.
        share: share of the requests that count as slow.

    Returns:
        Name of the stage, and what it adds: its latency above its median, where it is on the critical path,
        as a mean over the slow requests, milliseconds.
    """
    latencies: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]] = search.stage_latencies(sizes)
    whole = search.latencies(sizes)
    slow = np.flatnonzero(whole >= np.quantile(whole, 1 - share))
    names = search.trials.names
    parts = {name: latency[slow] for name, latency in zip(names, latencies, strict=True)}
    path = critical_path(search.trials.model.profile.stages, parts)
    excess = [
        float(((parts[name] - np.median(latencies[i])) * path[i]).mean()) for i, name in enumerate(names)
    ]
    worst = int(np.argmax(excess))
    return names[worst], excess[worst]
