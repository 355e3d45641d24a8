"""Catch-up planning: the age from which a request counts as late and gets help (Kwiken section 5.5).

The source gives rules of thumb and no algorithm. Here one age `T_z` serves the whole DAG. From that age on,
calls in progress get their copy at once and later calls at their start, at the stages where copies pay at
all; calls that start late get more threads and priority. The age is the earliest whose cost stays within the
budget on the profile's own requests, replayed with the plan's other levers and common random numbers.

A request that ends before an age is never late, so only the slow ones are replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import start_times
from kwiken.model.plan.plan import CatchUpPolicy, Plan, StagePlan
from kwiken.model.plan.rounding import rounded_up_ms
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.tail.apportion.margin import SPLITS, Rows, likely_mean
from kwiken.tail.planning.notes import (
    CatchUpNote,
    CatchUpUnspent,
    LateRequestsHelped,
    NoCopiesForLate,
    NoThreadsForLate,
    PriorityOnly,
)
from kwiken.tail.simulation.common_random_numbers import ROWS, smooth_p99
from kwiken.tail.simulation.stage_replay import StageReplay

MAX_CALLS_HELD = 1 << 22  # calls that are held in memory with their copies
BISECTIONS = 14  # steps of the search for the share of requests that count as late
MIN_P99_CUT = 2e-3  # least relative cut of p99 on later requests for which the budget is spent
NEGLIGIBLE_SPEND = 1e-9  # share of all work below which a spend counts as none


@dataclass(frozen=True)
class LateStudy:
    """Catch-up policies for a budget, and the findings behind them.

    Attributes:
        after_ms: age of a request from which it is late, milliseconds; None where the budget stays unspent.
        late: share of the requests that reach that age.
        cut: share by which p99 falls on requests later than those that the age was learned on.
        notes: what a reader of the plan should know.
    """

    policies: Mapping[str, CatchUpPolicy] = field(default_factory=dict)
    after_ms: float | None = None
    late: float = 0.0
    cut: float = 0.0
    notes: tuple[CatchUpNote, ...] = ()


@dataclass(frozen=True)
class Actuators:
    """Help that late requests get.

    Attributes:
        reissue: names of the stages whose late calls get copies.
        threads: number of threads of calls that start late, by stage.
        stages: names of all stages that give priority.
    """

    reissue: frozenset[str]
    threads: Mapping[str, int]
    stages: tuple[str, ...]

    @property
    def costs(self) -> bool:
        """Whether any of the help costs work; priority does not."""
        return bool(self.reissue or self.threads)

    def policies(self, after_ms: float) -> dict[str, CatchUpPolicy]:
        """Catch-up policy of every stage for requests of an age or more."""
        return {
            name: CatchUpPolicy(
                after_ms=after_ms,
                threads=self.threads.get(name, 1),
                priority=True,
                reissue=name in self.reissue,
            )
            for name in self.stages
        }


def _options(most: Actuators, paying: frozenset[str]) -> Iterator[Actuators]:
    """Combinations to try: copies where they pay for all requests, everywhere or nowhere; threads or none.

    The source sends copies of late requests where its local reissues go. A stage that is steady in most
    requests may still be all that a late request has left, so copies at all stages are tried too.
    """
    for reissue in dict.fromkeys((paying, most.reissue, frozenset[str]())):
        for threads in (most.threads, {}) if most.threads else ({},):
            if reissue or threads:
                yield Actuators(reissue, threads, most.stages)


def study_catch_up(
    profile: Profile,
    draft: Plan,
    budget: float,
    *,
    reissue: Collection[str],
    paying: Collection[str],
    seed: int = 0,
    copy_correlation: float | None = None,
) -> LateStudy:
    """Find the catch-up policies that a budget for late requests pays for (Kwiken section 5.5).

    Args:
        draft: plan without help for late requests.
        budget: extra work for late requests, as a share of all work; 0 for none.
        reissue: names of stages whose late calls may get copies.
        paying: names of those stages that would get local reissues from one budget for both.
        seed: seed of the draws of copies and of their probabilities.
        copy_correlation: correlation of copies with their calls; None for the one that recorded pairs show.

    Returns:
        Policies that keep the budget in nine of ten later periods, as far as the profile's history tells;
        none where they would not lower p99 of requests later than those that the age was learned on.
    """
    if budget <= 0:
        return LateStudy()
    stages = tuple(stage.name for stage in profile.stages if not stage.own_time)
    threads = {stage.name: stage.threads for stage in profile.stages if stage.threads > 1}
    most = Actuators(frozenset(reissue), threads, stages)
    replayed = LateRequestReplay(profile, draft, most, seed=seed, copy_correlation=copy_correlation)
    if not most.costs:
        return _priority_only(replayed, most, budget)
    found = [
        (replayed.risk(options, age), options, age)
        for options in _options(most, frozenset(paying))
        for age in [replayed.least_age(options, budget)]
    ]
    risk, chosen, age = min(found, key=lambda each: each[0])
    cut = replayed.held_out_cut(chosen, budget)
    if cut < MIN_P99_CUT or not risk < replayed.risk(None, 0.0):
        return LateStudy(cut=cut, notes=(CatchUpUnspent(cut),))
    late = replayed.late_share(age)
    return LateStudy(chosen.policies(age), age, late, cut, tuple(_notes(most, chosen, age, late, cut)))


def _priority_only(replayed: LateRequestReplay, most: Actuators, budget: float) -> LateStudy:
    """Priority without copies or threads: the budget is the share of requests that go ahead of others."""
    age = replayed.age_of_share(budget)
    late = replayed.late_share(age)
    return LateStudy(most.policies(age), age, late, 0.0, (PriorityOnly(rounded_up_ms(age), late),))


def _notes(most: Actuators, chosen: Actuators, age: float, late: float, cut: float) -> Iterator[CatchUpNote]:
    yield LateRequestsHelped(
        after_ms=rounded_up_ms(age),
        late=late,
        reissue=tuple(sorted(chosen.reissue)),
        threads=tuple(sorted(chosen.threads)),
        cut=cut,
    )
    if most.threads and not chosen.threads:
        yield NoThreadsForLate()
    if most.reissue and not chosen.reissue:
        yield NoCopiesForLate()


class LateRequestReplay:
    """Requests of a profile in order of time, each call with a copy, on which ages of lateness are tried.

    Args:
        profile: recorded requests; of many, only every k-th is taken.
        draft: plan without help for late requests.
        most: all help that late requests may get.
        seed: seed of the draws of copies and of their probabilities.
        copy_correlation: correlation of copies with their calls; None for the one that recorded pairs show.
    """

    def __init__(
        self,
        profile: Profile,
        draft: Plan,
        most: Actuators,
        *,
        seed: int = 0,
        copy_correlation: float | None = None,
    ) -> None:
        order = np.argsort(profile.started_s, kind="stable")
        cells = sum(stage.calls_ms.shape[1] for stage in profile.stages)
        rows = max(1, min(ROWS, MAX_CALLS_HELD // max(1, cells)))
        self._profile = part_of(profile, order[:: -(-len(order) // rows)])
        self._draft = draft.stages
        self._replays = [
            StageReplay(
                stage,
                draft.cost.stages.get(stage.name, 0.0),
                np.random.default_rng([seed, i]),
                copy_correlation=copy_correlation,
                races=stage.name in most.reissue or _reissued(draft.stages.get(stage.name)),
                by_row=True,
            )
            for i, stage in enumerate(self._profile.stages)
        ]
        inner = {parent for stage in profile.stages for parent in stage.after}
        self._sinks = [stage.name for stage in profile.stages if stage.name not in inner]
        self._all = np.arange(self._profile.requests)
        self._base = self._play(self._all, {})[0]

    def late_share(self, after_ms: float) -> float:
        """Share of the requests that reach an age without help."""
        return float((self._base > after_ms).mean())

    def age_of_share(self, share: float) -> float:
        """Age that a given share of the requests reaches, milliseconds."""
        return float(np.quantile(self._base, 1.0 - share))

    def risk(self, options: Actuators | None, after_ms: float) -> float:
        """Smoothed p99 of all requests, milliseconds, with help from an age on; None for no help."""
        latency = self._base if options is None else self._helped(options, after_ms, self._all)[0]
        return smooth_p99(latency)

    def least_age(self, options: Actuators, budget: float, rows: Rows | None = None) -> float:
        """Earliest age whose help should keep within a budget on later requests, milliseconds.

        Args:
            budget: extra work, as a share of all work.
            rows: (k,) indices of the requests to learn on, in order of time; all by default.
        """
        learned = self._all if rows is None else rows
        base = self._base[learned]
        low, high = 0.0, 1.0  # share of requests that are late: `low` fits the budget, `high` may not
        if self._likely(options, 0.0, learned) <= budget:
            return 0.0
        for _ in range(BISECTIONS):
            share = (low + high) / 2
            fits = self._likely(options, float(np.quantile(base, 1.0 - share)), learned) <= budget
            low, high = (share, high) if fits else (low, share)
        return float(np.quantile(base, 1.0 - low))

    def held_out_cut(self, options: Actuators, budget: float) -> float:
        """Share by which p99 falls on requests later than those that the age was learned on."""
        cuts = []
        for learned, judged in SPLITS:
            early, late = (
                self._all[int(a * len(self._all)) : int(b * len(self._all))]
                for a, b in ((0.0, learned), (learned, judged))
            )
            if not len(late) or not len(early):
                return 0.0
            age = self.least_age(options, budget, early)
            before = smooth_p99(self._base[late])
            after = smooth_p99(self._helped(options, age, late)[0])
            cuts.append(1.0 - after / before if before > 0 else 0.0)
        return float(np.mean(cuts))

    def _likely(self, options: Actuators, after_ms: float, rows: Rows) -> float:
        """Upper bound of the mean spend of nine in ten later periods."""
        spent = self._helped(options, after_ms, rows)[1]
        planned = float(spent.mean())
        if planned <= NEGLIGIBLE_SPEND:
            return 0.0
        places = np.arange(len(rows))
        # The age is the same for early and late requests, so only its cost for the late ones may differ.
        return likely_mean(places, planned, lambda _, judged: spent[judged])

    def _helped(self, options: Actuators, after_ms: float, rows: Rows) -> tuple[Floats, Floats]:
        """(k,) latencies, ms, and (k,) spends of requests with help from an age on."""
        latency, spent = self._base[rows].copy(), np.zeros(len(rows))
        late = np.flatnonzero(latency > after_ms)
        if len(late):
            latency[late], spent[late] = self._play(rows[late], options.policies(after_ms))
        return latency, spent

    def _play(self, rows: Rows, help_: Mapping[str, CatchUpPolicy]) -> tuple[Floats, Floats]:
        ends: dict[str, Floats] = {}
        spent = np.zeros(len(rows))
        for stage_replay in self._replays:
            plan = self._draft.get(stage_replay.name, StagePlan())
            if stage_replay.name in help_:
                plan = msgspec.structs.replace(plan, catch_up=help_[stage_replay.name])
            start = start_times(stage_replay, ends)
            outcome = stage_replay.play(rows, plan, start)
            spent += stage_replay.cost * (outcome.late_copies + outcome.late_work)
            ends[stage_replay.name] = outcome.latency_ms if start is None else outcome.latency_ms + start
        return np.asarray(np.maximum.reduce([ends[name] for name in self._sinks])), spent


def _reissued(plan: StagePlan | None) -> bool:
    return plan is not None and plan.reissue is not None
