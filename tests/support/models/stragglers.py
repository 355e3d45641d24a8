"""Profiles of services with stragglers: what replicas cannot help and copies can."""

from __future__ import annotations

from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.queue_profiles import queue_profile

# Rests of high variation are stragglers: slow of themselves, and quick in a copy.
SERVICE = (
    Station(name="fetch", work=LogNormal(4.0, 0.7), rest=LogNormal(2.0, 2.5), replicas=3, dispatch="aged"),
    Station(name="rank", after=("fetch",), work=LogNormal(6.0, 1.0), replicas=3, dispatch="aged"),
)


def straggling_profile(*, requests: int = 2000, rate_per_s: float = 100.0, seed: int = 1) -> Profile:
    """Profile of two stages, the first with stragglers and the second with queues."""
    return queue_profile(rate_per_s, stations=SERVICE, requests=requests, seed=seed)
