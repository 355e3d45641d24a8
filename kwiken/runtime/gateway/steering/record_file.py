"""File of an autopilot's record: read at the start, replaced after every decision."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import READABLE, own_folder, read_own, replace_own
from kwiken.runtime.base.log_events import Event, about
from kwiken.tail.autopilot.record import MAX_RECORD, AutopilotRecord

LOG = logging.getLogger("kwiken.autopilot")
UNREADABLE: Final = ".unreadable"  # suffix of a record that is set aside


class RecordFile:
    """File that keeps the record of one service's autopilot.

    Attributes:
        trouble: why the last record is not in the file; None if it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None

    def read(self, service: str, budget: float) -> AutopilotRecord:
        """Record to go on from: that of the file, or a new one.

        A file that is no record is set aside and told of. With another budget than before, plans that are
        beyond it are no longer in force.

        Args:
            budget: reissue budget of every plan, a share above 0 and at most 1.
        """
        fresh = AutopilotRecord(service=service, budget=budget)
        try:
            found = AutopilotRecord.from_json(read_own(self.path, MAX_RECORD), where=str(self.path))
        except FileNotFoundError:
            return fresh
        except (InputError, OSError) as error:
            LOG.warning("%s; the loop begins anew", error, extra=about(Event.AUTOPILOT_RECORD_UNREADABLE))
            with contextlib.suppress(OSError):
                self.path.replace(self.path.with_name(self.path.name + UNREADABLE))
            return fresh
        if found.service != service:
            LOG.warning(
                "%s: is of service %r, so the loop begins anew",
                self.path,
                found.service,
                extra=about(Event.AUTOPILOT_RECORD_UNREADABLE),
            )
            return fresh
        return _within(found, budget)

    def save(self, record: AutopilotRecord) -> bool:
        """Replace the file; returns whether that was possible, and notes why not."""
        try:
            own_folder(self.path.parent)
            replace_own(self.path, record.to_json().encode(), READABLE)
        except (OSError, InputError) as error:
            self.trouble = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            return False
        self.trouble = None
        return True


def _within(record: AutopilotRecord, budget: float) -> AutopilotRecord:
    """The record with a budget, less the plans that are beyond it."""
    if budget == record.budget:
        return record
    if record.phase != "held" and record.in_force is not None and record.in_force.budgets.reissue > budget:
        record = msgspec.structs.replace(record, in_force=None)
    if record.trial is not None:
        record = msgspec.structs.replace(record, trial=None, trial_share=0.0, phase="watching")
    return msgspec.structs.replace(record, budget=budget)
