"""Replay of the budget ledger over requests in order of time: granted copies, and reasons of denials.

The accounts are the runtime's own (`kwiken.model.plan.accounts`). Copies are decided one by one; the work
between two of them is added at once for each bucket of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import BY_FLOOR, REQUEST, WITHIN, Account, Floor, grant
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.windows import PEAK_BUCKETS, PEAK_WINDOW_S


@dataclass(frozen=True)
class LedgerReplay:
    """Decisions of the ledger on the copies of requests.

    Attributes:
        verdicts: (n,) verdict on each request's copies, index of `kwiken.model.plan.VERDICTS`; `WITHIN` for
            a request that wants none.
        account: account of the service at the end, with what was spent, denied and granted by the floor.
    """

    verdicts: NDArray[np.int8]
    account: Account

    @property
    def granted(self) -> Bools:
        """(n,): whether the request gets its copies; true for one that wants none."""
        return np.asarray(self.verdicts <= BY_FLOOR)


def replay_ledger(
    wanted: Floats,
    started_s: Floats,
    *,
    budget: float,
    terms: LedgerTerms,
    spare: Floats | None = None,
) -> LedgerReplay:
    """Replay the service's account over requests in the order of time.

    A request is granted all of its copies or none, and counts as one copy for the floor. It earns when it
    starts. The runtime's ledger credits it when it ends, which is a small difference compared with 10 s.

    Args:
        wanted: (n,) cost of each request's copies, as a share of an average request's cost; 0 for no copies.
        started_s: (n,) start times, seconds, ascending.
        budget: share of all work that may be spent, 0 or more.
        spare: (n,) spare capacity of the load, as a share of the work; None for no limit.

    Raises:
        InputError: for arrays of different lengths, or times that are not ascending.
    """
    requests = len(wanted)
    if any(len(given) != requests for given in (started_s, wanted if spare is None else spare)):
        raise InputError("wanted, started_s and spare must have one entry for each request")
    if not (np.diff(started_s) >= 0).all():
        raise InputError("must be ascending", where="started_s")
    account, floor = Account(terms.service_bounds(budget)), Floor(terms.floor_per_s)
    verdicts = np.full(requests, WITHIN, dtype=np.int8)
    costs = np.rint(wanted * REQUEST).astype(np.int64)
    buckets = np.floor(started_s * (PEAK_BUCKETS / PEAK_WINDOW_S))
    # A step ends with a request that wants copies, or with the last request of a bucket of time.
    ends = np.flatnonzero((costs > 0) | (np.diff(buckets, append=np.inf) > 0))
    steps = zip(
        ends.tolist(),
        np.diff(ends, prepend=-1).tolist(),
        started_s[ends].tolist(),
        costs[ends].tolist(),
        (np.full(len(ends), np.inf) if spare is None else spare[ends]).tolist(),
        strict=True,
    )
    for request, count, now, cost, room in steps:
        account.earn(count * REQUEST, now)
        if cost:
            verdicts[request] = grant(account, cost, now, floor=floor, spare=room)
    return LedgerReplay(verdicts, account)
