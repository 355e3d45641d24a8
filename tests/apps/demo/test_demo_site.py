"""Site of the demo: what it does while the gateway is too busy to answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kwiken.apps.demo import site as module
from kwiken.apps.demo.pace.attempt import InconclusiveRunError
from kwiken.apps.demo.progress import DemoWatch
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import LoadError
from kwiken.apps.demo.setup.settings import DemoSettings
from kwiken.apps.demo.site import Site, no_tick
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.gateway.control.client import NoAnswerError


class BusyCluster:
    """Cluster whose status times out a number of times, and then counts five requests more each time."""

    def __init__(self, refusals: float, per_status: int = 5) -> None:
        self.refusals = refusals
        self.per_status = per_status
        self.requests = 0

    async def status(self) -> dict[str, Any]:
        if self.refusals > 0:
            self.refusals -= 1
            raise NoAnswerError("busy")
        self.requests += self.per_status
        return {"runtime": {"requests": self.requests}, "replicas": [{"restarts": 0}]}


def site_of(cluster: BusyCluster) -> Site:
    unused = cast("Any", None)
    return Site(
        cast("DemoSettings", unused),
        cast("Cluster", cluster),
        cast("DemoWatch", unused),
        cast("Folder", unused),
        Path(),
    )


async def test_a_gateway_that_is_busy_at_first_is_waited_for() -> None:
    cluster = BusyCluster(2)
    await site_of(cluster).flowing(no_tick)
    assert cluster.requests == 10


@pytest.mark.parametrize("cluster", [BusyCluster(float("inf")), BusyCluster(0, per_status=0)])
async def test_requests_that_are_never_answered_end_the_wait(
    cluster: BusyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_ANSWERS_TIMEOUT_S", 0.3)
    with pytest.raises(LoadError, match=r"5 requests were not answered within 0\.3 s"):
        await site_of(cluster).flowing(no_tick)


async def test_replicas_are_asked_for_again() -> None:
    assert await site_of(BusyCluster(2)).replicas() == [{"restarts": 0}]
    with pytest.raises(InconclusiveRunError, match="the gateway gave no status in 3 tries"):
        await site_of(BusyCluster(3)).replicas()
