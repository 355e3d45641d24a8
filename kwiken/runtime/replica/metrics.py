"""Metrics of a replica's process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sized

from kwiken.otel.metrics import Family, catalog, family
from kwiken.otel.write import resource
from kwiken.runtime.metrics import HttpRequests, process_families, target_family
from kwiken.runtime.transport import wire
from kwiken.service import Service


class ReplicaMetrics:
    """Counters of a replica, and its metrics.

    Args:
        service: service of the stage.
        stage: stage that the replica serves.
        name: name of the replica.
        node: name of the machine.
        queue: queue of the calls that wait to start.

    Attributes:
        http: its calls as HTTP requests.
        refused: calls that were not run, by reason.
        cpu_s: CPU time of handlers, seconds.
        resource: attributes of the resource.
    """

    def __init__(self, service: Service, stage: str, name: str, node: str, queue: Sized) -> None:
        self._labels = (service.name, stage, name, node)
        self._queue = queue
        self.http = HttpRequests(wire.CALL_PATH)
        self.refused: Counter[str] = Counter()
        self.cpu_s = 0.0
        self.resource = {
            **{key: str(value) for key, value in resource(f"{service.name}-{stage}").items()},
            "service.instance.id": name,
        }

    def collect(self) -> Iterator[Family]:
        """Read all metrics, as they are now."""
        yield family(catalog.REPLICA_INFO, [(self._labels, 1)])
        yield family(catalog.QUEUE_LENGTH, [((), len(self._queue))])
        yield family(
            catalog.CALLS_REFUSED, (((reason,), count) for reason, count in sorted(self.refused.items()))
        )
        yield family(catalog.REPLICA_CPU, [((), self.cpu_s)])
        yield from self.http.families()
        yield from process_families()

    def shown(self) -> Iterator[Family]:
        """Metrics for readers that know no resources: the resource is one of them."""
        yield target_family(self.resource)
        yield from self.collect()
