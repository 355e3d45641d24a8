"""Observers that write the spans of a gateway's requests and of a replica's calls, without blocking."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kwiken.base.errors import InputError
from kwiken.base.extras import needs
from kwiken.otel.write.labels import Labels, Value
from kwiken.otel.write.otlp_json import scope_version
from kwiken.otel.write.pipeline import Pipeline, SpanCounts
from kwiken.otel.write.records import ExceptionRecord, RequestRecord
from kwiken.otel.write.rotating_files import LineFiles
from kwiken.otel.write.span_model import INTERNAL, CallRecord, Server, SpanData, call_span, request_spans

if TYPE_CHECKING:
    from kwiken.otel.write.collector import Collector

Item = TypeVar("Item")
_CALLS_A_LINE = 64
JAEGERS_HOST = "ip"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SpanParent(Protocol):
    """Span context of the caller."""

    @property
    def trace_id(self) -> int:
        """Trace id, 128 bits."""

    @property
    def span_id(self) -> int:
        """Id of the caller's span, 64 bits."""

    @property
    def sampled(self) -> bool:
        """True if the caller records the trace."""


class FinishedCall(Protocol):
    """Call that a replica server has finished."""

    @property
    def parent(self) -> SpanParent | None:
        """Span context of the caller's attempt; None if the caller sent none."""

    @property
    def shard(self) -> int:
        """Number of the shard, from 0."""

    @property
    def start_ns(self) -> int:
        """Time of the call's arrival, nanoseconds since 1970."""

    @property
    def end_ns(self) -> int:
        """Time at which its answer was ready, nanoseconds since 1970."""

    @property
    def began_ns(self) -> int:
        """Time at which its handler began, nanoseconds since 1970."""

    @property
    def busy_ms(self) -> float:
        """CPU time of the call, milliseconds."""

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 0."""

    @property
    def error(self) -> str | None:
        """Error message; "cancelled" if the caller closed the connection, None for no error."""

    @property
    def exception(self) -> ExceptionRecord | None:
        """Exception of the handler; None for none."""

    @property
    def first_item_ns(self) -> int | None:
        """Time of its first item, nanoseconds since 1970; None where it sent none."""


class SpanWriter(Generic[Item]):
    """Queues items to be written as spans.

    Args:
        pipeline: pipeline that makes and writes the spans.
    """

    def __init__(self, pipeline: Pipeline[Item]) -> None:
        self._pipeline = pipeline
        self._not_sampled = 0

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all queued items are in the files; False after `timeout_s` seconds."""
        return self._pipeline.flush(timeout_s)

    def close(self) -> None:
        """Write the queued items and stop."""
        self._pipeline.close()

    def counts(self) -> SpanCounts:
        """Counts of items and spans: queued, dropped, written and exported."""
        return dataclasses.replace(self._pipeline.counts(), not_sampled=self._not_sampled)


class RequestSpans(SpanWriter[RequestRecord]):
    """`Observer` that writes the spans of every finished request; made by `make_observer`.

    Args:
        files: files for OTLP JSON lines; None for none.
        collector: collector for spans by OTLP over HTTP; None for none.
    """

    def __init__(self, service: str, *, files: LineFiles | None, collector: Collector | None) -> None:
        labels = Labels()

        def spans_of(record: RequestRecord) -> list[SpanData]:
            return request_spans(record, labels)

        shared = {**resource(service), **machine()}
        super().__init__(Pipeline(spans_of, shared, files=files, collector=collector))

    def request_finished(self, record: RequestRecord) -> None:
        """Queue the record of one request; returns at once. The record must not change afterwards."""
        self._pipeline.put(record)


class ServerSpans(SpanWriter[CallRecord]):
    """Writer of a server span for every call that one replica ran.

    Args:
        stage: name of the stage that the replica serves.
        node: name of the machine that the replica runs on.
        protocol: protocol of its calls, `http` or `grpc`, for the spans; empty for none that is stated.
        traces: folder for OTLP JSON lines; None for none.
        otlp: `http://HOST:PORT` of a collector; None for none.

    Raises:
        InputError: the collector's address is no HTTP URL, or the folder cannot be made.
    """

    def __init__(
        self,
        service: str,
        stage: str,
        replica: str,
        node: str,
        *,
        protocol: str = "",
        traces: Path | None = None,
        otlp: str | None = None,
    ) -> None:
        server, labels = Server(service, stage, replica, node, protocol), Labels()
        rng = random.Random()  # noqa: S311 - identifiers, not secrets

        def spans_of(call: CallRecord) -> list[SpanData]:
            return [call_span(call, server, rng.getrandbits(64) or 1, labels)]

        name = f"{service}-{stage}"
        shared: dict[str, Value] = {**resource(name), **machine(), "service.instance.id": replica}
        files, collector = _outputs(name, shared, traces, otlp)
        pipeline = Pipeline(spans_of, shared, files=files, collector=collector, per_line=_CALLS_A_LINE)
        super().__init__(pipeline)

    def call_finished(self, call: FinishedCall) -> None:
        """Queue one finished call; returns at once. A call without a sampled parent has no span."""
        parent = call.parent
        if parent is None or not parent.sampled:
            self._not_sampled += 1
            return
        self.record(
            CallRecord(
                parent.trace_id,
                parent.span_id,
                call.shard,
                call.start_ns,
                call.end_ns,
                call.began_ns,
                busy_ms=call.busy_ms,
                attempt=call.attempt,
                error=call.error,
                exception=call.exception,
                first_item_ns=call.first_item_ns,
            )
        )

    def record(self, call: CallRecord) -> None:
        """Queue the record of one call; returns at once."""
        self._pipeline.put(call)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """One decision of an autopilot, for a span of its own.

    Attributes:
        at_ns: moment of the decision, nanoseconds since 1970.
        action: what was done, such as `apply` or `roll_back`.
        reason: why, in one sentence.
        plan: digest of the plan that the decision is about; None for none.
    """

    at_ns: int
    action: str
    reason: str
    plan: str | None


class DecisionSpans(SpanWriter[DecisionRecord]):
    """Writer of a span for every decision of an autopilot; their service is `SERVICE-autopilot`.

    Args:
        service: name of the service that is steered.
        traces: folder for OTLP JSON lines.

    Raises:
        InputError: the folder cannot be made.
    """

    def __init__(self, service: str, traces: Path) -> None:
        rng = random.Random()  # noqa: S311 - identifiers, not secrets
        name = f"{service}-autopilot"
        shared = {**resource(name), **machine()}

        def spans_of(record: DecisionRecord) -> list[SpanData]:
            attributes: list[tuple[str, Value]] = [
                ("kw.autopilot.action", record.action),
                ("kw.autopilot.reason", record.reason),
                *([("kw.plan", record.plan)] if record.plan is not None else []),
            ]
            ids = rng.getrandbits(128) or 1, rng.getrandbits(64) or 1
            title = f"autopilot {record.action}"
            return [SpanData(*ids, None, title, INTERNAL, record.at_ns, record.at_ns, attributes)]

        files, collector = _outputs(name, shared, traces, None)
        super().__init__(Pipeline(spans_of, shared, files=files, collector=collector))

    def decided(self, record: DecisionRecord) -> None:
        """Queue one decision; returns at once."""
        self._pipeline.put(record)


def make_observer(service: str, *, traces: Path | None = None, otlp: str | None = None) -> RequestSpans:
    """Make an observer that writes the spans of every request.

    Args:
        traces: folder for OTLP JSON lines, made if it is missing; None for none.
        otlp: `http://HOST:PORT` of a collector that takes OTLP over HTTP; None for none.

    Returns:
        The observer; close it at the end. With neither folder nor collector it only counts.

    Raises:
        InputError: the collector's address is no HTTP URL, or the folder cannot be made.
    """
    files, collector = _outputs(service, {**resource(service), **machine()}, traces, otlp)
    return RequestSpans(service, files=files, collector=collector)


def machine() -> dict[str, Value]:
    """Resource attributes of this machine, by OpenTelemetry's names.

    `host.id` is the kernel's boot id where there is one. Containers of one machine share it, as they share
    its clock, so a trace store need not look for skew between them. Jaeger's query service compares the tag
    `ip` instead, so that one repeats it. Without it Jaeger warns of skew where a cancelled call ended after
    its caller had gone on.
    """
    found: dict[str, Value] = {"host.name": os.uname().nodename}
    with contextlib.suppress(OSError):
        found["host.id"] = found[JAEGERS_HOST] = BOOT_ID.read_text(encoding="ascii").strip()
    return found


def resource(name: str) -> dict[str, Value]:
    """Resource attributes of a service's spans: its name and this project's version."""
    found: dict[str, Value] = {"service.name": name}
    release = scope_version()
    return {**found, "service.version": release} if release else found


def _outputs(
    name: str, shared: Mapping[str, Value], traces: Path | None, otlp: str | None
) -> tuple[LineFiles | None, Collector | None]:
    collector = None
    if otlp is not None:
        with needs("a collector of spans", "otel"):
            from kwiken.otel.write.collector import Collector

        collector = Collector(otlp, shared)
    try:
        files = LineFiles(traces, name) if traces is not None else None
    except OSError as error:
        raise InputError(f"spans cannot be written there: {error.strerror}", where=str(traces)) from error
    return files, collector
