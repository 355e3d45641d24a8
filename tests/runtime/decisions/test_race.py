"""Race of one live call: copies, retries, resends, denials and time-outs, and its invariants."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwiken.runtime.decisions.race import (
    COPY,
    FINAL,
    FINISH,
    LATE,
    LOST,
    REFUSED,
    RESEND,
    RESENDS,
    RETRY,
    WAIT,
    Race,
)


def race(
    *,
    after: float = 1.0,
    copies: int = 1,
    hang_at: float = 5.0,
    limit: float = 10.0,
    idempotent: bool = True,
    late_at: float = inf,
) -> Race:
    return Race(0.0, after, copies, hang_at=hang_at, limit=limit, repeatable=idempotent, late_at=late_at)


def test_a_primary_that_answers_ends_the_race() -> None:
    it = race()
    assert it.due == 1.0
    assert it.won(0) == FINISH
    assert it.winner == 0
    assert it.tick(1.0) == WAIT


def test_copy_goes_at_its_age_and_not_before() -> None:
    it = race()
    assert it.tick(0.999) == WAIT
    assert it.tick(1.0) == COPY
    assert it.launched(COPY) == 1
    assert it.tick(1.0) == WAIT
    assert it.due == 5.0


def test_copies_are_a_hard_cap_and_evenly_apart() -> None:
    it = race(copies=3, after=1.0)
    moments = []
    for tick in range(1, 50):
        now = tick / 10
        if it.tick(now) == COPY:
            it.launched(COPY)
            moments.append(now)
    assert moments == [1.0, 2.0, 3.0]


def test_a_copy_that_fails_brings_the_next_one_forward() -> None:
    it = race(copies=3, hang_at=inf)
    it.tick(1.0)
    it.launched(COPY)
    assert it.failed(LOST) == WAIT
    assert it.copy_failed(1.2)
    assert it.due == 1.2
    assert it.tick(1.2) == COPY
    it.launched(COPY)
    assert it.due == 2.2
    assert it.failed(FINAL) == WAIT
    assert not it.copy_failed(1.3), "no other copy would succeed"


def test_a_copy_that_fails_brings_none_forward_that_is_not_to_come() -> None:
    it = race(hang_at=inf)
    it.tick(1.0)
    it.launched(COPY)
    it.failed(LOST)
    assert not it.copy_failed(1.1), "it was the last"
    late = race(copies=2, late_at=0.0, hang_at=inf)
    late.tick(0.0)
    late.launched(LATE)
    late.failed(LOST)
    assert not late.copy_failed(0.5), "the first copy keeps its age"
    assert late.due == 1.0


def test_denied_for_lack_of_budget_asks_again_at_twice_the_age() -> None:
    it = race(hang_at=inf)
    asked = []
    for tick in range(1, 100):
        if it.tick(tick / 10) == COPY:
            asked.append(tick / 10)
            assert it.denied(COPY, tick / 10, for_good=False) == WAIT
            assert it.due == min(2 * tick / 10, 10.0)
    assert asked == [1.0, 2.0, 4.0, 8.0]


def test_a_copy_that_is_put_off_is_asked_for_again_and_is_no_denial() -> None:
    it = race()
    assert it.tick(1.0) == COPY
    assert it.put_off(2.25, 1.0)
    assert (it.copy_at, it.copy_due, it.due) == (2.25, 1.0, 2.25)
    assert it.tick(2.2) == WAIT
    assert it.tick(2.25) == COPY
    assert not it.put_off(2.25, 2.25)
    assert it.tick(2.25) == COPY
    it.launched(COPY)
    assert it.denials == 0


@pytest.mark.parametrize(("hang_at", "limit", "last"), [(5.0, 10.0, 2.5), (inf, 4.0, 2.0)])
def test_a_copy_is_put_off_for_half_of_the_time_that_the_call_has(
    hang_at: float, limit: float, last: float
) -> None:
    it = race(hang_at=hang_at, limit=limit)
    assert it.tick(1.0) == COPY
    assert it.put_off(100.0, 1.0)
    assert it.due == last
    assert it.tick(last) == COPY
    assert not it.put_off(100.0, last)


def test_a_copy_that_is_due_late_is_not_put_off() -> None:
    it = race(after=3.0, limit=4.0, hang_at=inf)
    assert it.tick(3.0) == COPY
    assert not it.put_off(3.5, 3.0)


def test_the_next_copy_is_due_after_the_one_that_was_put_off() -> None:
    it = race(copies=2, hang_at=inf)
    it.tick(1.0)
    it.put_off(1.5, 1.0)
    it.tick(1.5)
    it.launched(COPY)
    assert (it.copy_at, it.copy_due) == (2.5, 2.5)


def test_denied_for_good_never_asks_again() -> None:
    it = race(hang_at=inf)
    assert it.tick(1.0) == COPY
    assert it.denied(COPY, 1.0) == WAIT
    assert it.due == 10.0
    assert it.tick(9.9) == WAIT


def test_denied_copy_at_age_zero_does_not_spin() -> None:
    it = race(after=0.0, hang_at=inf)
    assert it.tick(0.0) == COPY
    it.denied(COPY, 0.0, for_good=False)
    assert it.tick(0.0) == WAIT


@pytest.mark.parametrize("how", [REFUSED, LOST, FINAL])
def test_failed_copy_never_beats_a_running_primary(how: int) -> None:
    it = race()
    it.tick(1.0)
    it.launched(COPY)
    assert it.failed(how) == WAIT
    assert not it.finished
    assert it.won(0) == FINISH
    assert it.winner == 0


@pytest.mark.parametrize("how", [REFUSED, LOST, FINAL])
def test_failed_primary_waits_for_the_copy(how: int) -> None:
    it = race()
    it.tick(1.0)
    copy = it.launched(COPY)
    assert it.failed(how) == WAIT
    assert it.won(copy) == FINISH
    assert it.winner == copy


def test_both_failing_for_good_ends_without_winner() -> None:
    it = race()
    it.tick(1.0)
    it.launched(COPY)
    assert it.failed(FINAL) == WAIT
    assert it.failed(FINAL) == FINISH
    assert it.winner == -1
    assert not it.expired


def test_refused_goes_elsewhere_at_no_charge() -> None:
    it = race(idempotent=False, after=inf)
    assert it.failed(REFUSED) == RESEND
    assert it.launched(RESEND) == 1
    assert it.won(1) == FINISH


def test_refusals_are_bounded() -> None:
    it = race(after=inf)
    count = 0
    while it.failed(REFUSED) == RESEND:
        it.launched(RESEND)
        count += 1
    assert count == RESENDS
    assert it.finished


def test_a_lost_call_is_retried_once_where_it_is_idempotent() -> None:
    it = race(after=inf)
    assert it.failed(LOST) == RETRY
    it.launched(RETRY)
    assert it.failed(LOST) == FINISH


def test_a_lost_call_is_never_retried_where_it_is_not_idempotent() -> None:
    assert race(idempotent=False, after=inf).failed(LOST) == FINISH


def test_handlers_error_is_final() -> None:
    assert race(after=inf).failed(FINAL) == FINISH


@pytest.mark.parametrize("last", [REFUSED, LOST])
def test_after_a_handlers_error_no_other_failure_is_made_good(last: int) -> None:
    it = race()
    it.tick(1.0)
    it.launched(COPY)
    assert it.failed(FINAL) == WAIT
    assert it.failed(last) == FINISH


def test_after_a_handlers_error_nothing_more_is_sent() -> None:
    it = race(copies=4, after=1.0)
    it.tick(1.0)
    it.launched(COPY)
    it.failed(FINAL)
    assert it.due == 10.0
    assert it.tick(6.0) == WAIT


def test_call_without_answer_gets_one_retry() -> None:
    it = race(after=inf)
    assert it.due == 5.0
    assert it.tick(5.0) == RETRY
    it.launched(RETRY)
    assert it.due == 10.0
    assert it.failed(LOST) == WAIT
    assert it.failed(LOST) == FINISH, "the one paid retry is used up"


def test_time_is_up() -> None:
    it = race()
    assert it.tick(10.0) == FINISH
    assert it.expired
    assert it.winner == -1
    assert it.won(0) == WAIT, "an answer after the end changes nothing"
    assert it.winner == -1


def test_denied_resend_ends_a_race_with_nothing_left() -> None:
    it = race(after=inf)
    assert it.failed(REFUSED) == RESEND
    assert it.denied(RESEND, 0.1) == FINISH


def test_a_stopped_race_asks_for_nothing() -> None:
    it = race()
    it.stop()
    assert it.tick(1.0) == WAIT
    assert it.tick(100.0) == WAIT
    assert it.failed(LOST) == WAIT


# Copies for late requests.


def test_a_late_copy_goes_when_the_request_becomes_late() -> None:
    it = race(late_at=0.4)
    assert it.due == 0.4
    assert it.tick(0.399) == WAIT
    assert it.tick(0.4) == LATE
    assert it.launched(LATE) == 1
    assert it.due == 5.0, "the one copy is sent, so the call's own moment has passed too"
    assert it.tick(1.0) == WAIT


def test_call_that_starts_late_gets_its_copy_at_once() -> None:
    it = race(late_at=-3.0)
    assert it.due == -3.0
    assert it.tick(0.0) == LATE


def test_after_its_own_copy_a_call_needs_no_late_one() -> None:
    it = race(late_at=2.0)
    assert it.tick(1.0) == COPY
    it.launched(COPY)
    assert it.tick(2.0) == WAIT
    assert it.due == 5.0


def test_with_two_copies_a_late_one_leaves_the_other_to_its_moment() -> None:
    it = race(copies=2, late_at=0.5)
    assert it.tick(0.5) == LATE
    it.launched(LATE)
    assert it.due == 1.0
    assert it.tick(1.0) == COPY
    it.launched(COPY)
    assert it.tick(4.9) == WAIT


def test_a_copy_that_the_coin_denied_may_still_go_late() -> None:
    it = race(late_at=2.0)
    assert it.tick(1.0) == COPY
    it.denied(COPY, 1.0)
    assert it.due == 2.0
    assert it.tick(2.0) == LATE


def test_late_copy_denied_asks_again_at_twice_the_calls_age_and_counts_as_no_denial() -> None:
    it = race(after=inf, hang_at=inf, late_at=0.3)
    asked = []
    for tick in range(1, 100):
        if it.tick(tick / 10) == LATE:
            asked.append(tick / 10)
            it.denied(LATE, tick / 10, for_good=False)
    assert asked == [0.3, 0.6, 1.2, 2.4, 4.8, 9.6]
    assert it.denials == 0


def test_late_copy_denied_at_the_start_does_not_spin() -> None:
    it = race(late_at=0.0)
    assert it.tick(0.0) == LATE
    it.denied(LATE, 0.0, for_good=False)
    assert it.tick(0.0) == WAIT
    assert it.due == 1.0


class AnyRace(RuleBasedStateMachine):
    """Random events against the documented invariants; the oracle counts by itself."""

    @initialize(
        after=st.sampled_from([0.0, 0.5, 1.0, inf]),
        copies=st.integers(1, 4),
        hang=st.sampled_from([1.5, 4.0, inf]),
        idempotent=st.booleans(),
        late=st.sampled_from([-1.0, 0.0, 0.7, 2.0, inf, inf]),
    )
    def begin(self, after: float, copies: int, hang: float, idempotent: bool, late: float) -> None:
        self.after = after if idempotent else inf
        self.late = late if idempotent else inf
        self.copies = copies
        self.idempotent = idempotent
        self.limit = 8.0
        self.now = 0.0
        self.it = Race(
            0.0,
            self.after,
            copies,
            hang_at=hang if idempotent else inf,
            limit=self.limit,
            repeatable=idempotent,
            late_at=self.late,
        )
        self.running = {0}
        self.kinds = {COPY: 0, LATE: 0, RETRY: 0, RESEND: 0}
        self.finishes = 0
        self.stopped = False
        self.winner = -1
        self.hows: list[int] = []

    def take(self, step: int, grant: bool, for_good: bool, factor: float = 1.0) -> None:
        """Carry out a step as the engine does."""
        assert step in {WAIT, COPY, LATE, RETRY, RESEND, FINISH}
        if step == FINISH:
            self.finish()
        elif step != WAIT:
            assert self.finishes == 0
            assert not self.stopped
            if step == COPY:
                assert self.now >= self.after
            if step == LATE:
                assert self.now >= self.late
            if step in {RETRY, COPY, LATE}:
                assert self.idempotent
            if step == COPY and self.it.put_off(factor * self.it.copy_due, self.now):
                assert self.now < self.it.copy_at <= min(factor * self.it.copy_due, self.limit / 2)
            elif grant:
                self.kinds[step] += 1
                self.running.add(self.it.launched(step))
            elif self.it.denied(step, self.now, for_good=for_good) == FINISH:
                self.finish()

    def finish(self) -> None:
        self.finishes += 1
        assert self.it.finished

    @rule(wait=st.floats(0, 2), grant=st.booleans(), for_good=st.booleans(), factor=st.floats(1, 4))
    def tick(self, wait: float, grant: bool, for_good: bool, factor: float) -> None:
        self.now += wait
        for _ in range(10):
            step = self.it.tick(self.now)
            if step == WAIT:
                break
            if step == FINISH:
                assert self.now >= self.limit
            self.take(step, grant, for_good, factor)
        else:
            raise AssertionError("asks for ever at one moment")
        assert self.it.finished or self.it.due > self.now

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(number)
        was_over = self.it.finished
        step = self.it.won(number)
        assert step == (WAIT if was_over else FINISH)
        if step == FINISH:
            self.winner = number
        self.take(step, False, True)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), how=st.sampled_from([REFUSED, LOST, FINAL]), grant=st.booleans())
    def fail(self, data: st.DataObject, how: int, grant: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(number)
        self.hows.append(how)
        step = self.it.failed(how)
        if self.running:
            assert step == WAIT, "a failure never ends a race while another attempt runs"
        if FINAL in self.hows:
            assert step in {WAIT, FINISH}, "nothing is sent after a final error"
        if number and step == WAIT and self.it.copy_failed(self.now):
            assert self.it.due == self.now
        self.take(step, grant, True)

    @rule()
    def stop(self) -> None:
        self.it.stop()
        self.stopped = True

    @invariant()
    def promises(self) -> None:
        it = self.it
        assert it.running == len(self.running)
        assert self.kinds[COPY] + self.kinds[LATE] <= self.copies
        assert self.kinds[LATE] <= 1
        assert self.kinds[RETRY] <= 1
        assert self.kinds[RESEND] <= RESENDS
        assert it.sent == 1 + sum(self.kinds.values())
        assert self.finishes <= 1
        assert it.winner == self.winner
        if not self.running:
            assert it.finished, "a race with nothing running is over"
        if it.finished and not self.stopped:
            assert self.finishes == 1


AnyRace.TestCase.settings = settings(stateful_step_count=30)
TestAnyRace = AnyRace.TestCase


@given(after=st.floats(0, 10), hang=st.floats(0, 10), limit=st.floats(0, 10), late=st.floats(0, 10))
def test_due_is_the_first_moment_that_matters(after: float, hang: float, limit: float, late: float) -> None:
    it = Race(0.0, after, 1, hang_at=hang, limit=limit, repeatable=True, late_at=late)
    assert it.due == min(after, hang, limit, late)
    assert it.tick(it.due) != WAIT
