"""Recorder of one request: builds its record while it runs (`otel` turns records into spans)."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from kwiken.otel.write import AttemptKind, AttemptRecord, Outcome, RequestRecord, Sample, StageRecord
from kwiken.runtime.decisions import (
    COPY,
    LATE,
    RESEND,
    RETRY,
    KeepReason,
    RequestSampling,
    TraceSampler,
)

KINDS: Final = {
    None: AttemptKind.PRIMARY,
    COPY: AttemptKind.REISSUE,
    LATE: AttemptKind.REISSUE,
    RETRY: AttemptKind.RETRY,
    RESEND: AttemptKind.RETRY,
}
REASONS: Final = {
    COPY: KeepReason.COPIED,
    LATE: KeepReason.LATE,
    RETRY: KeepReason.RETRIED,
    RESEND: KeepReason.RETRIED,
}


class Recorder:
    """Record of one request under construction.

    The wall clock is read once; all other times are counted from there by the monotonic clock, so that no
    record ends before it starts, however the wall clock is set.

    Args:
        record: record of the request, already begun.
        now: the monotonic moment of `record.start_ns`, seconds.
        rng: source of randomness for span ids.
        sampler: decides whether the request's spans are kept; None to keep them.
        sampling: sampling of the request; None without a sampler.
    """

    __slots__ = ("_rng", "_sampler", "_sampling", "_zero_ns", "record")

    def __init__(
        self,
        record: RequestRecord,
        now: float,
        rng: random.Random,
        sampler: TraceSampler | None = None,
        sampling: RequestSampling | None = None,
    ) -> None:
        self.record = record
        self._rng = rng
        self._sampler = sampler
        self._sampling = sampling
        self._zero_ns = record.start_ns - round(now * 1e9)

    @property
    def kept(self) -> bool:
        """Whether the request's spans will be kept whatever happens; replicas are told."""
        return self._sampling is None or self._sampling.kept

    def ns(self, now: float) -> int:
        """Convert a monotonic moment, seconds, to nanoseconds since 1970."""
        return self._zero_ns + round(now * 1e9)

    def stage(
        self,
        name: str,
        after: tuple[str, ...],
        fanout: int,
        now: float,
        *,
        idempotent: bool,
        threads: int = 1,
    ) -> StageRecord:
        """Begin the record of a stage run."""
        span_id = new_id(self._rng, 64)
        record = StageRecord(
            span_id, name, after, fanout, self.ns(now), idempotent=idempotent, threads=threads
        )
        self.record.stages.append(record)
        return record

    def attempt(
        self,
        stage: StageRecord,
        *,
        shard: int,
        number: int,
        step: int | None,
        where: tuple[str, str],
        now: float,
        threads: int = 1,
        catch_up: bool = False,
    ) -> AttemptRecord:
        """Begin the record of an attempt.

        Args:
            stage: record of the stage run.
            shard: shard of the call, from 0.
            number: number of the attempt, from 0.
            step: step of the race that asked for the attempt; None for the primary.
            where: id and node of the replica.
            now: present moment, seconds.
            threads: threads that the attempt may use, 1 or more.
            catch_up: whether the attempt was sent, or got priority or threads, because the request is late;
                for a copy, whether the catch-up budget pays for it.
        """
        start = self.ns(now)
        record = AttemptRecord(
            new_id(self._rng, 64), shard, number, KINDS[step], *where, start, start, Outcome.CANCELLED
        )
        record.threads = threads
        record.catch_up = catch_up
        if (step is not None or catch_up) and self._sampler is not None and self._sampling is not None:
            self._sampler.note(self._sampling, REASONS[LATE if step is None else step])
        stage.attempts.append(record)
        return record

    def end_attempt(
        self,
        record: AttemptRecord,
        outcome: Outcome,
        now: float,
        busy_ms: float | None = None,
        error: str | None = None,
        sent: float = 0.0,
        first_byte: float = 0.0,
    ) -> None:
        """Complete the record of an attempt.

        Args:
            record: record of the attempt.
            outcome: its outcome.
            now: present moment, seconds.
            busy_ms: CPU time that the replica spent on it, milliseconds; None if not stated.
            error: error message; None for no error.
            sent: moment at which the call was written to a connection, seconds; 0 if not known.
            first_byte: moment at which the first byte of the answer came, seconds; 0 if not known.
        """
        record.end_ns = self.ns(now)
        if sent:
            record.sent_ns = self.ns(sent)
        if first_byte:
            record.first_byte_ns = self.ns(first_byte)
        record.outcome = outcome
        record.busy_ms = busy_ms
        record.error = error

    def end_stage(self, record: StageRecord, now: float, *, error: BaseException | None = None) -> None:
        """Complete the record of a stage run."""
        record.end_ns = self.ns(now)
        record.error = describe(error)

    def end(self, now: float, *, took: float, partial: bool, error: BaseException | None = None) -> bool:
        """Complete the record of the request, and of stage runs that were cut short.

        Args:
            now: present moment, seconds.
            took: latency of the request, seconds.
            partial: whether a part of the answer is missing.
            error: error of the request; None for none.

        Returns:
            Whether its spans are to be kept.
        """
        self.record.end_ns = self.ns(now)
        self.record.error = describe(error)
        self.record.cancelled = isinstance(error, asyncio.CancelledError)
        for stage in self.record.stages:
            if stage.end_ns == 0:
                stage.end_ns = self.record.end_ns
        if self._sampler is None or self._sampling is None:
            return True
        kept = self._sampler.end(self._sampling, took, failed=error is not None, partial=partial)
        if kept is None:
            return False
        self.record.sample = Sample(kept.reason, kept.share)
        return True


def new_id(rng: random.Random, bits: int) -> int:
    """Random identifier other than 0, as required of trace and span ids."""
    return rng.getrandbits(bits) or 1


def describe(error: BaseException | None) -> str | None:
    """Describe an error in one short line; None for None."""
    return None if error is None else f"{type(error).__name__}: {error}"[:500]
