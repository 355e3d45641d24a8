"""Notes of one request while it runs (`otel` makes spans of them afterwards)."""

from __future__ import annotations

import random
from typing import Final

from kwiken.otel.write import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.runtime.decisions import COPY, LATE, RESEND, RETRY

KINDS: Final = {
    None: AttemptKind.PRIMARY,
    COPY: AttemptKind.REISSUE,
    LATE: AttemptKind.REISSUE,
    RETRY: AttemptKind.RETRY,
    RESEND: AttemptKind.RETRY,
}


class Notes:
    """The record of one request in the making.

    The wall clock is read once and the rest counted from there by the monotonic one, so no note ends before
    it starts however the wall clock is set.

    Args:
        record: the request's, already begun.
        now: the monotonic moment of `record.start_ns`, seconds.
        rng: for span ids.
    """

    __slots__ = ("_rng", "_zero_ns", "record")

    def __init__(self, record: RequestRecord, now: float, rng: random.Random) -> None:
        self.record = record
        self._rng = rng
        self._zero_ns = record.start_ns - round(now * 1e9)

    def ns(self, now: float) -> int:
        """A monotonic moment as nanoseconds since 1970."""
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
        """Begin the note of a stage's visit."""
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
        """Begin the note of an attempt.

        Args:
            stage: the note of its visit.
            shard: of the call.
            number: of the attempt.
            step: what the race asked for; None for the primary.
            where: id and node of the replica.
            now: the moment.
            threads: that it may use.
            catch_up: whether it was sent, or went ahead, because the request is late; of copies, whether
                catch-up pays.
        """
        start = self.ns(now)
        record = AttemptRecord(
            new_id(self._rng, 64), shard, number, KINDS[step], *where, start, start, Outcome.CANCELLED
        )
        record.threads = threads
        record.catch_up = catch_up
        stage.attempts.append(record)
        return record

    def end_attempt(
        self,
        record: AttemptRecord,
        outcome: Outcome,
        now: float,
        *,
        busy_ms: float | None = None,
        error: str | None = None,
    ) -> None:
        """Complete the note of an attempt."""
        record.end_ns = self.ns(now)
        record.outcome = outcome
        record.busy_ms = busy_ms
        record.error = error

    def end_stage(self, record: StageRecord, now: float, *, error: BaseException | None = None) -> None:
        """Complete the note of a visit."""
        record.end_ns = self.ns(now)
        record.error = describe(error)

    def end(self, now: float, *, error: BaseException | None = None) -> RequestRecord:
        """Complete the request's note, and those of visits that were cut short."""
        self.record.end_ns = self.ns(now)
        self.record.error = describe(error)
        for stage in self.record.stages:
            if stage.end_ns == 0:
                stage.end_ns = self.record.end_ns
        return self.record


def new_id(rng: random.Random, bits: int) -> int:
    """A random identifier that is not 0, as trace and span ids must be."""
    return rng.getrandbits(bits) or 1


def describe(error: BaseException | None) -> str | None:
    """An error as one short line; None for none."""
    return None if error is None else f"{type(error).__name__}: {error}"[:500]
