"""Pid of a cluster's single gateway."""

from __future__ import annotations

from kwiken.runtime.cluster import Cluster


def gateway_pid(cluster: Cluster) -> int | None:
    """Pid of the gateway; None while it is being restarted."""
    return next(iter(cluster.gateway_pids), None)
