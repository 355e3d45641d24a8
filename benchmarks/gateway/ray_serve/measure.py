"""Turns of both sides of the comparison with Ray Serve, and the figures that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import uvloop

from benchmarks.gateway.bench_gateway import CALLERS, TEXT, load
from benchmarks.gateway.chain import STAGES, Item
from benchmarks.gateway.open_load import open_load
from benchmarks.gateway.ray_serve.ray_process import ray_serve
from benchmarks.harness import Row, paired
from kwiken.runtime.cluster.cluster import Cluster

SHARE = 0.5  # of Ray Serve's throughput, as open load
NAME = f"chain of {len(STAGES)} stages over HTTP"


@dataclass(frozen=True)
class Turn:
    """Result of one side in one round: latencies and the length of the busy part, in seconds."""

    busy: list[float]
    took_s: float
    moderate: list[float]


def compare(rivals: Sequence[str], *, quick: bool, haproxy: bool) -> list[Row]:
    """Measure us and Ray Serve in turn.

    Args:
        rivals: names of the ways to Ray Serve: by its proxy, and the second one without it.
        quick: few rounds, which show that it runs.
        haproxy: whether Ray's proxy is HAProxy; else it is the one in Python.
    """
    rounds, busy_s, moderate_s = (2, 0.5, 1.0) if quick else (9, 2.0, 5.0)

    async def turns() -> list[Row]:
        async with Cluster("benchmarks.gateway.chain:chain") as cluster, ray_serve(haproxy=haproxy) as theirs:
            proxy, _ = theirs
            await load(proxy, busy_s)
            latencies, took = await load(proxy, 2 * busy_s)
            rate = SHARE * len(latencies) / took
            turns = []
            for turn in range(rounds + 1):
                urls = (cluster.gateway_url, *theirs[: len(rivals)])
                done = [await _turn(url, rate, busy_s, moderate_s) for url in urls]
                if turn:  # the first goes unheard
                    turns.append(done)
        return rows(turns, rate, rivals)

    measured: list[Row] = uvloop.run(turns())
    return measured


async def _turn(url: str, rate: float, busy_s: float, moderate_s: float) -> Turn:
    busy, took = await load(url, busy_s)
    body = msgspec.json.encode(Item(TEXT))
    return Turn(busy, took, await open_load(url, "/v1/request", body, rate=rate, seconds=moderate_s))


def rows(turns: list[list[Turn]], rate: float, rivals: Sequence[str]) -> list[Row]:
    """The results of all rounds, each ours and then the rivals'.

    Aimed at are 5 times the throughput and half the p99.
    """
    busy = f"{NAME}, {CALLERS} at once"
    moderate = f"{NAME}, open load of {rate:.0f}/s"
    return [
        row
        for number, rival in enumerate(rivals, start=1)
        for pairs in [[(turn[0], turn[number]) for turn in turns]]
        for row in (
            _row(f"{busy}: time a request, all processes busy", rival, pairs, _mean_us, "us", least=5.0),
            _row(f"{busy}: p99 latency", rival, pairs, lambda turn: _p99_ms(turn.busy), "ms"),
            _row(
                f"{moderate}: p99 latency", rival, pairs, lambda turn: _p99_ms(turn.moderate), "ms", least=2.0
            ),
        )
    ]


def _mean_us(turn: Turn) -> float:
    """Time between answers: the inverse of the throughput."""
    return turn.took_s / len(turn.busy) * 1e6


def _p99_ms(latencies: list[float]) -> float:
    return sorted(latencies)[int(0.99 * len(latencies))] * 1e3


def _row(
    name: str,
    rival: str,
    pairs: list[tuple[Turn, Turn]],
    figure: Callable[[Turn], float],
    unit: str,
    *,
    least: float | None = None,
) -> Row:
    """One figure of both; `least` is the ratio to reach."""
    figures = [(figure(mine), figure(other)) for mine, other in pairs]
    return paired(name, rival, figures, unit=unit, least=least)
