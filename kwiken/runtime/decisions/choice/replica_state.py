"""State of one replica as its callers see it: calls without an answer, latency, ejection."""

from __future__ import annotations

from math import inf

from kwiken.runtime.decisions.choice.outliers import FailureRecord
from kwiken.runtime.wire.transport import Replica


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
