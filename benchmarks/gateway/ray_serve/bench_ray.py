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
which it takes itself. Settings and reasons are in `benchmarks.gateway.ray_serve.ray_process`.

Ray Serve has two proxies: one in Python, which comes by default, and HAProxy, which its guide to throughput
takes. HAProxy listens on every interface, so that comparison runs after the other one, in a network namespace
(`benchmarks.gateway.ray_serve.behind_haproxy`).

Throughput is taken with all processes busy; the p99 at open load, the same arrivals for all, of half of what
Ray Serve can do by the proxy of that comparison.
"""

from __future__ import annotations

import sys

from benchmarks.gateway.ray_serve import behind_haproxy
from benchmarks.gateway.ray_serve.measure import compare
from benchmarks.gateway.ray_serve.ray_process import missing
from benchmarks.harness import Row

RIVALS = ("Ray Serve, by its proxy", "Ray Serve, no proxy")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    lacking = missing()
    if lacking:
        print(
            f"ray: skipped, not installed: {', '.join(lacking)} (`make bench` installs it)", file=sys.stderr
        )
        return [Row(name="comparisons with Ray Serve, which is not installed", ours=1, unit="skipped")]
    return [*compare(RIVALS, quick=quick, haproxy=False), *_by_haproxy(quick=quick)]


def _by_haproxy(*, quick: bool) -> list[Row]:
    reason = behind_haproxy.lacking()
    if reason:
        print(f"ray: {behind_haproxy.RIVAL}: skipped, {reason}", file=sys.stderr)
        return [Row(name="Ray Serve by HAProxy, which cannot run here", ours=1, unit="skipped")]
    return behind_haproxy.compared(quick=quick)
