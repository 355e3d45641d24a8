"""Metrics of a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kwiken.model.service.service import Service
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Family, Rising, family
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.control.control import Control
from kwiken.runtime.gateway.control.steering import ACTIONS
from kwiken.runtime.metrics.http_requests import HttpRequests
from kwiken.runtime.metrics.process import process_families, resource_of, target_family
from kwiken.runtime.metrics.snapshots import distribution
from kwiken.runtime.wire.tls.certificates import DAY_S, Certificates
from kwiken.runtime.wire.transport import wire


class GatewayMetrics:
    """Metrics of a gateway's process.

    Args:
        instance: name of the process, unique among those of the service.
        control: control routes, which know what the autopilot does.
        tls: certificates of the gateway; None without TLS.

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
        control: Control,
        tls: Certificates | None = None,
    ) -> None:
        self._executor = executor
        self._control = control
        self._tls = tls
        self._rising = Rising()
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
        yield from self._of_autopilot()
        yield family(catalog.LOOP_LAG, [((), distribution(self._lags))])
        if self._tls is not None:
            yield family(catalog.CERTIFICATE_VALIDITY, [((), self._tls.days_left * DAY_S)])
        yield from self.http.families()
        yield from process_families()

    def _of_autopilot(self) -> Iterator[Family]:
        note, trial = self._control.note, self._executor.trial
        digest = trial.digest if trial is not None else ""
        decided = dict.fromkeys(ACTIONS, 0) if note is None else note.decided
        last = note.history[-1] if note is not None and note.history else None
        yield family(catalog.PLAN_TRIAL, [((digest,), self._executor.trial_share)])
        yield family(
            catalog.AUTOPILOT_DECISIONS,
            (((action,), self._rising((action,), count)) for action, count in decided.items()),
        )
        told = (last.action, last.reason) if last is not None else ("", "")
        yield family(catalog.AUTOPILOT_LAST, [(told, 1)])

    def shown(self) -> Iterator[Family]:
        """Metrics for readers without OpenTelemetry's resources: the resource is a metric of its own."""
        yield target_family(self.resource)
        yield from self.collect()
