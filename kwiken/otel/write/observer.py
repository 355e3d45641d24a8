"""What a gateway and a replica hold to have their spans written: give it a note, and it returns at once."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from kwiken.errors import InputError
from kwiken.extras import needs
from kwiken.otel.write.labels import Labels, Value
from kwiken.otel.write.otlp_json import scope_version
from kwiken.otel.write.pipeline import Pipeline, SpanCounts
from kwiken.otel.write.records import RequestRecord
from kwiken.otel.write.rotating_files import LineFiles
from kwiken.otel.write.span_model import CallNote, Server, SpanNote, call_span, request_spans, sampled

if TYPE_CHECKING:
    from kwiken.otel.write.collector import Collector

Item = TypeVar("Item")
_CALLS_A_LINE = 64


class Parent(Protocol):
    """The caller's place in a trace."""

    @property
    def trace_id(self) -> int:
        """128 bits."""

    @property
    def span_id(self) -> int:
        """64 bits."""

    @property
    def sampled(self) -> bool:
        """Whether the caller keeps the trace."""


class Served(Protocol):
    """What a replica server tells of a call that it ran."""

    @property
    def parent(self) -> Parent | None:
        """The caller's attempt; None where it gave none."""

    @property
    def shard(self) -> int:
        """Number of the shard."""

    @property
    def start_ns(self) -> int:
        """When the call came in, nanoseconds since 1970."""

    @property
    def end_ns(self) -> int:
        """When its answer was ready."""

    @property
    def busy_ms(self) -> float:
        """CPU time of the call."""

    @property
    def error(self) -> str | None:
        """What went wrong; "cancelled" where the caller hung up."""


class RequestSpans:
    """Writes the spans of every finished request. An `Observer`; made by `make_observer`.

    Args:
        service: name of the service.
        files: where OTLP JSON lines go; None for nowhere.
        collector: where spans go by OTLP over HTTP; None for nowhere.
        sample: share of the traces to keep, by trace id.
    """

    def __init__(
        self, service: str, *, files: LineFiles | None, collector: Collector | None, sample: float
    ) -> None:
        self._labels = Labels()
        self._sample = sample
        self._sampled_out = 0
        self._pipeline: Pipeline[RequestRecord] = Pipeline(
            self._spans_of, resource(service), files=files, collector=collector
        )

    def request_finished(self, record: RequestRecord) -> None:
        """Take the notes of one request; returns at once. The record must not change afterwards."""
        if sampled(record.trace_id, self._sample):
            self._pipeline.put(record)
        else:
            self._sampled_out += 1

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was taken is in the files; False where that took too long."""
        return self._pipeline.flush(timeout_s)

    def close(self) -> None:
        """Write what is queued and stop."""
        self._pipeline.close()

    def counts(self) -> SpanCounts:
        """What became of the requests' notes."""
        return dataclasses.replace(self._pipeline.counts(), sampled_out=self._sampled_out)

    def _spans_of(self, record: RequestRecord) -> list[SpanNote]:
        return request_spans(record, self._labels)


class ServerSpans:
    """Writes a server span for every call that one replica ran.

    Args:
        service: name of the service.
        stage: that the replica serves.
        replica: its id.
        node: where it runs.
        traces: folder for OTLP JSON lines; None for none.
        otlp: `http://HOST:PORT` of a collector; None for none.
        sample: share of the traces to keep, by trace id: the same traces as the gateway with the same share.

    Raises:
        InputError: a share that is none, a collector's address that is none, or a folder that cannot be made.
    """

    def __init__(
        self,
        service: str,
        stage: str,
        replica: str,
        node: str,
        *,
        traces: Path | None = None,
        otlp: str | None = None,
        sample: float = 1.0,
    ) -> None:
        self._sample = _share(sample)
        self._server = Server(service, stage, replica, node)
        self._labels = Labels()
        self._sampled_out = 0
        self._rng = random.Random()  # noqa: S311 - identifiers, not secrets
        name = f"{service}-{stage}"
        shared: dict[str, Value] = {**resource(name), "service.instance.id": replica}
        files, collector = _outputs(name, shared, traces, otlp)
        self._pipeline: Pipeline[CallNote] = Pipeline(
            self._spans_of, shared, files=files, collector=collector, per_line=_CALLS_A_LINE
        )

    def call_finished(self, call: Served) -> None:
        """Take one finished call; returns at once. A call without a sampled parent has no span."""
        parent = call.parent
        if parent is None or not parent.sampled:
            self._sampled_out += 1
            return
        self.record(
            CallNote(
                parent.trace_id,
                parent.span_id,
                call.shard,
                call.start_ns,
                call.end_ns,
                busy_ms=call.busy_ms,
                error=call.error,
            )
        )

    def record(self, call: CallNote) -> None:
        """Take the note of one call; returns at once."""
        if sampled(call.trace_id, self._sample):
            self._pipeline.put(call)
        else:
            self._sampled_out += 1

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was taken is in the files; False where that took too long."""
        return self._pipeline.flush(timeout_s)

    def close(self) -> None:
        """Write what is queued and stop."""
        self._pipeline.close()

    def counts(self) -> SpanCounts:
        """What became of the calls' notes."""
        return dataclasses.replace(self._pipeline.counts(), sampled_out=self._sampled_out)

    def _spans_of(self, call: CallNote) -> list[SpanNote]:
        return [call_span(call, self._server, self._rng.getrandbits(64) or 1, self._labels)]


def make_observer(
    service: str, *, traces: Path | None = None, otlp: str | None = None, sample: float = 1.0
) -> RequestSpans:
    """An observer that writes the spans of every request.

    Args:
        service: name of the service.
        traces: folder for OTLP JSON lines, made where it is missing; None for none.
        otlp: `http://HOST:PORT` of a collector that takes OTLP over HTTP; None for none.
        sample: share of the traces to keep, chosen by trace id.

    Returns:
        To be closed at the end. With neither folder nor collector it only counts; have none instead.

    Raises:
        InputError: a share that is none, a collector's address that is none, or a folder that cannot be made.
    """
    share = _share(sample)
    files, collector = _outputs(service, resource(service), traces, otlp)
    return RequestSpans(service, files=files, collector=collector, sample=share)


def resource(name: str) -> dict[str, Value]:
    """Resource attributes of spans of this name's service."""
    found: dict[str, Value] = {"service.name": name}
    release = scope_version()
    return {**found, "service.version": release} if release else found


def _share(sample: float) -> float:
    if not (math.isfinite(sample) and 0 <= sample <= 1):
        raise InputError(f"must be a share from 0 to 1, not {sample}", where="sample")
    return sample


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
