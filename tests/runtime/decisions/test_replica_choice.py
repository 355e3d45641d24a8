"""Replica choice: queues, latency estimates, paused and ejected replicas."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.decisions.choice.picker import (
    FIRST_BACKOFF_S,
    LAST_BACKOFF_S,
    MAX_PAUSE_S,
    MISSES_TO_EJECT,
    Picker,
)
from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.choice.rules import LATENCY_GAIN, MAX_SAMPLE_FACTOR
from kwiken.runtime.wire.transport.base import Replica, Reply
from tests.support.runtime.replicas import replicas_of


def picker_of(count: int, *, nodes: int | None = None, seed: int = 1) -> Picker:
    return Picker(replicas_of("s", count, nodes), random.Random(seed))


def serve(picker: Picker, target: ReplicaState, took: float, *, now: float = 0.0, **reply: int) -> None:
    ticket = target.take(now)
    picker.answered(target, ticket, now + took, Reply("ok", **reply))


def know(picker: Picker, *latencies: float) -> list[ReplicaState]:
    """Record many answers of each replica, all with the same latency."""
    targets = list(picker.targets)
    for target, latency in zip(targets, latencies, strict=True):
        for _ in range(100):
            serve(picker, target, latency)
    return targets


def test_no_replica_no_seat() -> None:
    picker = picker_of(0)
    assert picker.pick(0.0) is None
    assert picker.pick_other(0.0, [], ejected=True) is None


def test_a_single_replica_is_always_chosen() -> None:
    picker = picker_of(1)
    assert {picker.pick(0.0).replica.id for _ in range(5)} == {"s-0"}  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_replicas_without_estimates_share_the_calls_evenly(count: int) -> None:
    picker = picker_of(count)
    picks = Counter(picker.pick(0.0).replica.id for _ in range(3000))  # type: ignore[union-attr]
    assert len(picks) == count
    assert max(picks.values()) < 1.3 * 3000 / count


def test_the_best_of_sixteen_from_a_random_place_on_is_chosen() -> None:
    """Of 20 replicas the fastest is among the sixteen in 16 of 20 draws; those far from it get calls else."""
    picker = picker_of(20)
    know(picker, *[0.01 * 1.5**index for index in range(20)])
    picks = Counter(picker.pick(0.5).replica.id for _ in range(6000))  # type: ignore[union-attr]
    assert picks["s-0"] / 6000 == pytest.approx(16 / 20, abs=0.03)
    assert picks["s-19"] == 0


@pytest.mark.parametrize("count", [2, 3])
def test_equal_replicas_share_the_calls_evenly_at_low_load(count: int) -> None:
    """One call after another, 40 a second: no replica's estimate, fresh or drifting, may win them all."""
    picker = picker_of(count)
    rng = random.Random(3)
    picks: Counter[str] = Counter()
    for turn in range(4000):
        target = picker.pick(turn / 40)
        assert target is not None
        picks[target.replica.id] += 1
        serve(picker, target, rng.lognormvariate(-5.0, 0.3), now=turn / 40, inflight=1)
    assert min(picks.values()) > 0.6 * 4000 / count


def test_shorter_queue_wins() -> None:
    picker = picker_of(2)
    first, second = know(picker, 0.01, 0.01)
    first.take(0.5)
    assert all(picker.pick(0.5) is second for _ in range(20))


def test_faster_replica_takes_more() -> None:
    picker = picker_of(2)
    fast, slow = know(picker, 0.01, 0.04)
    taken: Counter[str] = Counter()
    for _ in range(50):
        target = picker.pick(0.5)
        assert target is not None
        target.take(0.5)
        taken[target.replica.id] += 1
    assert taken[fast.replica.id] > 3 * taken[slow.replica.id]


def test_paused_replica_is_avoided_from_its_first_slow_call_on() -> None:
    """The paused replica has the better estimate and the shorter queue, but its one call is old."""
    picker = picker_of(2)
    paused, well = know(picker, 0.01, 0.02)
    paused.take(1.0)
    for _ in range(2):
        well.take(1.1)
    assert picker.pick(1.1) is well


def test_age_counts_only_while_the_call_is_out() -> None:
    picker = picker_of(2)
    paused, well = know(picker, 0.01, 0.02)
    ticket = paused.take(0.5)
    picker.answered(paused, ticket, 0.9, Reply("ok"))
    assert picker.pick(0.91) is paused, "one straggler moves the estimate little"
    assert paused.latency <= 0.01 * (1 + LATENCY_GAIN * (MAX_SAMPLE_FACTOR - 1)) + 1e-9
    assert well.latency == pytest.approx(0.02)


def test_a_replicas_reported_queue_counts_while_it_is_fresh() -> None:
    picker = picker_of(2)
    first, second = know(picker, 0.01, 0.01)
    serve(picker, first, 0.01, now=1.0, inflight=9)  # eight of them from elsewhere
    assert first.other_inflight == 8
    assert picker.pick(1.1) is second
    assert picker.score(first, 5.0) < 2 * picker.score(second, 5.0)


def test_a_stale_estimate_returns_to_the_stages_so_that_no_replica_is_avoided_for_ever() -> None:
    picker = picker_of(3)
    slow, *others = know(picker, 0.5, 0.01, 0.01)
    for now in (1.0, 10.0, 60.0):
        for target in others:
            serve(picker, target, 0.01, now=now - 0.01)
    assert picker.score(slow, 60.0) < 1.2 * picker.score(others[0], 60.0)


def test_copy_avoids_tried_replicas_and_prefers_another_node() -> None:
    picker = picker_of(4, nodes=2)  # s-0 and s-2 on node-0, s-1 and s-3 on node-1
    know(picker, 0.01, 0.9, 0.01, 0.5)
    targets = {target.replica.id: target for target in picker.targets}
    assert picker.pick_other(0.5, [targets["s-0"]]) is targets["s-3"], "another node, though it is slower"
    assert picker.pick_other(0.5, [targets["s-0"], targets["s-1"], targets["s-3"]]) is targets["s-2"]
    assert picker.pick_other(0.5, list(targets.values())) is None


def test_a_copy_avoids_nodes_without_headroom_and_other_attempts_do_not() -> None:
    picker = picker_of(4, nodes=2)  # s-0 and s-2 on node-0, s-1 and s-3 on node-1
    know(picker, 0.01, 0.9, 0.01, 0.5)
    targets = {target.replica.id: target for target in picker.targets}
    picker.crowded = frozenset({"node-1"})
    assert picker.pick_other(0.5, [targets["s-0"]], roomy=True) is targets["s-2"]
    assert picker.pick_other(0.5, [targets["s-0"]]) is targets["s-3"]
    picker.crowded = frozenset({"node-0", "node-1"})
    assert picker.pick_other(0.5, [targets["s-0"]], roomy=True) is None
    assert picker.is_crowded([targets["s-0"]])


def test_failed_replica_is_ejected_and_backs_off() -> None:
    picker = picker_of(2)
    bad, good = picker.targets
    now, waits = 0.0, []
    for _ in range(8):
        picker.failed(bad, bad.take(now), now)
        assert bad.ejected
        assert all(picker.pick(now + 0.9 * (bad.ejected_until - now)) is good for _ in range(20))
        waits.append(bad.ejected_until - now)
        now = bad.ejected_until
        assert picker.pick(now) is bad, "one call tries it"
    assert waits == pytest.approx([min(LAST_BACKOFF_S, FIRST_BACKOFF_S * 2**n) for n in range(8)])


def test_trial_is_one_call_and_success_readmits() -> None:
    picker = picker_of(2)
    bad, good = picker.targets
    picker.failed(bad, bad.take(0.0), 0.0)
    target = picker.pick(1.0)
    assert target is bad
    assert bad.trial
    bad.trial = False
    ticket = bad.take(1.0)
    assert all(picker.pick(1.0 + step / 10) is good for step in range(20))
    picker.answered(bad, ticket, 3.0, Reply("ok"))
    assert not bad.ejected
    assert bad in {picker.pick(3.0) for _ in range(20)}


def test_handlers_error_on_trial_readmits_too() -> None:
    picker = picker_of(2)
    bad = picker.targets[0]
    picker.failed(bad, bad.take(0.0), 0.0)
    picker.pick(1.0)
    picker.ended(bad, bad.take(1.0), 1.0)
    assert not bad.ejected


def fail(picker: Picker, target: ReplicaState, now: float = 0.0) -> None:
    picker.raised(target, target.take(now), now)


def test_an_error_teaches_no_latency() -> None:
    picker = picker_of(2)
    bad, good = know(picker, 0.01, 0.01)
    for _ in range(4):
        fail(picker, bad, 0.5)
    assert bad.latency == pytest.approx(0.01)
    assert picker.typical == pytest.approx(0.01)
    assert all(picker.pick(0.5) is good for _ in range(20)), "nor does an empty queue win by it"


def load(picker: Picker, fails: dict[str, float], *, calls: int = 3000, held: int = 8) -> Counter[str]:
    """Calls by replica, `held` in flight at a time; each replica fails its share at once, else takes 10 ms."""
    rng, now = random.Random(5), 1000.0
    taken: Counter[str] = Counter()
    out: list[tuple[float, ReplicaState, int, bool]] = []
    for _ in range(calls):
        if len(out) >= held:
            out.sort(key=lambda entry: entry[0])
            now, target, ticket, good = out.pop(0)
            if good:
                picker.answered(target, ticket, now, Reply("ok"))
            else:
                picker.raised(target, ticket, now)
        picked = picker.pick(now)
        assert picked is not None
        taken[picked.replica.id] += 1
        good = rng.random() >= fails.get(picked.replica.id, 0.0)
        out.append((now + (0.01 if good else 0.0001), picked, picked.take(now), good))
    return taken


@pytest.mark.parametrize("count", [2, 3, 10])
def test_failing_fast_wins_no_traffic(count: int) -> None:
    picker = picker_of(count)
    taken = load(picker, {"s-0": 1.0})
    assert taken["s-0"] < 40, "of 3,000"
    assert picker.targets[-1].outlier or taken["s-0"] < 5, "too few failures to eject it"


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_failing_often_loses_traffic(share: float) -> None:
    taken = load(picker_of(4), {"s-0": share})
    assert taken["s-0"] < (0.7 if share < 0.5 else 0.4) * 3000 / 4


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 1.0])
def test_errors_that_all_replicas_make_change_nothing(share: float) -> None:
    picker = picker_of(4)
    taken = load(picker, {f"s-{number}": share for number in range(4)}, calls=6000)
    assert not any(target.ejected for target in picker.targets)
    assert min(taken.values()) > 0.6 * 6000 / 4


def test_errors_eject_half_of_the_replicas_at_most_and_never_the_last() -> None:
    for count, most in ((1, 0), (2, 1), (3, 1), (4, 2), (9, 4)):
        picker = picker_of(count)
        targets = list(picker.targets)
        for _ in range(200):
            for target in targets[:-1]:
                fail(picker, target)
            serve(picker, targets[-1], 0.01)
        assert sum(target.ejected for target in targets) == most, count


def test_no_replica_is_an_outlier_while_no_other_answers() -> None:
    picker = picker_of(2)
    bad, idle = picker.targets
    for _ in range(100):
        fail(picker, bad)
    assert not bad.ejected
    assert picker.pick(0.0) is idle, "though its word on that is worth a try"


def outlier(picker: Picker) -> ReplicaState:
    bad, *others = picker.targets
    for _ in range(12):
        fail(picker, bad)
        for target in others:
            serve(picker, target, 0.01)
    assert bad.outlier
    return bad


def test_an_outlier_that_errs_on_trial_stays_out_for_longer() -> None:
    picker = picker_of(2)
    bad = outlier(picker)
    assert picker.pick(1.0) is bad
    fail(picker, bad, 1.0)
    assert bad.ejected
    assert bad.ejected_until == pytest.approx(1.0 + 2 * FIRST_BACKOFF_S)


def test_an_outlier_that_answers_on_trial_is_back_and_earns_its_share() -> None:
    picker = picker_of(2)
    bad = outlier(picker)
    assert picker.pick(1.0) is bad
    serve(picker, bad, 0.01, now=1.0)
    assert not bad.ejected
    assert load(picker, {})["s-0"] > 1000


def test_errors_are_forgotten_in_time() -> None:
    picker = picker_of(2)
    bad, good = know(picker, 0.01, 0.01)
    for _ in range(4):
        fail(picker, bad, 0.5)
    picked = {picker.pick(40.0) for _ in range(20)}
    assert picked == {bad, good}


def test_replaced_replicas_leave_no_share_behind() -> None:
    picker = picker_of(3)
    for _ in range(10):
        fail(picker, picker.targets[0])
    picker.replace(replicas_of("s", 3)[1:])
    fail(picker, picker.targets[0])
    penalty = picker._outliers.penalty(picker.targets[0].record, 0.0)
    picker.replace([])
    picker.replace(replicas_of("s", 2))
    fail(picker, picker.targets[0])
    assert penalty == pytest.approx(picker._outliers.penalty(picker.targets[0].record, 0.0))


def test_trial_without_an_answer_ejects_for_longer() -> None:
    picker = picker_of(2)
    bad, good = know(picker, 0.01, 0.01)
    picker.failed(bad, bad.take(1.0), 1.0)
    assert picker.pick(2.0) is bad
    picker.dropped(bad, bad.take(2.0), 2.05, blame=False)
    assert bad.ejected_until == pytest.approx(2.05 + 2 * FIRST_BACKOFF_S)
    assert picker.pick(2.1) is good


def test_trial_that_its_caller_gave_up_at_once_is_tried_again() -> None:
    picker = picker_of(2)
    bad, _ = know(picker, 0.01, 0.01)
    picker.failed(bad, bad.take(1.0), 1.0)
    assert picker.pick(2.0) is bad
    picker.dropped(bad, bad.take(2.0), 2.001, blame=False)
    assert picker.pick(2.1) is bad


def test_unanswered_calls_in_a_row_eject() -> None:
    picker = picker_of(2)
    silent, _ = know(picker, 0.01, 0.01)
    for count in range(MISSES_TO_EJECT):
        assert not silent.ejected, count
        picker.dropped(silent, silent.take(1.0), 1.1, blame=False)
    assert silent.ejected


def test_an_answer_in_between_forgives() -> None:
    picker = picker_of(2)
    silent, _ = know(picker, 0.01, 0.01)
    for _ in range(3 * MISSES_TO_EJECT):
        picker.dropped(silent, silent.take(1.0), 1.1, blame=False)
        serve(picker, silent, 0.01, now=1.1)
    assert not silent.ejected


def test_a_cancelled_call_counts_as_at_least_its_age() -> None:
    picker = picker_of(2)
    target, _ = know(picker, 0.01, 0.01)
    picker.dropped(target, target.take(1.0), 1.001, blame=False)
    assert target.latency == pytest.approx(0.01), "less than usual says nothing"
    picker.dropped(target, target.take(1.0), 1.02, blame=False)
    assert target.latency > 0.01


def test_a_replica_that_lost_to_a_copy_is_avoided_until_it_answers() -> None:
    """Else a paused replica, with nothing to answer, would look idle, and get every other call."""
    picker = picker_of(2)
    paused, good = know(picker, 0.001, 0.001)
    assert picker.dropped(paused, paused.take(1.0), 1.005, blame=False), "ask it"
    assert all(picker.pick(1.0 + later) is good for later in (0.006, 0.02, 0.1))
    picker.probed(paused, 1.1, alive=True)
    assert {picker.pick(1.2) for _ in range(50)} == {paused, good}


def test_an_answer_counts_as_a_liveness_probe() -> None:
    picker = picker_of(2)
    target, other = know(picker, 0.001, 0.001)
    ticket = target.take(1.0)
    assert picker.dropped(target, target.take(1.0), 1.005, blame=False)
    assert not picker.dropped(target, target.take(1.001), 1.006, blame=False), "it was asked already"
    picker.answered(target, ticket, 1.01, Reply("ok"))
    assert picker.score(target, 1.02) < 2 * picker.score(other, 1.02)
    picker.probed(target, 6.0, alive=False)
    assert not target.ejected, "the question was lost, but the replica has answered since"


def test_a_replica_that_answers_no_liveness_probe_is_ejected() -> None:
    picker = picker_of(2)
    target, good = know(picker, 0.001, 0.001)
    assert picker.dropped(target, target.take(1.0), 1.005, blame=False)
    picker.probed(target, 6.0, alive=False)
    assert target.ejected
    assert picker.pick(6.1) is good
    assert picker.pick(6.0 + FIRST_BACKOFF_S) is good
    assert picker.to_probe is target


def test_a_call_cancelled_before_its_usual_latency_changes_no_estimate() -> None:
    picker = picker_of(2)
    target, _ = know(picker, 0.01, 0.01)
    assert not picker.dropped(target, target.take(1.0), 1.005, blame=False)


def test_all_ejected_is_no_reason_to_give_up() -> None:
    picker = picker_of(3)
    for target in picker.targets:
        picker.failed(target, target.take(0.0), 0.0)
    picks = Counter(picker.pick(0.1).replica.id for _ in range(300))  # type: ignore[union-attr]
    assert len(picks) == 3
    tried = list(picker.targets[:1])
    assert picker.pick_other(0.1, tried) not in {None, *tried}


def test_copy_is_not_worth_an_ejected_replica_but_a_retry_is() -> None:
    picker = picker_of(2)
    bad, good = picker.targets
    picker.failed(bad, bad.take(0.0), 0.0)
    assert picker.pick_other(0.1, [good]) is None
    assert picker.pick_other(0.1, [good], ejected=True) is bad


def test_copy_may_be_the_trial_of_an_ejected_replica() -> None:
    picker = picker_of(2)
    bad, good = picker.targets
    picker.failed(bad, bad.take(0.0), 0.0)
    assert picker.pick_other(FIRST_BACKOFF_S, [good]) is bad
    ticket = bad.take(FIRST_BACKOFF_S)
    assert picker.pick_other(FIRST_BACKOFF_S, [good]) is None, "one trial at a time"
    picker.answered(bad, ticket, 0.3, Reply("ok"))
    assert not bad.ejected


def test_failures_of_many_calls_at_once_are_one_failure() -> None:
    picker = picker_of(2)
    bad, _ = picker.targets
    tickets = [bad.take(0.0) for _ in range(10)]
    for ticket in tickets:
        picker.failed(bad, ticket, 0.01)
    assert bad.backoff == FIRST_BACKOFF_S
    assert picker.pick(0.01 + FIRST_BACKOFF_S) is bad, "and its trial is not forgotten"


def test_replace_keeps_what_is_known_of_those_that_stay() -> None:
    picker = picker_of(3)
    targets = know(picker, 0.01, 0.02, 0.03)
    picker.failed(targets[1], targets[1].take(1.0), 1.0)
    ticket = targets[0].take(1.0)
    stays, comes = targets[1].replica, Replica("s-9", "node-9", "")
    picker.replace([comes, stays, targets[2].replica, comes])
    assert [target.replica.id for target in picker.targets] == ["s-9", "s-2", "s-1"]
    assert picker.targets[2] is targets[1]
    assert targets[1].ejected
    assert targets[0].removed
    picker.failed(targets[0], ticket, 2.0)  # a call of one that is gone ends
    assert targets[0] not in picker.targets


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["pick", "other", "answered", "failed", "dropped", "heard", "ended", "raised", "replace"]
        ),
        st.floats(0, 1),
        st.integers(0, 10),
    ),
    max_size=150,
)


class Books:
    """A picker and the calls without an answer."""

    def __init__(self, count: int, seed: int) -> None:
        self.picker = picker_of(count, seed=seed)
        self.out: list[tuple[ReplicaState, int]] = []
        self.asked: list[ReplicaState] = []
        self.now = 0.0

    def play(self, what: str, wait: float, number: int) -> None:
        self.now += wait
        picker, now = self.picker, self.now
        if what == "pick":
            target = picker.pick(now)
            if target is None:
                assert all(each.paused_until > now for each in picker.targets)
            else:
                target.trial = False
                self.out.append((target, target.take(now)))
        elif what == "other":
            tried = [target for target, _ in self.out[-2:]]
            target = picker.pick_other(now, tried, ejected=number % 2 == 0)
            assert target not in tried
            if picker.to_probe is not None:
                self.asked.append(picker.to_probe)
                picker.to_probe = None
            if target is not None:
                self.out.append((target, target.take(now)))
        elif what == "replace":
            picker.replace(replicas_of("s", 1 + number % 5))
        elif what == "heard":
            if self.asked:
                picker.probed(self.asked.pop(number % len(self.asked)), now, alive=number > 2)
        elif self.out:
            self.end(what, *self.out.pop(number % len(self.out)), number)

    def end(self, what: str, target: ReplicaState, ticket: int, number: int) -> None:
        picker, now = self.picker, self.now
        if what == "answered":
            picker.answered(target, ticket, now, Reply("ok", inflight=number))
        elif what == "failed":
            picker.failed(target, ticket, now, pause_s=max(0.0, number - 5.0))
        elif what == "dropped":
            if picker.dropped(target, ticket, now, blame=number > 7):
                self.asked.append(target)
        elif what == "raised":
            picker.raised(target, ticket, now)
        else:
            picker.ended(target, ticket, now)

    def check(self) -> None:
        targets = self.picker.targets
        assert len(set(targets)) == len(targets)
        assert len(set(self.asked)) == len(self.asked), "nobody is asked twice at a time"
        assert sum(len(target.waiting) for target in {target for target, _ in self.out}) == len(self.out)
        assert all(target in self.picker._ejected for target in targets if target.ejected)
        assert all(target in self.picker._live for target in targets if not target.ejected)
        assert all(target.record.counted is not target.ejected for target in targets)
        assert self.picker._outliers._count == len(self.picker._live)
        shares = sum(target.record.share for target in self.picker._live)
        assert self.picker._outliers._sum == pytest.approx(shares, abs=1e-9)
        all_unresponsive = self.picker.all_unresponsive(self.now, 0.1)
        assert not (all_unresponsive and any(not target.ejected and not target.waiting for target in targets))
        assert all_unresponsive or any(not target.ejected for target in targets)


@given(script=steps, count=st.integers(1, 5), seed=st.integers(0, 99))
def test_in_flight_counts_balance_after_any_sequence(
    script: list[tuple[str, float, int]], count: int, seed: int
) -> None:
    """Every replica is live or ejected, every call without an answer is counted, and trials never stop."""
    books = Books(count, seed)
    for what, wait, number in script:
        books.play(what, wait, number)
        books.check()
    picker = books.picker
    for target, ticket in books.out:
        picker.ended(target, ticket, books.now)
    for target in books.asked:
        picker.probed(target, books.now, alive=False)
    late = books.now + MAX_PAUSE_S
    for _ in range(len(picker._ejected)):
        picked = picker.pick(late)
        while picker.to_probe is not None:
            asked, picker.to_probe = picker.to_probe, None
            picker.probed(asked, late, alive=True)
            if picked is not None and not picked.ejected:
                picked = picker.pick(late)
        assert picked is not None
        assert picked.ejected, "every ejected replica gets its trial"
        picker.answered(picked, picked.take(late), late, Reply("ok"))
    assert not picker._ejected
