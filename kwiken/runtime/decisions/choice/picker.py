"""Replicas of one stage: the one that takes an attempt or a copy, and the ejection of those that fail.

Pure: moments and outcomes in, a replica out. Replicas that fail are ejected for a while that doubles each
time, then tried with one call (Envoy's outlier detection works alike). One that was silent must answer a
probe before, while others take calls: a call to a dark host that must not run twice is lost. A call that
failed says nothing about latency, and a replica that fails calls which others answer gets a worse score
(`Outliers`): failing fast must not look like being fast.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from math import inf

from kwiken.runtime.decisions.choice.replica_state import ReplicaState
from kwiken.runtime.decisions.choice.rules import (
    LATENCY_GAIN,
    MAX_CANDIDATES,
    MAX_SAMPLE_FACTOR,
    ChoiceContext,
    ChoiceRule,
    LearningRule,
    LeastBySpeed,
)
from kwiken.runtime.wire.transport.base import Replica, Reply

MISSES_TO_EJECT = 5  # calls in a row given up without an answer that eject a replica
MISS_FACTOR = 3.0  # multiple of the usual latency from which on a call that is given up counts as a miss
FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 5.0
MAX_PAUSE_S = 30.0  # that a replica may ask for: an answer alone must not take it away for longer
# Share of a stage's replicas that errors alone may eject; at least one, never the last one.
MAX_OUTLIER_SHARE = 0.5


class Picker:
    """Chooses among the replicas of one stage.

    Args:
        rng: source of randomness of the choices.
        rule: rule of the choice; None for the default.

    Attributes:
        crowded: nodes without headroom, whose replicas get no copies of calls.
        to_probe: replica that the last `pick` wants probed, with the result reported by `probed`; None for
            none. The caller clears it.
    """

    __slots__ = (
        "_ejected",
        "_learner",
        "_live",
        "_next_trial",
        "_outliers",
        "_rng",
        "_rule",
        "_stage",
        "crowded",
        "to_probe",
    )

    def __init__(
        self, replicas: Iterable[Replica], rng: random.Random, rule: ChoiceRule | None = None
    ) -> None:
        self._rng = rng
        self._rule = rule or LeastBySpeed()
        self._learner = self._rule if isinstance(self._rule, LearningRule) else None
        self._stage = ChoiceContext(rng)
        self._live = [ReplicaState(replica) for replica in replicas]
        self._ejected: list[ReplicaState] = []
        self._outliers = self._stage.outliers
        for target in self._live:
            self._outliers.join(target.record)
        self._next_trial = inf
        self.crowded: frozenset[str] = frozenset()
        self.to_probe: ReplicaState | None = None

    @property
    def typical(self) -> float:
        """Usual latency of the stage's calls, seconds; 0 where unknown."""
        return self._stage.typical

    @property
    def targets(self) -> Sequence[ReplicaState]:
        """State of every replica, ejected ones last."""
        return [*self._live, *self._ejected]

    def replace(self, replicas: Iterable[Replica]) -> None:
        """Set the replicas; the state of those that remain is kept."""
        known = {target.replica: target for target in self.targets}
        kept = [
            known[replica] if replica in known else ReplicaState(replica)
            for replica in dict.fromkeys(replicas)
        ]
        staying = set(kept)
        for target in known.values():
            target.removed = target not in staying
            self._outliers.leave(target.record)
        self._live = [target for target in kept if not target.ejected]
        self._ejected = [target for target in kept if target.ejected]
        for target in self._live:
            self._outliers.join(target.record)
        self._schedule_trial()

    def pick(self, now: float) -> ReplicaState | None:
        """Choose a replica for a first attempt; None if the stage has no replica."""
        # There are three cases: 1. an ejected replica is due: this call is its trial; 2. some replica is not
        # ejected: the rule chooses; 3. all are ejected: any that has not asked for a pause.
        if now >= self._next_trial:
            target = self._trial(now)
            if target is not None:
                return target
        live = self._live
        if len(live) > 1:
            return self._rule.choose(live, now, self._stage)
        if live:
            return live[0]
        # A call to a replica that probably fails is better than a call that certainly does.
        willing = [target for target in self._ejected if target.paused_until <= now]
        return self._rng.choice(willing) if willing else None

    def pick_other(
        self, now: float, tried: Sequence[ReplicaState], *, ejected: bool = False, roomy: bool = False
    ) -> ReplicaState | None:
        """Choose a replica for a further attempt, if possible on another node; None if none is left.

        Args:
            now: present moment, seconds.
            tried: replicas of the earlier attempts, which are not chosen again.
            ejected: whether any ejected replica is acceptable if no other is left; if false, only one that is
                due for its trial. If all replicas are ejected, any is acceptable.
            roomy: whether nodes without headroom are left out.
        """
        without = self.crowded if roomy else ()
        left = self._untried(self._live, tried, without)
        if not left:
            left = self._untried(self._ejected, tried, without)
            if not ejected and self._live:  # a copy may serve as the trial: another attempt is running
                left = [
                    each for each in left if each.ejected_until <= now and not (each.waiting or each.silent)
                ]
            left = [target for target in left if target.paused_until <= now]
        if not left:
            return None
        # What slows a replica often slows its whole node: a copy beside the first attempt gains little.
        nodes = {target.replica.node for target in tried}
        apart = [target for target in left if target.replica.node not in nodes]
        return min(apart or left, key=lambda target: self.score(target, now))

    def is_crowded(self, tried: Sequence[ReplicaState]) -> bool:
        """Whether only nodes without headroom keep a replica from being chosen for a copy.

        Args:
            tried: replicas of the earlier attempts.
        """
        return any(
            target.replica.node in self.crowded and target not in tried
            for target in (self._live if self.crowded else ())
        )

    def _untried(
        self, targets: list[ReplicaState], tried: Sequence[ReplicaState], without: Collection[str]
    ) -> list[ReplicaState]:
        if without:
            targets = [target for target in targets if target.replica.node not in without]
        enough = MAX_CANDIDATES + len(tried)
        few = targets if len(targets) <= enough else self._rng.sample(targets, enough)
        return [target for target in few if target not in tried]

    def is_last(self, target: ReplicaState, besides: Collection[ReplicaState], stuck: float) -> bool:
        """Whether no other replica takes and answers calls.

        Args:
            target: replica that may be the last one.
            besides: replicas known not to answer.
            stuck: moment, seconds; a replica with an unanswered call from before it counts as not answering.
        """
        return not any(
            other is not target
            and other not in besides
            and next(iter(other.waiting.values()), stuck) >= stuck
            for other in self._live
        )

    def all_unresponsive(self, now: float, overdue_s: float) -> bool:
        """Whether every replica is ejected or has been unresponsive since a call that is long overdue.

        Args:
            now: present moment, seconds.
            overdue_s: smallest age, seconds, at which a call is overdue.
        """
        overdue = max(overdue_s, MISS_FACTOR * self.typical)
        for target in self._live:
            oldest = next(iter(target.waiting.values()), now)
            if now - oldest < overdue or target.updated_at > oldest:
                return False
        return True

    def score(self, target: ReplicaState, now: float) -> float:
        """Score of a replica by the stage's rule; lower is better."""
        return self._rule.score(target, now, self._stage)

    def answered(self, target: ReplicaState, ticket: int, now: float, reply: Reply) -> None:
        """Record an answer."""
        took = now - target.waiting.pop(ticket)
        inflight = reply.inflight
        # The replica counts this call among those in flight; beyond our own are calls of other gateways.
        target.other_inflight = 0 if inflight is None else max(0, inflight - len(target.waiting) - 1)
        target.misses = 0
        target.unresponsive_since = inf
        target.trouble = None
        self._outliers.answered(target.record)
        self._learn(target, took, now)
        if self._learner is not None:
            self._learner.answered(target, now, took, reply)
        if target.ejected:
            self._readmit(target, now)

    def failed(
        self, target: ReplicaState, ticket: int, now: float, *, pause_s: float = 0.0, silent: bool = False
    ) -> None:
        """Record a refused or lost call: eject the replica, each time for longer.

        Args:
            now: present moment, seconds.
            pause_s: time, seconds, during which the replica asks for no calls; `MAX_PAUSE_S` at most counts.
                It gets none then, even if all others are ejected too.
            silent: whether no answer came from the replica, not even a refusal.
        """
        del target.waiting[ticket]
        self._eject(target, now, silent=silent)
        if pause_s > 0:
            target.paused_until = max(target.paused_until, now + min(pause_s, MAX_PAUSE_S))
            target.ejected_until = max(target.ejected_until, target.paused_until)
            self._schedule_trial()

    def dropped(self, target: ReplicaState, ticket: int, now: float, *, blame: bool) -> bool:
        """Record that a call was given up: the replica would have taken at least until now.

        Args:
            now: present moment, seconds.
            blame: whether the call was so old that the replica is ejected at once.

        Returns:
            Whether to probe the replica, and to report the result by `probed`.
        """
        started = target.waiting.pop(ticket)
        took = now - started
        # The time until now is a lower bound of the latency: below the estimate it tells nothing.
        if took > target.latency:
            self._learn(target, took, now)
        if took > MISS_FACTOR * (self.typical or inf):
            target.misses += 1
        # A copy that wins at once takes the trial from a replica that may be well: that is no failed trial.
        failed_trial = target.ejected and took > self.typical
        if blame or failed_trial or target.misses >= MISSES_TO_EJECT:
            target.trouble = f"no answer for {took:.3g} s"
            self._eject(target, now, silent=True)
        elif target.ejected:
            self._schedule_trial()
        return not target.ejected and self._needs_probe(target, started, took)

    def _needs_probe(self, target: ReplicaState, started: float, took: float) -> bool:
        """Record a call given up after more than the usual time; returns whether to send a probe."""
        if not took > (self.typical or inf):
            return False
        target.unresponsive_since = min(target.unresponsive_since, started)
        # One probe at a time: a replica that stalls loses many calls at once, and one answer settles all.
        if target.probing:
            return False
        target.probing = True
        return True

    def probed(self, target: ReplicaState, now: float, *, alive: bool) -> None:
        """Record the result of a probe."""
        target.probing = False
        # Of a replica that takes calls a finite moment says that no call was answered since.
        if alive:
            target.silent = False
        elif target.silent or target.unresponsive_since < inf:
            target.trouble = "no answer to a probe"
            self._eject(target, now, silent=True)
        target.unresponsive_since = inf
        self._schedule_trial()

    def ended(self, target: ReplicaState, ticket: int, now: float) -> None:
        """Record a call that ended by its deadline: the replica is alive, and nothing else is known."""
        del target.waiting[ticket]
        target.misses = 0
        if target.ejected:
            self._readmit(target, now)

    def raised(self, target: ReplicaState, ticket: int, now: float) -> None:
        """Record an answer that is an error; eject the replica if the others do not fail likewise."""
        del target.waiting[ticket]
        target.misses = 0
        outlying = self._outliers.failed(target.record, now)
        # An error is an answer, so the replica is alive. There are three cases: 1. it was ejected for errors
        # and fails its trial; 2. it was ejected for silence and has answered; 3. it fails more than the
        # others, and these can do without it.
        if target.outlier:
            self._eject(target, now)
        elif target.ejected:
            self._readmit(target, now)
        elif outlying and self._can_spare(target):
            target.outlier = True
            self._eject(target, now)

    def _can_spare(self, target: ReplicaState) -> bool:
        """Whether a replica may be ejected for errors alone."""
        most = max(1, int(MAX_OUTLIER_SHARE * (len(self._live) + len(self._ejected))))
        return (
            not target.removed and len(self._live) > 1 and sum(each.outlier for each in self._ejected) < most
        )

    def _learn(self, target: ReplicaState, took: float, now: float) -> None:
        target.updated_at = now
        known = target.latency
        if known:
            top = MAX_SAMPLE_FACTOR * known  # one pause must not outweigh all calls before it
            target.latency = known + LATENCY_GAIN * ((took if took < top else top) - known)
        else:
            target.latency = took
        stage = self._stage
        known = stage.typical
        if known:
            top = MAX_SAMPLE_FACTOR * known
            stage.typical = known + LATENCY_GAIN * ((took if took < top else top) - known)
        else:
            stage.typical = took

    def _trial(self, now: float) -> ReplicaState | None:
        for target in self._ejected:
            if target.ejected_until <= now and not target.waiting and not target.probing:
                if target.silent and self._live:
                    target.probing, self.to_probe = True, target
                    break
                target.trial = True
                self._schedule_trial(besides=target)
                return target
        self._schedule_trial()
        return None

    def _eject(self, target: ReplicaState, now: float, *, silent: bool = False) -> None:
        target.silent |= silent
        # Failures of calls that were sent before the ejection do not prolong it.
        if not target.ejected or now >= target.ejected_until:
            target.backoff = min(LAST_BACKOFF_S, target.backoff * 2 or FIRST_BACKOFF_S)
            target.ejected_until = now + target.backoff
            target.misses = 0
        if not target.ejected and not target.removed:
            self._live.remove(target)
            self._ejected.append(target)
            self._outliers.leave(target.record)
        target.ejected = True
        self._schedule_trial()

    def _readmit(self, target: ReplicaState, now: float) -> None:
        """End an ejection, unless the replica has asked for a pause that is not over."""
        if target.paused_until > now:
            self._schedule_trial()
            return
        target.ejected = False
        target.outlier = target.silent = False
        target.backoff = 0.0
        if not target.removed:
            self._ejected.remove(target)
            self._live.append(target)
            self._outliers.join(target.record)
        self._schedule_trial()

    def _schedule_trial(self, *, besides: ReplicaState | None = None) -> None:
        self._next_trial = min(
            (
                target.ejected_until
                for target in self._ejected
                if target is not besides and not target.waiting and not target.probing
            ),
            default=inf,
        )
