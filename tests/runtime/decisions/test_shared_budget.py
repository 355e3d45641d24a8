"""Gateways that share a budget: spend within one bound, whatever is lost, late, cut off or restarted."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest

from kwiken.model.plan.accounts import CALL, FLOOR_BURST, REQUEST, Account, LedgerBounds
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.runtime.decisions.ledger.budget_ledger import Ledger, RequestBudget
from kwiken.runtime.decisions.ledger.shared_budget import (
    LEASE_S,
    BudgetAnswer,
    BudgetAsk,
    Loan,
    SharedBudget,
)

BUDGET = 0.02
HORIZON_S = 120.0  # short, so that a run passes several
TERMS = LedgerTerms(horizon_s=HORIZON_S)
COST = REQUEST // 4  # of a copy
WHOLE = TERMS.service_bounds(BUDGET, least_burst=COST)
NONE = TERMS.service_bounds(0.0)
START_S = 5e5  # as after days of uptime
WANTS = 0.1  # share of the requests that want a copy


@dataclass
class Network:
    """Messages between gateways that are lost, late, doubled, and stopped by a partition."""

    rng: random.Random
    loss: float = 0.0
    late_s: float = 0.0
    apart: Callable[[str, str], bool] = lambda one, other: False

    def trips(self, one: str, other: str) -> Iterable[float]:
        """Delay of each arrival of a message, seconds; none if it is lost."""
        if self.apart(one, other):
            return
        for _ in range(1 + (self.rng.random() < 0.05)):
            if self.rng.random() >= self.loss:
                yield self.rng.expovariate(1 / self.late_s) if self.late_s else 0.001


@dataclass
class Service:
    """Gateways with requests, of which some want a copy, and what they spent.

    Attributes:
        static: whether all gateways are started together, so that each knows their number.
        work: moment of each request's end, seconds.
        copies: moment of each copy, and whether the floor alone granted it.
    """

    rng: random.Random
    network: Network
    floor_per_s: float = 3.0
    static: bool = True
    now: float = START_S
    gateways: dict[str, SharedBudget] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    wants: dict[str, float] = field(default_factory=dict)
    work: list[float] = field(default_factory=list)
    copies: list[tuple[float, bool, str]] = field(default_factory=list)
    events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    number: int = 0

    def at(self, when: float, what: Callable[[], object]) -> None:
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what))

    def add(self, name: str, rate: float, *, count: int = 0, first: bool = True) -> SharedBudget:
        """Start a gateway, its rounds and its requests."""
        ledger = Ledger()
        ledger.retune(WHOLE, NONE, NONE, floor_per_s=self.floor_per_s, now=self.now)
        life = SharedBudget(ledger, name, self.now, least=count if self.static else 0, first=first)
        self.ledgers[name], self.gateways[name], self.rates[name] = ledger, life, rate
        self.at(self.now + self.rng.random(), lambda: self.round(name, life))
        if rate:
            self.at(self.now + self.rng.expovariate(rate), lambda: self.request(name, life))
        return life

    def restart(self, name: str) -> None:
        """Kill a gateway and start it again, with the account of its former life."""
        history = self.ledgers[name].service.history()
        self.add(name, self.rates[name], count=len(self.gateways), first=False)
        self.ledgers[name].service.restore(history, self.now, age_s=0.0)
        self.ledgers[name].floor.drain()

    def stop(self, name: str) -> None:
        """End a gateway in order."""
        ask = self.gateways[name].leave(self.now)
        del self.gateways[name]
        for other in self.gateways:
            self.send(name, other, lambda other=other: self.gateways[other].answer(ask, self.now))  # type: ignore[misc]

    def send(self, sender: str, to: str, arrive: Callable[[], object]) -> None:
        for trip in self.network.trips(sender, to):
            self.at(self.now + trip, lambda: arrive() if to in self.gateways else None)

    def round(self, name: str, life: SharedBudget) -> None:
        """Ask all siblings; after a second the round ends, and it is known who answered."""
        if self.gateways.get(name) is not life:
            return
        ask = msgspec.json.decode(msgspec.json.encode(life.ask(self.now)), type=BudgetAsk)
        waiting = {other for other in self.gateways if other != name}
        for other in sorted(waiting):
            self.send(name, other, lambda other=other: self.carry(ask, other, life, waiting))  # type: ignore[misc]

        def end() -> None:
            if not waiting.intersection(self.gateways):
                life.complete(self.now)
            self.round(name, life)

        self.at(self.now + 1.0, end)

    def carry(self, ask: BudgetAsk, other: str, asker: SharedBudget, waiting: set[str]) -> None:
        """Bring a question to a sibling, and the answer back."""
        answer = self.gateways[other].answer(ask, self.now)
        answer = msgspec.json.decode(msgspec.json.encode(answer), type=BudgetAnswer)

        def arrive() -> None:
            if self.gateways.get(ask.sender) is asker:
                asker.accept(answer, self.now)
                waiting.discard(other)

        self.send(other, ask.sender, arrive)

    def request(self, name: str, life: SharedBudget) -> None:
        """End a request, which may have wanted a copy."""
        if self.gateways.get(name) is not life:
            return
        ledger = self.ledgers[name]
        if self.rng.random() < self.wants.get(name, WANTS):
            before = ledger.service.floor_spent
            if ledger.charge(RequestBudget(REQUEST), rich_stage(self.now), COST, self.now):
                self.copies.append((self.now, ledger.service.floor_spent > before, name))
        ledger.service.earn(REQUEST, self.now)
        self.work.append(self.now)
        self.at(self.now + self.rng.expovariate(self.rates[name]), lambda: self.request(name, life))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.events and self.events[0][0] <= end:
            self.now, _, what = heapq.heappop(self.events)
            what()
        self.now = end

    def spent(self, *names: str, since: float = 0.0) -> int:
        """Copies of all gateways, or of some."""
        return sum(at >= since and (name in names or not names) for at, _, name in self.copies)

    def check(self) -> None:
        """The bounds that a single gateway keeps, for all of them together, at every moment."""
        work = np.array(self.work)
        earned = np.array([at for at, by_floor, _ in self.copies if not by_floor])
        inside = np.arange(1, len(earned) + 1) - np.searchsorted(earned, earned - HORIZON_S, side="right")
        worked = np.searchsorted(work, earned) - np.searchsorted(work, earned - HORIZON_S, side="right")
        assert (inside * COST <= BUDGET * worked * REQUEST + WHOLE.burst).all()
        below = np.array([at for at, by_floor, _ in self.copies if by_floor])
        # Of any stretch: copies less the floor of that time.
        ahead = np.arange(len(below)) - self.floor_per_s * below
        behind = np.minimum.accumulate(ahead) if len(below) else ahead
        assert (ahead - behind + 1 <= max(FLOOR_BURST, len(self.gateways)) + 1e-6).all()


def rich_stage(now: float) -> Account:
    """Account of a stage that denies nothing."""
    account = Account(LedgerBounds(fraction=1.0, burst=1000 * CALL, peak=1.0))
    account.earn(10**9, now)
    return account


def service_of(count: int, *, rate: float = 40.0, loss: float = 0.0, late_s: float = 0.0) -> Service:
    """Gateways that are started together and have the same share of the requests."""
    rng = random.Random(count)
    service = Service(rng, Network(rng, loss, late_s))
    for number in range(count):
        service.add(f"gateway-{number}", rate / count, count=count)
    return service


@pytest.mark.parametrize(("count", "loss"), [(1, 0.0), (3, 0.0), (3, 0.4), (10, 0.0), (10, 0.4)])
def test_any_number_of_gateways_spends_as_one(count: int, loss: float) -> None:
    service = service_of(count, loss=loss, late_s=0.3)
    service.run(200.0)
    service.check()
    budget = BUDGET * len(service.work) * REQUEST / COST
    assert 0.7 * budget < service.spent() < 1.2 * budget, "copies that are wanted are not denied for nothing"


@pytest.mark.parametrize(("count", "run_s"), [(3, 300.0), (100, 20.0)])
def test_without_messages_each_keeps_its_part(count: int, run_s: float) -> None:
    service = service_of(count, loss=1.0)
    service.run(run_s)
    service.check()
    assert {life.part for life in service.gateways.values()} == {1 / count}


@pytest.mark.slow
def test_more_gateways_than_64_spend_as_one() -> None:
    service = service_of(70, late_s=0.3)
    service.run(3.0)
    service.check()
    assert 0 < service.spent() <= 1.2 * BUDGET * len(service.work) * REQUEST / COST


@pytest.mark.parametrize("seed", range(4))
def test_a_partition_and_its_end_keep_the_bounds(seed: int) -> None:
    service = service_of(3, rate=6.0, loss=0.2, late_s=0.3)  # so few that the floor pays most copies
    service.rng.seed(seed)
    cut = {"gateway-0"}
    service.network.apart = lambda one, other: (one in cut) != (other in cut)
    service.rates |= {"gateway-0": 20.0}
    service.run(100.0)
    cut.clear()
    service.run(100.0)
    cut.add("gateway-2")
    service.run(100.0)
    service.check()
    assert all(service.spent(name) > 0 for name in service.gateways)


@pytest.mark.parametrize("seed", range(4))
def test_restarts_buy_nothing(seed: int) -> None:
    service = service_of(3, loss=0.2, late_s=0.3)
    service.rng.seed(seed)
    for _ in range(20):
        service.run(service.rng.uniform(0.5, 20.0))
        service.restart(service.rng.choice(sorted(service.gateways)))
    service.check()


def test_a_gateway_with_all_the_load_gets_what_the_others_leave() -> None:
    spent = {}
    for count in (1, 5):
        service = service_of(count, rate=0.0)
        service.rates["gateway-0"] = 20.0
        life = service.gateways["gateway-0"]
        service.at(service.now, lambda life=life, service=service: service.request("gateway-0", life))  # type: ignore[misc]
        service.run(300.0)
        service.check()
        spent[count] = service.spent(since=START_S + 60)
    assert spent[5] >= 0.85 * spent[1]


def test_earnings_go_where_requests_are_slow() -> None:
    """Half of the requests come to a gateway whose requests are never slow: the other gets its earnings."""
    service = service_of(2, rate=60.0)
    service.floor_per_s = 0.0
    for ledger in service.ledgers.values():
        ledger.retune(WHOLE, NONE, NONE, floor_per_s=0.0, now=service.now)
    service.wants = {"gateway-0": 0.3, "gateway-1": 0.0}
    service.run(300.0)
    service.check()
    alone = BUDGET * REQUEST / COST * len(service.work) / 2
    assert service.spent("gateway-0") > 1.5 * alone
    assert service.spent("gateway-1") == 0


@pytest.mark.parametrize("seed", range(6))
def test_gateways_that_come_and_go_keep_the_bounds(seed: int) -> None:
    rng = random.Random(seed)
    service = Service(rng, Network(rng, 0.1, 0.1), static=False)
    for number in range(10):
        service.add(f"pod-{number}", 6.0, first=number == 0)
        service.run(rng.uniform(1.0, 40.0))
        if number > 2 and rng.random() < 0.6:
            service.stop(rng.choice(sorted(service.gateways)))
    service.run(60.0)
    service.check()
    assert 0.6 < sum(life.part for life in service.gateways.values()) <= 1.0 + 1e-9


def test_a_new_gateway_has_no_part_before_each_sibling_counts_it() -> None:
    rng = random.Random(1)
    service = Service(rng, Network(rng), static=False)
    for name in ("old-0", "old-1"):
        service.add(name, 5.0)
    service.run(5.0)
    assert [life.part for life in service.gateways.values()] == [0.5, 0.5]
    service.network.apart = lambda one, other: {one, other} == {"old-1", "new"}
    new = service.add("new", 5.0)
    service.run(30.0)
    assert new.part == 0.0, "old-1 does not know of it, and has a half"
    service.network.apart = lambda one, other: False
    service.run(10.0)
    assert [life.part for life in service.gateways.values()] == [1 / 3] * 3
    service.stop("old-0")
    service.run(5.0)
    assert [life.part for life in service.gateways.values()] == [0.5] * 2


def test_an_answer_that_comes_after_its_lease_lends_nothing() -> None:
    service = service_of(2, rate=0.0)
    asker, lender = service.gateways.values()
    ask, now = asker.ask(service.now), service.now
    answer = lender.answer(msgspec.structs.replace(ask, wants={"gateway-1": Loan(1.0)}), now)
    assert answer.loan.per_s == 1.0
    part = service.ledgers["gateway-0"].floor_part
    asker.accept(answer, now + LEASE_S)
    assert service.ledgers["gateway-0"].floor_part == part
    asker.accept(msgspec.structs.replace(answer, at_s=now), now + LEASE_S - 1)
    assert service.ledgers["gateway-0"].floor_part == pytest.approx(part + 1 / 3)
    asker.ask(now + LEASE_S)
    assert service.ledgers["gateway-0"].floor_part == part
    lender.ask(now + LEASE_S)
    assert service.ledgers["gateway-1"].floor_part == pytest.approx(part - 1 / 3), "ends later for the lender"


@pytest.mark.parametrize(
    "loan", [b'{"per_s":-1}', b'{"credits":[0,-1,0]}', b'{"per_s":1e999}', b'{"more":1}']
)
def test_amounts_out_of_range_are_refused(loan: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(loan, type=Loan)
