"""Files of batch jobs in a folder of state: orders, claims, results, the journal, and the queue as shown."""

from __future__ import annotations

from kwiken.runtime.cluster.state.jobs.documents import (
    HORIZONS_S as HORIZONS_S,
    EventKind as EventKind,
    JobClaim as JobClaim,
    JobEvent as JobEvent,
    JobOrder as JobOrder,
    QueueLine as QueueLine,
    QueueView as QueueView,
    RunningJob as RunningJob,
    WaitingView as WaitingView,
    exit_words as exit_words,
)
from kwiken.runtime.cluster.state.jobs.folder import JobFolder as JobFolder
from kwiken.runtime.cluster.state.jobs.journal import JobJournal as JobJournal, read_events as read_events
