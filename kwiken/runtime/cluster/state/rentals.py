"""Journal of rented nodes: owner, start and cost of each; kept when the owner is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import READABLE, own_folder, read_own, replace_own
from kwiken.runtime.base.process_id import Identity

JOURNAL: Final = "rentals.ledger"  # in the folder of the state
JOURNAL_VERSION: Final = 1
MAX_JOURNAL: Final = 64 << 20  # bytes


class RentalEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rental.

    Attributes:
        price_per_hour: cost of the node in an hour.
        ordered_at: moment of the order, seconds since 1970.
        returned_at: moment of the return, seconds since 1970; None while the node is held.
        state: booting, ready or returned.
        up_s: time that is billed so far, seconds.
        cost: cost so far.
        reason: why it was rented.
        ended: why it was given back.
    """

    node: str
    node_class: str
    offer: str
    terms: str
    price_per_hour: float
    ordered_at: float
    returned_at: float | None
    state: str
    up_s: float
    cost: float
    reason: str
    ended: str = ""


class RentalRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of the journal.

    Attributes:
        owner: process that rents; what it has rented ends with it.
        seen_at: moment of the last sign of life, seconds since 1970.
        cost: cost of all rentals so far.
        closed: whether the owner gave everything back.
    """

    version: int
    owner: Identity
    currency: str
    seen_at: float
    cost: float
    closed: bool
    rentals: list[RentalEntry]

    @property
    def orphaned(self) -> bool:
        """Whether the owner has ended without giving back what it rented."""
        return not self.closed and not self.owner.alive

    def settled(self) -> RentalRecord:
        """The record with every rental ended at the owner's last sign of life."""
        rentals = [
            one
            if one.returned_at is not None
            else msgspec.structs.replace(
                one, returned_at=self.seen_at, state="returned", ended="its owner was killed"
            )
            for one in self.rentals
        ]
        return msgspec.structs.replace(self, closed=True, rentals=rentals)


def read_journal(folder: Path) -> RentalRecord | None:
    """Read the journal in a folder of state; None if there is none.

    Raises:
        InputError: the file is no journal; names the file.
    """
    path = folder / JOURNAL
    try:
        record = msgspec.json.decode(read_own(path, MAX_JOURNAL, of_others=True), type=RentalRecord)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"is no journal of rented nodes: {error}", where=str(path)) from error
    if record.version != JOURNAL_VERSION:
        raise InputError(f"version: must be {JOURNAL_VERSION}, not {record.version}", where=str(path))
    return record


def settle_orphans(folder: Path) -> list[str]:
    """End the rentals whose owner was killed; returns the names of their nodes.

    A node that this machine emulates ends with the process that rents it: the kernel ends its processes. What
    is left is the entry, which is closed at the owner's last sign of life.

    Raises:
        InputError: the file is no journal, or belongs to somebody else.
    """
    record = read_journal(folder)
    if record is None or not record.orphaned:
        return []
    write_journal(folder, record.settled())
    return [one.node for one in record.rentals if one.returned_at is None]


def write_journal(folder: Path, record: RentalRecord) -> None:
    """Replace the journal in a folder of state, which is made if it is missing.

    Raises:
        InputError: the folder belongs to somebody else.
        OSError: the file cannot be written.
    """
    own_folder(folder)
    replace_own(folder / JOURNAL, msgspec.json.format(msgspec.json.encode(record), indent=1), READABLE)
