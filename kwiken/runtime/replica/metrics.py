"""Metrics of a replica's process, for HTTP and gRPC alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Family, family
from kwiken.runtime.metrics.process import process_families, resource_of, target_family
from kwiken.runtime.metrics.snapshots import distribution
from kwiken.runtime.replica.stage_calls import StageCalls


class ReplicaMetrics:
    """Metrics of a replica."""

    def __init__(self, service: str, calls: StageCalls, *, name: str, node: str) -> None:
        self._calls = calls
        self._labels = (service, calls.stage.name, name, node)

    @cached_property
    def resource(self) -> dict[str, str]:
        """Attributes of OpenTelemetry's resource, made on first use."""
        service, stage, name, _ = self._labels
        return resource_of(f"{service}-{stage}", name)

    def collect(self) -> Iterator[Family]:
        """Read all metrics, as they are now."""
        calls = self._calls
        yield family(catalog.REPLICA_INFO, [(self._labels, 1)])
        yield family(
            catalog.SERVED_DURATION,
            (((ending.name.lower(),), distribution(found)) for ending, found in calls.latencies.items()),
        )
        yield family(catalog.CALLS_HELD, [((), calls.inflight)])
        yield family(catalog.QUEUE_LENGTH, [((), calls.queued)])
        yield family(catalog.REPLICA_CPU, [((), calls.cpu_ns / 1e9)])
        yield from process_families()

    def shown(self) -> Iterator[Family]:
        """Metrics for readers that know no resources: the resource is one of them."""
        yield target_family(self.resource)
        yield from self.collect()
