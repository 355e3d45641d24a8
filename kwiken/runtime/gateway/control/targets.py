"""List of gateways and replicas for Prometheus's service discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kwiken.runtime.wire.transport.base import Replica


def targets_of(gateways: Sequence[str], replicas: Mapping[str, Sequence[Replica]]) -> list[dict[str, Any]]:
    """Gateways and replicas as targets of Prometheus's HTTP service discovery.

    Args:
        gateways: URL of each gateway of the cluster.
        replicas: replicas by stage, without those of foreign services, which show no such metrics.
    """
    # Each is read by itself: its metrics must not hold its siblings' too.
    alone = {"__param_alone": "1"} if len(gateways) > 1 else {}
    fronts = [
        {"targets": [urlsplit(url).netloc], "labels": {"kw_gateway": str(number), **alone}}
        for number, url in enumerate(gateways)
    ]
    return fronts + [
        {
            "targets": [urlsplit(replica.address).netloc],
            "labels": {"kw_stage": stage, "kw_replica": replica.id, "kw_node": replica.node},
        }
        for stage, those in replicas.items()
        for replica in those
        if replica.address.startswith("http://")
    ]
