"""The autopilot's decisions: trials that end well or badly, guards, resumption, and a fuzzed run of everything."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwiken.base.errors import InputError
from kwiken.tail.autopilot.autopilot import (
    FIRST_SHARE,
    MAX_LIMIT,
    MIN_LIMIT,
    PERSON,
    TRIAL_SHARE,
    Autopilot,
    Decision,
)
from kwiken.tail.autopilot.comparison import look_points, requests_to_take_back
from kwiken.tail.autopilot.record import MAX_ENTRIES, AutopilotRecord, LoggedDecision
from tests.support.models.autopilots import SERVICE, CountingGateway, plan_named, proposal_of

STEP = 200  # requests between two observations


def fresh(budget: float = 0.05) -> Autopilot:
    return Autopilot(AutopilotRecord(service=SERVICE, budget=budget))


def step(
    pilot: Autopilot, gateway: CountingGateway, proposed: str | None = None, gain: float = 0.5
) -> Decision:
    gateway.serve(STEP)
    decision = pilot.observe(gateway.seen())
    if decision.wants_proposal and proposed is not None:
        decision = pilot.consider(proposal_of(plan_named(proposed), gain=gain), gateway.seen())
    gateway.follow(pilot)
    return decision


def until_decided(pilot: Autopilot, gateway: CountingGateway, proposed: str) -> list[Decision]:
    """Decisions of one trial, from `apply` to its end."""
    found: list[Decision] = []
    for _ in range(5000):
        decision = step(pilot, gateway, proposed)
        if decision.action != "wait":
            found.append(decision)
        if decision.action in {"roll_back", "keep"}:
            return found
    raise AssertionError("the trial did not end")


@pytest.mark.parametrize("seed", range(5))
def test_a_good_plan_is_tried_widened_and_kept(seed: int) -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004}, seed=seed)
    found = until_decided(pilot, gateway, "good")
    assert [each.action for each in found] == ["apply", "widen", "keep"]
    assert pilot.record.in_force == plan_named("good")
    assert gateway.plan == plan_named("good")
    assert gateway.trial is None
    assert "better by more than chance" in found[-1].reason


@pytest.mark.parametrize("seed", range(5))
def test_a_harmful_plan_is_taken_back_before_half_of_the_requests_get_it(seed: int) -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.01, "bad": 0.5}, seed=seed)
    found = until_decided(pilot, gateway, "bad")
    assert found[-1].action == "roll_back"
    assert gateway.plan is None
    tried = gateway.requests - STEP
    assert tried <= 3000


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_with_twice_the_slow_requests_goes_within_the_stated_number(seed: int) -> None:
    """The stated number holds with a chance of 80%; the trial's limit holds always."""
    pilot, gateway = fresh(), CountingGateway({"": 0.01, "bad": 0.02}, seed=seed)
    until_decided(pilot, gateway, "bad")
    record = pilot.record
    assert record.in_force is None
    assert record.useless == 1
    assert record.since_change <= record.limit + STEP
    assert requests_to_take_back(share=TRIAL_SHARE) < MIN_LIMIT


def test_a_plan_that_changes_nothing_is_taken_back_at_its_limit_and_then_trials_are_rarer() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.02, "same": 0.02}, seed=4)
    found = until_decided(pilot, gateway, "same")
    limit = pilot.record.limit
    assert found[-1].action == "roll_back"
    assert "did not show" in found[-1].reason
    waited = 0
    while step(pilot, gateway, "same").action == "wait":
        waited += STEP
    assert waited + limit >= 2 * pilot.record.limit - 2 * STEP


def test_a_plan_in_force_that_turns_harmful_is_withdrawn() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004}, seed=2)
    until_decided(pilot, gateway, "good")
    gateway.slow = {"": 0.004, "good": 0.3}
    actions = []
    for _ in range(2000):
        decision = step(pilot, gateway)
        actions.append(decision.action)
        if decision.action == "roll_back":
            break
    assert actions[-1] == "roll_back"
    assert pilot.record.in_force is None
    assert "worse than none" in pilot.record.entries[-1].reason


def test_no_plan_without_a_sure_gain_is_tried() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.02}, seed=1)
    decision = step(pilot, gateway, "idle", gain=0.05)
    assert decision.action == "keep"
    assert pilot.record.changes == 0
    for _ in range(50):  # told again and again, it stands in the history once
        step(pilot, gateway, "idle", gain=0.05)
    assert [entry.action for entry in pilot.record.entries] == ["keep"]


@pytest.mark.parametrize(("slow", "tried"), [(0.004, False), (0.03, True)])
def test_a_promise_over_the_sample_alone_is_not_enough(slow: float, *, tried: bool) -> None:
    """With 0.4% slow requests all requests show a p99 of some 10 ms, whatever the sample made of it."""
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "first": 0.004, "second": 0.004}, seed=1)
    until_decided(pilot, gateway, "first")
    assert pilot.record.in_force == plan_named("first")
    gateway.slow["first"] = slow
    actions = []
    for _ in range(400):
        decision = step(pilot, gateway, "second")
        if decision.action != "wait":
            actions.append(decision)
    assert any(each.action == "apply" for each in actions) is tried
    if not tried:
        assert "and all requests have" in actions[-1].reason


def test_no_plan_beyond_the_budget_is_tried() -> None:
    pilot, gateway = fresh(budget=0.02), CountingGateway({"": 0.02}, seed=1)
    gateway.serve(STEP)
    assert pilot.observe(gateway.seen()).wants_proposal
    decision = pilot.consider(proposal_of(plan_named("dear", budget=0.05)), gateway.seen())
    assert decision.action == "keep"
    assert pilot.record.trial is None
    assert "5.00%" in decision.reason


def test_a_proposal_that_comes_during_a_trial_or_after_a_person_acted_changes_nothing() -> None:
    late = proposal_of(plan_named("late"), gain=0.9)
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004, "own": 0.01}, seed=3)
    assert step(pilot, gateway, "good").action == "apply"
    before = pilot.record
    assert pilot.consider(late, gateway.seen()).action == "wait"
    assert pilot.record == before
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "own": 0.01}, seed=3)
    gateway.serve(STEP)
    assert pilot.observe(gateway.seen()).wants_proposal
    gateway.person_applies(plan_named("own"))  # while the plan was made
    assert pilot.consider(late, gateway.seen()).action == "wait"
    assert (pilot.record.phase, pilot.record.trial) == ("watching", None)


def test_a_person_stops_the_loop_until_told_to_go_on() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004, "own": 0.01}, seed=3)
    assert step(pilot, gateway, "good").action == "apply"
    gateway.person_applies(plan_named("own"))
    for _ in range(100):
        decision = step(pilot, gateway, "good")
        assert decision.action == "wait"
        assert "--resume" in decision.reason
        assert gateway.plan == plan_named("own")
    gateway.author = "autopilot"  # `kwiken autopilot --resume`
    step(pilot, gateway)
    assert pilot.record.phase == "watching"
    assert pilot.record.in_force == plan_named("own")


def test_a_resumed_loop_drops_a_persons_plan_beyond_its_budget() -> None:
    pilot, gateway = fresh(budget=0.02), CountingGateway({"": 0.03, "dear": 0.004}, seed=3)
    gateway.person_applies(plan_named("dear"))
    step(pilot, gateway)
    gateway.author = "autopilot"
    step(pilot, gateway)
    assert pilot.record.in_force is None
    assert gateway.plan is None


def test_without_gateways_nothing_is_decided() -> None:
    pilot = fresh()
    assert pilot.observe(None).action == "wait"
    assert pilot.record.entries == ()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_gateway_that_was_restarted_gets_the_setting_again(*, keeps: bool) -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004}, seed=3)
    until_decided(pilot, gateway, "good")
    gateway.restart(keeps=keeps)
    step(pilot, gateway)
    assert gateway.plan == plan_named("good")


def test_a_record_is_the_same_after_json() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03, "good": 0.004}, seed=6)
    step(pilot, gateway, "good")
    assert AutopilotRecord.from_json(pilot.record.to_json(), where="record") == pilot.record
    resumed = Autopilot(AutopilotRecord.from_json(pilot.record.to_json(), where="record"))
    until_decided(resumed, gateway, "good")
    assert resumed.record.in_force == plan_named("good")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "record"),
        (b"[]", "object"),
        (b'{"service":"a"}', "budget"),
        (b'{"service":"a","budget":0}', "budget"),
        (b'{"service":"a","budget":NaN}', "record"),
        (b'{"service":"a","budget":0.1,"version":2}', "version"),
        (b'{"service":"a","budget":0.1,"phase":"asleep"}', "phase"),
        (b'{"service":"a","budget":0.1,"phase":"trying"}', "trying"),
        (b'{"service":"a","budget":0.1,"limit":-1}', "0 or more"),
        (b'{"service":"a","budget":0.1,"trial_share":2}', "trial_share"),
        (b'{"service":"a","budget":0.1,"other":1}', "other"),
    ],
)
def test_a_bad_record_is_refused(text: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        AutopilotRecord.from_json(text, where="record")


def test_the_history_is_bounded() -> None:
    record = AutopilotRecord(service=SERVICE, budget=0.05)
    for number in range(MAX_ENTRIES + 50):
        record = record.with_entry(
            LoggedDecision(at_s=float(number), action="apply", reason="because", plan=None)
        )
    assert len(record.entries) == MAX_ENTRIES
    assert record.entries[-1].at_s == MAX_ENTRIES + 49


class Fuzzed(RuleBasedStateMachine):
    """Requests, proposals, persons, restarts of either side and silence, in any order."""

    @initialize(seed=st.integers(0, 10**6))
    def begin(self, seed: int) -> None:
        slow = {"": 0.02, "own": 0.01} | {f"p{k}": share for k, share in enumerate((0.001, 0.02, 0.3))}
        self.pilot = fresh()
        self.gateway = CountingGateway(slow, seed=seed)
        self.actions: list[tuple[int, str]] = []
        self.served = 0

    @rule(requests=st.integers(0, 8000), proposed=st.integers(0, 2), gain=st.floats(-0.5, 0.9))
    def look(self, requests: int, proposed: int, gain: float) -> None:
        self.gateway.serve(requests)
        self.served += requests
        decision = self.pilot.observe(self.gateway.seen())
        if decision.wants_proposal:
            proposal = proposal_of(plan_named(f"p{proposed}"), gain=gain)
            decision = self.pilot.consider(proposal, self.gateway.seen())
        if decision.action == "apply":
            last = [at for at, action in self.actions if action == "apply"]
            assert not last or self.served - last[-1] >= MIN_LIMIT  # never sooner than a change is told
            assert gain >= 0.1
        self.actions.append((self.served, decision.action))
        assert 0 < len(decision.reason) <= 400
        assert "\n" not in decision.reason
        if self.gateway.author == PERSON:
            assert decision.action == "wait"
        self.gateway.follow(self.pilot)

    @rule()
    def silence(self) -> None:
        before = self.pilot.record
        assert self.pilot.observe(None).action == "wait"
        assert self.pilot.record == before

    @rule(plan=st.sampled_from(["own", None]))
    def person(self, plan: str | None) -> None:
        self.gateway.person_applies(plan_named(plan) if plan is not None else None)

    @precondition(lambda self: self.gateway.author == PERSON)
    @rule()
    def let_go_on(self) -> None:
        self.gateway.author = "autopilot"

    @rule(keeps=st.booleans())
    def gateway_restarts(self, keeps: bool) -> None:
        self.gateway.restart(keeps=keeps)

    @rule()
    def loop_restarts(self) -> None:
        self.pilot = Autopilot(AutopilotRecord.from_json(self.pilot.record.to_json(), where="record"))

    @invariant()
    def guards_hold(self) -> None:
        if not hasattr(self, "pilot"):
            return
        record = self.pilot.record
        assert MIN_LIMIT <= record.limit <= MAX_LIMIT or record.limit == 0
        assert record.trial_share in {0.0, FIRST_SHARE, TRIAL_SHARE}
        assert (record.trial is None) == (record.trial_share == 0.0)
        assert record.useless <= record.changes
        for plan in (record.in_force, record.trial):
            assert plan is None or record.phase == "held" or plan.budgets.reissue <= record.budget
        msgspec.json.decode(record.to_json(), type=AutopilotRecord)
        assert len(look_points(max(1, record.limit))) <= 8


TestFuzzed = Fuzzed.TestCase
TestFuzzed.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_decisions_are_counted_beyond_those_that_are_remembered() -> None:
    record = AutopilotRecord(service=SERVICE, budget=0.05)
    for number in range(MAX_ENTRIES + 100):
        record = record.with_entry(LoggedDecision(at_s=number, action="wait", reason="so", plan=None))
    for number in range(3):  # of these the last takes the place of the others
        record = record.with_entry(LoggedDecision(at_s=number, action="keep", reason="so", plan=None))
    assert len(record.entries) == MAX_ENTRIES
    assert record.decided == {"wait": MAX_ENTRIES + 100, "keep": 3}
    assert AutopilotRecord.from_json(record.to_json(), where="record") == record


def test_before_the_first_trial_nothing_is_said_of_requests_since_a_change() -> None:
    pilot, gateway = fresh(), CountingGateway({"": 0.03})
    gateway.serve(3)
    decision = pilot.observe(gateway.seen())
    assert decision.wants_proposal
    assert decision.reason == "no plan has been tried yet, so one may be as soon as there is one"
