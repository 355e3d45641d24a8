"""Outlier detection on errors: which replica of a stage fails calls that the others answer. Pure.

A replica that fails at once has no queue and would win every choice. Two measures hold against that, and both
compare replicas with each other, so a handler's bug that all of them share changes nothing. A decaying share
of failed calls makes a replica look worse than the others by a factor. A run of failures so long that the
others' failures in the same time make it unlikely by chance names an outlier (Envoy counts consecutive 5xx
instead, whatever the other hosts do).
"""

from __future__ import annotations

from math import exp2, inf, lgamma, log

GAIN = 0.1  # weight of one outcome in a share
LEAST = 1e-3  # smaller shares count as none
PENALTY = 20.0  # factor less 1 for a replica that always fails among some that never do
HALF_LIFE_S = 5.0  # without another failure the penalty fades this fast, so that every replica is tried again
WITNESSES = 3  # answers of other replicas that a run must have seen: else all may be failing
LEAST_RUN = 5
CHANCE = log(1e-5)  # of a run by chance, below which it counts as evidence


def log_chance(run: int, *, errors: int, answers: int) -> float:
    """Logarithm of the chance of a run of errors for a replica that is like the others.

    With every share of errors as likely beforehand, what the others did leaves a beta distribution of it;
    this is the mean of its power `run`. So a share known from few outcomes counts for little.

    Args:
        run: number of errors in a row.
        errors: number of errors of the others meanwhile.
        answers: number of answers of the others meanwhile.
    """
    before, total = errors + 1, errors + answers + 2
    return lgamma(before + run) - lgamma(before) + lgamma(total) - lgamma(total + run)


class Record:
    """Outcomes of one replica's calls, as far as they matter.

    Attributes:
        share: decaying share of the calls that failed.
        failed_at: moment of the last failure, seconds.
        run: failures since the last answer.
    """

    __slots__ = ("answers_before", "counted", "errors_before", "failed_at", "run", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self.failed_at = -inf
        self.run = 0
        self.answers_before = 0  # the stage's, when the run began
        self.errors_before = 0
        self.counted = False


class Outliers:
    """Failures of one stage's replicas; only those that take calls are compared."""

    __slots__ = ("_answers", "_count", "_errors", "_sum")

    def __init__(self) -> None:
        self._answers = 0
        self._errors = 0
        self._sum = 0.0  # of the shares of those that take calls
        self._count = 0

    def join(self, record: Record) -> None:
        """A replica takes calls from now on."""
        if not record.counted:
            record.counted = True
            self._sum += record.share
            self._count += 1

    def leave(self, record: Record) -> None:
        """A replica takes no calls for now."""
        if record.counted:
            record.counted = False
            self._count -= 1
            self._sum = self._sum - record.share if self._count else 0.0

    def answered(self, record: Record) -> None:
        """A call was answered as it should be."""
        self._answers += 1
        if record.share:
            record.run = 0
            share = (1.0 - GAIN) * record.share
            self._note(record, share if share > LEAST else 0.0)

    def failed(self, record: Record, now: float) -> bool:
        """A call failed by an error that may be the replica's own; whether that makes it an outlier."""
        if not record.run:
            record.answers_before = self._answers
            record.errors_before = self._errors
        self._errors += 1
        record.run += 1
        record.failed_at = now
        self._note(record, record.share + GAIN * (1.0 - record.share))
        answers = self._answers - record.answers_before  # all by others: an own one ends the run
        errors = self._errors - record.errors_before - record.run
        if record.run < LEAST_RUN or answers < WITNESSES:
            return False
        return log_chance(record.run, errors=errors, answers=answers) < CHANCE

    def penalty(self, record: Record, now: float) -> float:
        """Factor, 1 or more, by which a replica looks worse for failing more than the others do."""
        others, total = self._count, self._sum
        if record.counted:
            others -= 1
            total -= record.share
        if others <= 0:
            return 1.0
        excess = record.share - total / others
        if excess <= 0.0:
            return 1.0
        excess *= exp2((record.failed_at - now) / HALF_LIFE_S)
        return 1.0 + PENALTY * excess * excess

    def _note(self, record: Record, share: float) -> None:
        if record.counted:
            self._sum += share - record.share
        record.share = share
