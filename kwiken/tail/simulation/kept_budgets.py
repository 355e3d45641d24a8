"""Simulation of requests with the ledger in force: what the budgets do not pay for is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.accounts import BY_FLOOR, REQUEST, WITHIN, Account, Floor, grant
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Plan
from kwiken.model.plan.windows import PEAK_BUCKETS, PEAK_WINDOW_S
from kwiken.tail.simulation.trace_driven import Simulation

Again = Callable[[Plan], Simulation]


# The accounts are the runtime's own (`kwiken.model.plan.accounts`). Copies are decided one by one; the work
# between two of them is added at once for each bucket of time.
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


@dataclass(frozen=True)
class KeptBudgets:
    """Result of a simulation with the ledger in force.

    Attributes:
        simulation: result with what the ledger paid for.
        wanted: (n,) cost of the copies that each request asked for, in the unit of `Simulation.spent`.
    """

    simulation: Simulation
    wanted: Floats


def kept_to(
    simulation: Simulation, started_s: Floats, plan: Plan, ledger: LedgerTerms, again: Again
) -> KeptBudgets:
    """Result for the same requests when ledgers refuse what the budgets do not pay for.

    Each round of the replay, which runs through all requests once, has ledgers of its own. A request whose
    copies, or whose catch-up, the ledger refuses has the result of a plan without them; its stop rules stay.
    The spend of each stage, and the expectation over coins, are reduced by the same share, since a refusal
    does not depend on the stage.

    Args:
        simulation: result without any ledger.
        started_s: (n,) start times of the profile's requests, seconds, ascending.
        again: function that replays the same requests under another plan.
    """
    copies = _paid(simulation.spent, started_s, plan.budgets.reissue, ledger)
    help_ = _paid(simulation.late_spent, started_s, plan.budgets.catch_up, ledger)
    if copies.all() and help_.all():
        return KeptBudgets(simulation, simulation.spent)
    found = {name: getattr(simulation, name).copy() for name in ("after_ms", "spent", "lost", "late_spent")}
    for with_copies, with_help in ((False, True), (True, False), (False, False)):
        those = (copies == with_copies) & (help_ == with_help)
        if those.any():
            arm = again(_without(plan, copies=not with_copies, help_=not with_help))
            for name, values in found.items():
                values[those] = getattr(arm, name)[those]
    share, late_share, lost_share = (
        float(found[name].sum() / getattr(simulation, name).sum()) if getattr(simulation, name).any() else 1.0
        for name in ("spent", "late_spent", "lost")
    )
    kept = replace(
        simulation,
        **found,
        expected_spent=share * simulation.expected_spent,
        stage_spent={name: share * value for name, value in simulation.stage_spent.items()},
        stage_fraction={name: share * value for name, value in simulation.stage_fraction.items()},
        stage_loss={name: lost_share * value for name, value in simulation.stage_loss.items()},
        stage_late={name: late_share * value for name, value in simulation.stage_late.items()},
        refused=1.0 - share,
        late_refused=1.0 - late_share,
    )
    return KeptBudgets(kept, simulation.spent)


def _paid(spent: Floats, started_s: Floats, budget: float, terms: LedgerTerms) -> Bools:
    """(n,): whether the ledger pays for the spend of each request; every round has a ledger of its own.

    Rounds with the same spends have the same answers, so each is replayed once: without coins, or without
    spends, all rounds are the same.
    """
    granted: dict[bytes, Bools] = {}
    kept = []
    for one in np.ascontiguousarray(spent.reshape(len(started_s), -1).T):
        key = one.tobytes()
        if key not in granted:
            granted[key] = replay_ledger(one, started_s, budget=budget, terms=terms).granted
        kept.append(granted[key])
    return np.stack(kept, axis=1).ravel()


def _without(plan: Plan, *, copies: bool, help_: bool) -> Plan:
    """The plan less its reissues, or less its help for late requests, or less both."""
    stages = {
        name: msgspec.structs.replace(
            stage,
            reissue=None if copies else stage.reissue,
            catch_up=None if help_ else stage.catch_up,
        )
        for name, stage in plan.stages.items()
    }
    return msgspec.structs.replace(plan, stages=stages)
