"""Writer of the journal of rented nodes, from what a renter holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from kwiken.allocator.provisioning.offers import Terms
from kwiken.allocator.provisioning.renting import NodeRenter, Rental
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.rentals import JOURNAL_VERSION, RentalEntry, RentalRecord, write_journal


class RentalJournal:
    """Journal of this process.

    Args:
        now_s: moment of the start on the renter's clock, seconds.
        clock: seconds since 1970.
    """

    def __init__(
        self, folder: Path, currency: str, now_s: float, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._currency = currency
        self._offset_s = clock() - now_s
        owner = Identity.of(os.getpid())
        assert owner is not None
        self._owner = owner

    def write(self, renter: NodeRenter, now_s: float, *, closed: bool = False) -> None:
        """Replace the journal by the present rentals.

        Args:
            now_s: moment on the renter's clock, seconds.
            closed: whether everything is given back.
        """
        record = RentalRecord(
            version=JOURNAL_VERSION,
            owner=self._owner,
            currency=self._currency,
            seen_at=self._offset_s + now_s,
            cost=renter.cost(now_s),
            closed=closed,
            rentals=[self._entry(one, now_s, closed=closed) for one in renter.rentals],
        )
        write_journal(self._folder, record)

    def _entry(self, one: Rental, now_s: float, *, closed: bool) -> RentalEntry:
        ended_s = one.returned_s if one.returned_s is not None else now_s if closed else None
        reserved = one.offer.terms is Terms.RESERVED
        return RentalEntry(
            node=one.node,
            node_class=one.offer.node_class,
            offer=one.offer.name,
            terms=one.offer.terms.value,
            price_per_hour=one.offer.price_per_hour,
            ordered_at=self._offset_s + one.ordered_s,
            returned_at=None if ended_s is None else self._offset_s + ended_s,
            state=one.state.value,
            up_s=one.up_s(now_s),
            cost=one.cost(now_s),
            reason=one.reason,
            ended=one.ended or ("its term goes on" if closed and reserved else ""),
        )

    def close(self, renter: NodeRenter, now_s: float) -> None:
        """Write that everything is given back."""
        self.write(renter, now_s, closed=True)
