"""Readings of an adaptation from the status of gateways, with the counts of the last window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kwiken.allocator.adaptation.watch import Observation
from kwiken.allocator.packing.auto_dial import LateCount
from kwiken.model.service.service import Service
from kwiken.runtime.decisions.latency_histogram import SCALE

Figures = Mapping[str, Any]  # of `GET /v1/status`


class Readings:
    """Observations from one status after the other. Pure: the moment is handed in."""

    def __init__(self) -> None:
        # By service: moment of the last window, requests admitted until then, and requests turned away.
        self._arrived: dict[str, tuple[float, int, int]] = {}
        self._work: dict[str, tuple[int, float]] = {}  # calls and their processor time so far, by workload
        self._ended: dict[str, LateCount] = {}  # requests so far, by service

    def of_service(self, service: str, figures: Figures, now_s: float) -> Observation:
        """Measurements of a service's requests since the last window, those turned away among them.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        recent = figures["recent"]
        counts = now_s, figures["requests"], figures["shed"]
        before, self._arrived[service] = self._arrived.get(service, counts), counts
        lasted_s, admitted, shed = (now - then for now, then in zip(counts, before, strict=True))
        if admitted < 0 or shed < 0:  # a gateway that was replaced counts anew
            admitted = shed = 0
            lasted_s = 0.0
        arrived = admitted + shed
        return Observation(
            requests=recent["answered"] + shed,
            rate_per_s=max(recent["rate_per_s"], arrived / lasted_s if lasted_s > 0 else 0.0),
            p99_ms=recent["p99_ms"],
            turned_away=shed / arrived if arrived else 0.0,
            arrived=arrived,
            lasted_s=lasted_s,
        )

    def of_stages(
        self,
        service: Service,
        figures: Figures,
        workloads: Mapping[str, tuple[str, Mapping[str, str]]],
        arriving_per_s: float,
    ) -> dict[str, Observation]:
        """Measurements of the stages of a service that are workloads, by workload.

        Args:
            workloads: stage of each workload, and the keys of its replicas by their names.
            arriving_per_s: rate of the service's requests, those turned away too.
        """
        seen = {}
        for name, (stage_name, keys) in workloads.items():
            stage = figures["stages"][stage_name]
            recent = stage["recent"]
            calls = max(1, service[stage_name].fanout)  # of one request
            seen[name] = Observation(
                requests=recent["answered"] // calls,
                rate_per_s=max(recent["rate_per_s"] / calls, arriving_per_s),
                p99_ms=recent["p99_ms"],
                latency_ms={
                    keys[one["id"]]: one["latency_ms"]
                    for one in stage["replicas"]
                    if one["id"] in keys and one["latency_ms"] is not None
                },
                work_ms=self._work_since(name, stage["calls"], stage["busy_ms"], calls),
            )
        return seen

    def late_since(self, service: str, figures: Figures, target_ms: float) -> LateCount:
        """Requests of a service since the last window, and those that failed or were later than a target.

        Args:
            target_ms: largest p99 latency of the service, milliseconds.
        """
        last = math.ceil(math.log2(target_ms / 1000) * 2**SCALE) - 1  # the bucket that holds the target
        arms = figures["arms"].values()
        cells = [(int(cell), count) for arm in arms for cell, count in arm["cells"].items()]
        failed = sum(arm["failed"] for arm in arms)
        now = LateCount(
            failed + sum(count for _, count in cells),
            failed + sum(count for cell, count in cells if cell > last),
        )
        before, self._ended[service] = self._ended.get(service, now), now
        since = LateCount(now.requests - before.requests, now.late - before.late)
        # Another plan, or a gateway that was replaced, counts anew.
        return now if since.requests < 0 or since.late < 0 else since

    def _work_since(self, name: str, calls: int, busy_ms: float, of_request: int) -> float | None:
        """Processor time of a request since the last window, milliseconds; None where it is not known."""
        before_calls, before_ms = self._work.get(name, (calls, busy_ms))
        self._work[name] = calls, busy_ms
        answered, spent_ms = calls - before_calls, busy_ms - before_ms
        if answered <= 0 or spent_ms <= 0:  # no calls, or a gateway that was replaced counts anew
            return None
        return spent_ms / answered * of_request
