"""Metrics of a gateway, and the list of replicas for Prometheus's service discovery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from kwiken.model.service import Service
from kwiken.otel.metrics import Family, catalog, family
from kwiken.runtime.decisions import LatencyHistogram
from kwiken.runtime.engine import Executor
from kwiken.runtime.metrics import HttpRequests, distribution, process_families, resource_of, target_family
from kwiken.runtime.wire.transport import Replica, wire


class GatewayMetrics:
    """Metrics of a gateway's process.

    Args:
        instance: name of the process, unique among those of the service.

    Attributes:
        http: times of its HTTP requests.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        *,
        lags: LatencyHistogram,
        instance: str,
    ) -> None:
        self._executor = executor
        self.http = HttpRequests(wire.REQUEST_PATH)
        self._lags = lags
        self._service = service.name
        self._instance = instance

    @cached_property
    def resource(self) -> dict[str, str]:
        """Attributes of OpenTelemetry's resource, made on first use."""
        return resource_of(self._service, self._instance)

    def collect(self) -> Iterator[Family]:
        """Read all metrics, as they are now."""
        yield from self._executor.metrics()
        yield family(catalog.LOOP_LAG, [((), distribution(self._lags))])
        yield from self.http.families()
        yield from process_families()

    def shown(self) -> Iterator[Family]:
        """Metrics for readers without OpenTelemetry's resources: the resource is a metric of its own."""
        yield target_family(self.resource)
        yield from self.collect()


def targets_of(gateways: Sequence[str], replicas: Mapping[str, Sequence[Replica]]) -> list[dict[str, Any]]:
    """Gateways and replicas as targets of Prometheus's HTTP service discovery.

    Args:
        gateways: URL of each gateway of the cluster.
        replicas: replicas by stage; those that serve another protocol than HTTP show no metrics.
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
