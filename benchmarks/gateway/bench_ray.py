"""Benchmark of the gateway and three stages over HTTP, against the same chain composed by Ray Serve.

Both have the same handlers and the same processes in a request's path: gateway and one replica a stage here,
Serve's HTTP proxy and one replica a deployment there; the first deployment is the ingress and calls the other
two by their handles, so that there too a request makes three calls. A second rival leaves Ray's proxy out:
the client asks the first deployment's own HTTP server, a process and a call less than we have. One client
loads all in turn over kept connections. All stay up all the time, so Ray's housekeeping burdens our turns
too.

Ray Serve runs as its own guide to performance has it, not as it comes: calls by gRPC, from the proxy too;
handler and router in the process' one loop; neither access log nor dashboard nor usage statistics; room for
far more calls at once than there are; the same priority as ours, which Ray's processes else give up; uvloop,
which it takes itself. The proxy is the one in Python: the other (HAProxy) has to listen on every interface;
no proxy at all is its bound. Settings and reasons are in `benchmarks.gateway.ray_process`.

Throughput is taken with all processes busy; the p99 at open load, the same arrivals for all, of half of what
Ray Serve can do by its proxy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import uvloop

from benchmarks.gateway.bench_gateway import CALLERS, TEXT, load
from benchmarks.gateway.chain import STAGES, Item
from benchmarks.gateway.open_load import open_load
from benchmarks.gateway.ray_process import missing, ray_serve
from benchmarks.harness import Row, paired
from kwiken.runtime.cluster import Cluster

SHARE = 0.5  # of Ray Serve's throughput, as open load
NAME = f"chain of {len(STAGES)} stages over HTTP"


RIVALS = ("Ray Serve, by its proxy", "Ray Serve, no proxy")


@dataclass(frozen=True)
class Turn:
    """Result of one side in one round: latencies and the length of the busy part, in seconds."""

    busy: list[float]
    took_s: float
    moderate: list[float]


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    lacking = missing()
    if lacking:
        print(
            f"ray: skipped, not installed: {', '.join(lacking)} (`make bench` installs it)", file=sys.stderr
        )
        return [Row(name="comparisons with Ray Serve, which is not installed", ours=1, unit="skipped")]
    rounds, busy_s, moderate_s = (2, 0.5, 1.0) if quick else (9, 2.0, 5.0)
    measured: list[Row] = uvloop.run(_compare(rounds, busy_s, moderate_s))
    return measured


async def _compare(rounds: int, busy_s: float, moderate_s: float) -> list[Row]:
    async with Cluster("benchmarks.gateway.chain:chain") as cluster, ray_serve() as theirs:
        proxy, _ = theirs
        await load(proxy, busy_s)
        latencies, took = await load(proxy, 2 * busy_s)
        rate = SHARE * len(latencies) / took
        turns = []
        for turn in range(rounds + 1):
            done = [await _turn(url, rate, busy_s, moderate_s) for url in (cluster.gateway_url, *theirs)]
            if turn:  # the first goes unheard
                turns.append(done)
    return rows(turns, rate)


async def _turn(url: str, rate: float, busy_s: float, moderate_s: float) -> Turn:
    busy, took = await load(url, busy_s)
    body = msgspec.json.encode(Item(TEXT))
    return Turn(busy, took, await open_load(url, "/v1/request", body, rate=rate, seconds=moderate_s))


def rows(turns: list[list[Turn]], rate: float) -> list[Row]:
    """The results of all rounds, each ours and then the rivals'.

    Aimed at are 5 times the throughput and half the p99.
    """
    busy = f"{NAME}, {CALLERS} at once"
    moderate = f"{NAME}, open load of {rate:.0f}/s"
    return [
        row
        for number, rival in enumerate(RIVALS, start=1)
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
