"""Recordings of a service one of whose stages is a single busy pod, by a plain simulation of its queue.

Seeds, ranges and the right answer were fixed before any recording was read: the busy stage needs a second pod.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from tests.support.otel.field import FORMS, filed
from tests.support.otel.span_trees import MS, T0, Span

SEEDS: Final = tuple(range(8501, 8517))
OWN_MS: Final = 1.0  # of the caller, before its first call and after its last
LINK_MS: Final = 0.2  # between the client's span and the server's, at either end
Calls = tuple[Floats, Floats, Floats, Ints]  # sent, begun at the server, answered, pod


@dataclass(frozen=True, kw_only=True)
class Busy:
    """One service whose stages are called one after another, first come, first served at each pod.

    Attributes:
        busy: number of the stage that has one pod with much use.
        use: share of the time for which a worker of that pod works.
        pods: by stage: number of pods.
        workers: calls that a pod of any stage works on at once.
        waits_inside: whether a call waits inside of the server's span, or before the span begins.
        spread: sigma of the logarithm of the service times.
        instance: attribute that names the pods.
    """

    seed: int
    busy: int
    use: float
    pods: tuple[int, ...]
    workers: int
    waits_inside: bool
    spread: float
    count: int
    form: str
    instance: str

    @property
    def callee(self) -> str:
        """Service whose pod is busy."""
        return f"s{self.busy}"

    def recording(self, folder: Path) -> Path:
        """Write the traces of the requests; the file's path."""
        at, end, calls = self._simulated()
        spans: list[Span] = []
        for i in range(self.count):
            http = {"http.route": "/page", "http.request.method": "GET"}
            times = _ns(at[i], end[i])
            spans.append(Span(i + 1, 1, 0, "door", "GET /page", *times, kind="server", attributes=http))
            for stage, (sent, begun, done, pod) in enumerate(calls):
                client, where = 2 * stage + 2, {self.instance: f"s{stage}-{int(pod[i])}"}
                times = _ns(sent[i], done[i] + LINK_MS)
                spans.append(Span(i + 1, client, 1, "door", "GET", *times, kind="client"))
                callee, times = (f"s{stage}", f"GET /r{stage}"), _ns(begun[i], done[i])
                spans.append(
                    Span(i + 1, client + 1, client, *callee, *times, kind="server", attributes=where)
                )
        return filed(folder, spans, self.form)

    def p99_ms(self, pods: int) -> float:
        """p99 of the requests if the busy stage had some pods, each call at one drawn anew."""
        known = tuple(pods if stage == self.busy else count for stage, count in enumerate(self.pods))
        at, end, _ = self._simulated(known)
        return float(np.percentile(end - at, 99))

    def _simulated(self, pods: tuple[int, ...] = ()) -> tuple[Floats, Floats, list[Calls]]:
        """(n,) start and end of each request, and the calls of each stage; `pods` in place of the own ones."""
        rng = np.random.default_rng([self.seed, 1])
        rate_per_ms = 0.02 * self.workers
        at = np.cumsum(rng.exponential(1 / rate_per_ms, self.count))
        arrived, calls = at + OWN_MS, []
        for stage, count in enumerate(pods or self.pods):
            mean_ms = self._mean_ms(stage, rate_per_ms)
            work = mean_ms * rng.lognormal(-(self.spread**2) / 2, self.spread, self.count)
            pod = rng.integers(count, size=self.count)
            begun = arrived + LINK_MS
            picked = _picked(begun, work, pod, self.workers)
            calls.append((arrived, begun if self.waits_inside else picked, picked + work, pod))
            arrived = picked + work + LINK_MS
        return at, arrived + OWN_MS, calls

    def _mean_ms(self, stage: int, rate_per_ms: float) -> float:
        """Mean service time of a stage, with which its pods have the use of the case, or a fifth of it."""
        use = self.use if stage == self.busy else 0.2 * self.use
        return use * self.pods[stage] * self.workers / rate_per_ms


def _picked(begun: Floats, work: Floats, pod: Ints, workers: int) -> Floats:
    """(n,): time at which a worker of its pod takes each call, first come, first served."""
    free: dict[int, list[float]] = {}
    picked = np.empty(len(begun))
    for i in np.argsort(begun, kind="stable"):
        ends = free.setdefault(int(pod[i]), [0.0] * workers)
        picked[i] = max(begun[i], heapq.heappop(ends))
        heapq.heappush(ends, picked[i] + work[i])
    return picked


def _ns(start_ms: float, end_ms: float) -> tuple[int, int]:
    return T0 + round(start_ms * MS), T0 + round(end_ms * MS)


def busy(seed: int) -> Busy:
    """Draw one case."""
    rng = np.random.default_rng(seed)
    stages = int(rng.choice((1, 3)))
    number = int(rng.integers(stages))
    return Busy(
        seed=seed,
        busy=number,
        use=float(rng.uniform(0.8, 0.95)),
        pods=tuple(1 if stage == number else int(rng.integers(1, 4)) for stage in range(stages)),
        workers=int(rng.choice((1, 2, 4))),
        waits_inside=bool(rng.random() < 0.5),
        spread=float(rng.uniform(0.3, 1.0)),
        count=int(rng.integers(1500, 4000)),
        form=str(rng.choice([form for form in FORMS if form != "elasticsearch"])),
        instance=str(rng.choice(("k8s.pod.name", "service.instance.id", "host.name"))),
    )
