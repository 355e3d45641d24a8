"""State of one replica as callers see the replica: calls in flight, latency, errors, ejection.

Pure. A replica that fails at once has no queue and would win every choice. Two measures prevent that. Both
compare replicas with each other, so a handler's bug that all of them share changes nothing. First, a decaying
share of failed calls makes a replica look worse than the others by a factor. Second, a run of failures
becomes evidence when the failure rate of the others makes it improbable (Envoy counts consecutive 5xx
instead, whatever the other hosts do).
"""

from __future__ import annotations

from math import exp2, inf, lgamma, log

from kwiken.runtime.wire.transport.base import Replica

OUTCOME_GAIN = 0.1  # weight of one outcome in the decaying share of failures
MIN_SHARE = 1e-3  # smaller shares of failures count as 0
MAX_PENALTY = 20.0  # penalty factor minus 1 of a replica that always fails while the others never do
PENALTY_HALF_LIFE_S = 5.0  # of the penalty after the last failure, so that every replica is tried again
MIN_WITNESSES = 3  # answers of other replicas during a run that show that not all replicas fail
MIN_RUN = 5  # failures in a row before a run is judged
MAX_LOG_CHANCE = log(1e-5)  # logarithm of the probability below which a run is no coincidence


def log_chance(run: int, *, errors: int, answers: int) -> float:
    """Log-probability of a run of errors for a replica that is like the others.

    With a uniform prior, the outcomes of the others leave a beta distribution of the error rate; this is the
    logarithm of the mean of its power `run`. An error rate known from few outcomes thus counts for little.

    Args:
        errors: number of errors of the others during the run.
        answers: number of answers of the others during the run.
    """
    before, total = errors + 1, errors + answers + 2
    return lgamma(before + run) - lgamma(before) + lgamma(total) - lgamma(total + run)


class FailureRecord:
    """Outcome statistics of one replica.

    Attributes:
        share: decaying share of the calls that failed, 0 to 1.
        failed_at: moment of the last failure, seconds.
        run: number of failures since the last answer.
    """

    __slots__ = ("answers_before", "counted", "errors_before", "failed_at", "run", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self.failed_at = -inf
        self.run = 0
        self.answers_before = 0  # number of answers of the stage when the run began
        self.errors_before = 0
        self.counted = False


class Outliers:
    """Failure statistics of one stage; compares only the replicas that take calls."""

    __slots__ = ("_answers", "_count", "_errors", "_sum")

    def __init__(self) -> None:
        self._answers = 0
        self._errors = 0
        self._sum = 0.0  # of `share` over the replicas that take calls
        self._count = 0

    def join(self, record: FailureRecord) -> None:
        """Record that a replica takes calls from now on."""
        if not record.counted:
            record.counted = True
            self._sum += record.share
            self._count += 1

    def leave(self, record: FailureRecord) -> None:
        """Record that a replica takes no calls for now."""
        if record.counted:
            record.counted = False
            self._count -= 1
            self._sum = self._sum - record.share if self._count else 0.0

    def answered(self, record: FailureRecord) -> None:
        """Record a successful call."""
        self._answers += 1
        if record.share:
            record.run = 0
            share = (1.0 - OUTCOME_GAIN) * record.share
            self._note(record, share if share > MIN_SHARE else 0.0)

    def failed(self, record: FailureRecord, now: float) -> bool:
        """Record a failure that may be the replica's fault; returns whether it is an outlier now."""
        if not record.run:
            record.answers_before = self._answers
            record.errors_before = self._errors
        self._errors += 1
        record.run += 1
        record.failed_at = now
        self._note(record, record.share + OUTCOME_GAIN * (1.0 - record.share))
        answers = (
            self._answers - record.answers_before
        )  # all by other replicas: an answer of its own ends the run
        errors = self._errors - record.errors_before - record.run
        if record.run < MIN_RUN or answers < MIN_WITNESSES:
            return False
        return log_chance(record.run, errors=errors, answers=answers) < MAX_LOG_CHANCE

    def penalty(self, record: FailureRecord, now: float) -> float:
        """Factor, 1 or more, on the score of a replica that fails more often than the others."""
        others, total = self._count, self._sum
        if record.counted:
            others -= 1
            total -= record.share
        if others <= 0:
            return 1.0
        excess = record.share - total / others
        if excess <= 0.0:
            return 1.0
        excess *= exp2((record.failed_at - now) / PENALTY_HALF_LIFE_S)
        return 1.0 + MAX_PENALTY * excess * excess

    def _note(self, record: FailureRecord, share: float) -> None:
        if record.counted:
            self._sum += share - record.share
        record.share = share


class ReplicaState:
    """State of one replica as seen by this process. Times in seconds.

    Attributes:
        waiting: start of each call without an answer, by ticket, oldest first.
        latency: estimated latency; 0 where unknown.
        unresponsive_since: start of the oldest call given up since the last answer; infinite for none.
        probing: whether a probe was sent and has no result yet.
        ejected: whether the replica gets no ordinary calls for now.
        outlier: whether it was ejected for errors that the others did not make.
        paused_until: moment up to which the replica has asked for no calls.
        silent: whether it was ejected because nothing came from it: a probe must be answered before a call
            is its trial.
        trial: whether the call just picked is the trial of an ejected replica.
        record: outcome statistics of the replica.
        trouble: reason why its last call failed or why it is ejected; None after an answer.
    """

    __slots__ = (
        "backoff",
        "ejected",
        "ejected_until",
        "latency",
        "misses",
        "other_inflight",
        "outlier",
        "paused_until",
        "probing",
        "record",
        "removed",
        "replica",
        "silent",
        "ticket",
        "trial",
        "trouble",
        "unresponsive_since",
        "updated_at",
        "waiting",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.waiting: dict[int, float] = {}
        self.latency = 0.0
        self.updated_at = -inf
        self.other_inflight = 0
        self.misses = 0
        self.ticket = 0
        self.unresponsive_since = inf
        self.probing = False
        self.ejected = False
        self.outlier = False
        self.record = FailureRecord()
        self.trouble: str | None = None
        self.silent = False
        self.trial = False
        self.removed = False
        self.ejected_until = -inf
        self.paused_until = -inf
        self.backoff = 0.0

    def take(self, now: float) -> int:
        """Record a call sent to the replica; returns the ticket that must be given at its end."""
        self.ticket = ticket = self.ticket + 1
        self.waiting[ticket] = now
        return ticket
