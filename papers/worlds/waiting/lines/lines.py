"""Lines of waiting by quality: a state machine of arrivals, free slots, changes of line and starts (ARQ).

Every class of quality has a line of jobs and a pool of nodes. The machine decides which job may try which
pool, and when a job leaves its line; the caller finds a node inside the pool, starts the job, and reports
what happens. There are five cases for a job that waits:
1. Its own pool has a free slot that suits it: it starts, in the order of its line.
2. Nobody waits in the lines above, up to a pool that has one: it starts there, on a better node.
3. The switch rule prefers a neighbouring line: above if nobody waits there, else below.
4. Its budget is spent: it starts anywhere, and until there is room it stands before all others.
5. Else it stays.

A job starts once at most, and its name may come again only after its end. The order inside a line is that of
`LineOrder`; a job from another line stands before those with a later deadline. Time is handed in and never
goes back, so that a log of calls replays to the same state.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator
from typing import Final

from kwiken.base.errors import InputError
from papers.worlds.waiting.lines.busy_times import BusyTimes
from papers.worlds.waiting.lines.chances import BusySlots, ReleaseCurve, release_curve, time_for
from papers.worlds.waiting.lines.line_entries import HeldSlot, LineState, PoolUnit, WaitingEntry
from papers.worlds.waiting.lines.quality_classes import QualityClasses
from papers.worlds.waiting.lines.settings import (
    BudgetClock,
    LineMove,
    LineOrder,
    LineSettings,
    LineStart,
    MoveReason,
    SlotOffer,
    SwitchRule,
    WaitingJob,
)
from papers.worlds.waiting.lines.switching import LineProspect, best_value, stopping_values

MIN_LANDING: Final = 0.02  # share of a pool's slots below which their landing elsewhere is not counted
Find = Callable[[WaitingJob, int | None], SlotOffer | None]


class WaitingLines:
    """Jobs that wait in lines by the quality of node that they need, and the pools of nodes.

    Args:
        classes: classes of quality, one line and one pool for each.
        settings: how lines are served.
    """

    def __init__(self, classes: QualityClasses, settings: LineSettings | None = None) -> None:
        self.settings = LineSettings() if settings is None else settings
        self._classes = classes
        self._lines: list[list[WaitingEntry]] = [[] for _ in range(classes.count)]
        self._entries: dict[str, WaitingEntry] = {}
        self._units: dict[str, PoolUnit] = {}
        self._held: dict[str, HeldSlot] = {}
        self._free = [0] * classes.count  # slots
        self._version = [0] * classes.count
        self._changes = 0
        self._times = BusyTimes(classes.count)
        self._arrivals = 0
        self._now_s = -math.inf
        self._uncharged: list[WaitingEntry] = []  # by arrival, where this machine starts the clocks
        self._ticking: dict[str, WaitingEntry] = {}  # charged by now, or without a budget
        self._curves_at: tuple[float, int] = (-math.inf, 0)
        self._curves: dict[int, ReleaseCurve] = {}
        self._busy: dict[int, BusySlots] = {}

    # What happens outside

    def arrive(self, job: WaitingJob, now_s: float) -> int:
        """Put a job at the end of the line of its class; `advance` starts it.

        Args:
            now_s: moment, in seconds.

        Returns:
            Number of the line.

        Raises:
            InputError: a job of this name waits or runs already, or time goes back.
        """
        self._at(now_s)
        if job.name in self._entries or job.name in self._held:
            raise InputError("waits or runs already; a name is given once", where=f"job {job.name!r}")
        budget_s = min(job.budget_s, self.settings.patience_s) if math.isinf(job.budget_s) else job.budget_s
        entry = WaitingEntry(job, self._arrivals, now_s, self._classes.of(job.quality), budget_s)
        self._arrivals += 1
        self._entries[job.name] = entry
        self._enter(entry)
        if budget_s <= 0:
            self._ticking[job.name] = entry
        if self.settings.clock is BudgetClock.ARRIVAL:
            self._tick(entry)
        elif self.settings.clock is BudgetClock.ROOM:
            self._uncharged.append(entry)
        return entry.line

    def unit(self, name: str, quality: float, free: int, now_s: float) -> None:
        """Note what a node offers now: it joins the pool of its quality, or none without a free slot.

        Args:
            quality: quality that the node offers to one more job, from 0 to 100.
            free: number of free slots, 0 or more.
            now_s: moment, in seconds.

        Raises:
            InputError: a quality or a number of slots outside its range, or time goes back.
        """
        self._at(now_s)
        if not 0 <= quality <= 100 or free < 0:  # noqa: PLR2004 - percent
            raise InputError(
                f"quality must be from 0 to 100 and free slots 0 or more, not {quality} and {free}",
                where=f"node {name!r}",
            )
        self.withdraw_unit(name)
        pool = self._classes.of(quality) if free else None
        self._units[name] = PoolUnit(pool, free)
        if pool is not None:
            self._free[pool] += free
            self._touch(pool)

    def withdraw_unit(self, name: str) -> None:
        """Take a node out of its pool; jobs that hold its slots still have to end."""
        gone = self._units.pop(name, None)
        if gone is not None and gone.pool is not None:
            self._free[gone.pool] -= gone.free
            self._touch(gone.pool)

    def ended(self, job: str, now_s: float, *, quality: float, free: int) -> None:
        """Note the end of a job, and what its node offers now.

        Args:
            job: name of a job that runs.
            now_s: moment, in seconds.
            quality: quality that the node offers to one more job, from 0 to 100.
            free: number of free slots of the node, 0 where it is gone.

        Raises:
            InputError: no such job runs, a number outside its range, or time goes back.
        """
        self._at(now_s)
        held = self._held.get(job)
        if held is None:
            raise InputError("does not run", where=f"job {job!r}")
        self.unit(held.unit, quality, free, now_s)
        del self._held[job]
        self._changes += 1
        self._times.ended(held.pool, now_s - held.started_s, now_s, self._units[held.unit].pool)

    def lost(self, job: str, now_s: float) -> None:
        """Note that a running job ended without a result, such as with its node; its time is not counted.

        Args:
            job: name of a job that runs.
            now_s: moment, in seconds.
        """
        self._at(now_s)
        if self._held.pop(job, None) is None:
            raise InputError("does not run", where=f"job {job!r}")
        self._changes += 1

    def resumed(self, job: str, unit: str, pool: int, started_s: float) -> None:
        """Note a job that runs already, when the lines are built anew from a log.

        Args:
            job: name that neither waits nor runs here.
            unit: name of the node that it runs on.
            pool: pool of the node when the job started.
            started_s: moment of its start, in seconds.
        """
        if job in self._entries or job in self._held or not 0 <= pool < self._classes.count:
            raise InputError("waits or runs already, or has no such pool", where=f"job {job!r}")
        self._held[job] = HeldSlot(unit, pool, started_s)
        self._changes += 1

    def withdraw(self, job: str) -> None:
        """Take a job that waits out of its line.

        Raises:
            InputError: no such job waits.
        """
        entry = self._entries.get(job)
        if entry is None:
            raise InputError("does not wait", where=f"job {job!r}")
        self._leave(entry)

    def charge(self, job: str, now_s: float) -> None:
        """Start the clock of a job's budget, where the caller says when; once is enough.

        Args:
            job: name of a job that waits.
            now_s: moment, in seconds.
        """
        self._at(now_s)
        self._tick(self._waiting(job))

    # What is decided

    def advance(self, now_s: float, find: Find) -> tuple[LineStart, ...]:
        """Start and move what may be at this moment.

        Args:
            now_s: moment, in seconds.
            find: function of a job and the pool that it may try, or None for any node; returns a node with
                room for it, which the caller has taken for the job, and what the node offers after that; or
                None where no node of the pool suits.

        Returns:
            Starts, in their order; `LineStart.moves` tells the way of each job.

        Raises:
            InputError: time goes back.
        """
        self._at(now_s)
        self._charge()
        starts: list[LineStart] = []
        while True:
            self._serve(find, starts)
            if not self._moves():
                return tuple(starts)

    def next_test_s(self) -> float:
        """Moment by which `advance` has to be called again though nothing happens; infinite for never."""
        tests = self.settings.rule is not SwitchRule.NEVER
        test_s = self._now_s + self.settings.test_s if tests else math.inf
        due = [
            min(entry.deadline_s, test_s)
            for entry in self._ticking.values()
            if not entry.spent and math.isfinite(entry.charged_from_s)
        ]
        return min(due, default=math.inf)

    # What is known

    def state(self) -> tuple[LineState, ...]:
        """Every line and pool, from the most demanding class down."""
        return tuple(
            LineState(
                number=number,
                waiting=tuple(entry.job.name for entry in line),
                units=tuple(name for name, unit in self._units.items() if unit.pool == number),
                busy=sum(held.pool == number for held in self._held.values()),
                free=self._free[number],
            )
            for number, line in enumerate(self._lines)
        )

    def free(self, pool: int) -> int:
        """Number of free slots of a pool."""
        return self._free[pool]

    def length(self, line: int) -> int:
        """Number of jobs of a line."""
        return len(self._lines[line])

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return len(self._entries)

    @property
    def running(self) -> int:
        """Number of jobs that hold a slot."""
        return len(self._held)

    @property
    def times(self) -> BusyTimes:
        """Statistics of busy times."""
        return self._times

    def line_of(self, job: str) -> int:
        """Line in which a job waits.

        Raises:
            InputError: no such job waits.
        """
        return self._waiting(job).line

    def place_of(self, job: str) -> int:
        """Place of a job in the line in which it waits, from 1.

        Raises:
            InputError: no such job waits.
        """
        entry = self._waiting(job)
        return self._lines[entry.line].index(entry) + 1

    def moves_of(self, job: str) -> tuple[LineMove, ...]:
        """Changes of line of a job that waits, in their order."""
        return tuple(self._waiting(job).moves)

    def charged_s(self, job: str) -> float:
        """Waiting that has been charged to the budget of a job that waits, in seconds."""
        return max(0.0, self._now_s - self._waiting(job).charged_from_s)

    def chance(self, job: str, within_s: float) -> float:
        """Probability that a slot of its line's pool is free for a job within some time from now on.

        Args:
            job: name of a job that waits.
            within_s: time, in seconds, 0 or more.
        """
        entry = self._waiting(job)
        return self._chance(entry.line, self._lines[entry.line].index(entry), within_s)

    # Order

    def _at(self, now_s: float) -> None:
        if not math.isfinite(now_s):
            raise InputError(f"must be finite, not {now_s}", where="now_s")
        if now_s < self._now_s:
            raise InputError(f"time goes back from {self._now_s} to {now_s}", where="now_s")
        self._now_s = now_s

    def _waiting(self, job: str) -> WaitingEntry:
        entry = self._entries.get(job)
        if entry is None:
            raise InputError("does not wait", where=f"job {job!r}")
        return entry

    def _touch(self, pool: int) -> None:
        self._changes += 1
        self._version[pool] += 1

    def _enter(self, entry: WaitingEntry) -> None:
        """Insert a job into its line; natives of equal rank stay in the order of their arrival."""
        line = self._lines[entry.line]
        rank = self._rank(entry)
        if self.settings.order is LineOrder.ARRIVAL and entry.moves:
            at = next(
                (
                    at
                    for at, other in enumerate(line)
                    if self._rank(other) > rank
                    or (self._rank(other) == rank and other.deadline_s > entry.deadline_s)
                ),
                len(line),
            )
        else:
            at = bisect.bisect_right(line, rank, key=self._rank)
        line.insert(at, entry)

    def _rank(self, entry: WaitingEntry) -> tuple[float, ...]:
        shortest = self.settings.order is LineOrder.SHORTEST
        return (-entry.job.priority, entry.job.work_s if shortest else 0.0)

    def _leave(self, entry: WaitingEntry) -> None:
        del self._entries[entry.job.name]
        self._ticking.pop(entry.job.name, None)
        self._lines[entry.line].remove(entry)
        if entry in self._uncharged:
            self._uncharged.remove(entry)

    def _charge(self) -> None:
        """Start the clocks of the jobs that first come, first served would give the free slots to."""
        charged = len(self._entries) - len(self._uncharged)
        while self._uncharged and charged < sum(self._free):
            self._tick(self._uncharged.pop(0))
            charged += 1

    def _tick(self, entry: WaitingEntry) -> None:
        entry.charged_from_s = min(entry.charged_from_s, self._now_s)
        self._ticking[entry.job.name] = entry

    # Service

    def _serve(self, find: Find, starts: list[LineStart]) -> None:
        """Start spent jobs anywhere, then each line from its pool, then from the pools above."""
        for entry in sorted(
            (entry for entry in self._ticking.values() if self._is_spent(entry)),
            key=lambda entry: (-entry.job.priority, entry.deadline_s, entry.number),
        ):
            entry.spent = True
            if any(self._free):
                self._try(entry, None, find, starts)
        for number in range(self._classes.count):
            self._serve_line(number, number, find, starts)
        for number in range(1, self._classes.count):
            for above in range(number - 1, -1, -1):
                if self._lines[above]:
                    break
                self._serve_line(number, above, find, starts)

    def _is_spent(self, entry: WaitingEntry) -> bool:
        if entry.budget_s <= 0:
            return True
        return self._now_s >= entry.deadline_s

    def _serve_line(self, number: int, pool: int, find: Find, starts: list[LineStart]) -> None:
        for entry in list(self._candidates(number, pool)):
            if not self._free[pool]:
                return
            reserves = entry is self._lines[number][0] and entry.rest_s(
                self._now_s
            ) < self._times.short_gap_s(pool)
            if not self._try(entry, pool, find, starts) and reserves:
                return

    def _candidates(self, number: int, pool: int) -> Iterator[WaitingEntry]:
        """First jobs of a line; where the shortest go first, those that must start now go before."""
        line = self._lines[number]
        if self.settings.order is LineOrder.SHORTEST and line and self._free[pool]:
            urgent = [entry for entry in line if self._must_start(entry)]
            urgent.sort(key=lambda entry: entry.deadline_s)
            rest = [entry for entry in line[: self.settings.look_ahead + len(urgent)] if entry not in urgent]
            yield from (*urgent, *rest[: self.settings.look_ahead])
        else:
            yield from line[: self.settings.look_ahead]

    def _must_start(self, entry: WaitingEntry) -> bool:
        """Whether a longer wait is likely to cost the budget: the guard of long jobs."""
        known = any(self._times.fit(held.pool) is not None for held in self._held.values())
        if math.isinf(entry.charged_from_s) or not known:
            return False
        rest_s = entry.rest_s(self._now_s)
        return self._chance(entry.line, 0, rest_s, free=0) < self.settings.sure

    def _try(self, entry: WaitingEntry, pool: int | None, find: Find, starts: list[LineStart]) -> bool:
        version = self._changes if pool is None else self._version[pool]
        if entry.failed.get(pool) == version:
            return False
        offer = find(entry.job, pool)
        if offer is None:
            entry.failed[pool] = version
            return False
        unit = self._units.get(offer.unit)
        if unit is None or unit.pool is None or (pool is not None and unit.pool != pool):
            raise InputError(f"is not a node of pool {pool} with a free slot", where=f"node {offer.unit!r}")
        given = unit.pool
        self._leave(entry)
        if pool is None:
            entry.moves.append(LineMove(entry.job.name, self._now_s, entry.line, given, MoveReason.SPENT))
        elif pool != entry.line:
            entry.moves.append(LineMove(entry.job.name, self._now_s, entry.line, pool, MoveReason.ROOM_ABOVE))
        self._held[entry.job.name] = HeldSlot(offer.unit, given, self._now_s)
        self.unit(offer.unit, offer.quality, offer.free, self._now_s)
        starts.append(
            LineStart(
                job=entry.job.name,
                unit=offer.unit,
                at_s=self._now_s,
                line=entry.line,
                pool=given,
                waited_s=self._now_s - entry.arrived_s,
                charged_s=max(0.0, self._now_s - entry.charged_from_s),
                late=entry.spent,
                moves=tuple(entry.moves),
            )
        )
        return True

    # Changes of line

    def _moves(self) -> bool:
        """Test the first jobs of each line, each at most once a `test_s`; whether any changed its line."""
        moved = False
        for line in self._lines:
            for entry in line[: self.settings.look_ahead]:
                due = entry.tested_s + self.settings.test_s <= self._now_s
                if not due or math.isinf(entry.charged_from_s) or self._is_spent(entry):
                    continue
                entry.tested_s = self._now_s
                there = self._better_line(entry)
                if there is not None:
                    self._move(entry, *there)
                    moved = True
        return moved

    def _move(self, entry: WaitingEntry, to_line: int, reason: MoveReason) -> None:
        self._lines[entry.line].remove(entry)
        entry.moves.append(LineMove(entry.job.name, self._now_s, entry.line, to_line, reason))
        entry.line = to_line
        entry.failed.clear()
        self._enter(entry)

    def _open_lines(self, entry: WaitingEntry) -> list[int]:
        """Neighbouring lines that a job may enter: above if nobody waits there, else below.

        With nobody above and no free slot there either, both are open.
        """
        above, below = entry.line - 1, entry.line + 1
        found = []
        if above >= 0 and not self._lines[above]:
            found.append(above)
        if below < self._classes.count and not (found and self._free[above]):
            found.append(below)
        return found

    def _better_line(self, entry: WaitingEntry) -> tuple[int, MoveReason] | None:
        rule, open_lines = self.settings.rule, self._open_lines(entry)
        if rule is SwitchRule.NEVER or not open_lines:
            return None
        if rule is SwitchRule.AT_ONCE:
            return open_lines[-1], MoveReason.BETTER_CHANCE
        rest_s = entry.rest_s(self._now_s)
        charged_s = self._now_s - entry.charged_from_s
        slack_s = (entry.budget_s if entry.job.slack_s is None else entry.job.slack_s) - charged_s
        here = self._prospect(entry, entry.line)
        there = {number: self._prospect(entry, number) for number in open_lines}
        if rule is SwitchRule.OPTIMAL:
            return self._optimal(entry, slack_s, rest_s)
        stay = best_value(here, slack_s, rest_s)
        values = {number: best_value(prospect, slack_s, rest_s) for number, prospect in there.items()}
        best = max(open_lines, key=lambda number: values[number])
        if values[best] > stay:
            return best, MoveReason.BETTER_CHANCE
        for number, prospect in there.items():
            sure_s = time_for(prospect.chance, self.settings.sure, max(entry.budget_s, rest_s))
            if rest_s <= sure_s < math.inf and prospect.chance(rest_s) > here.chance(rest_s):
                return number, MoveReason.BUDGET
        return None

    def _optimal(self, entry: WaitingEntry, slack_s: float, rest_s: float) -> tuple[int, MoveReason] | None:
        """Neighbour towards the line that is worth more than waiting here for one more step."""
        lines = range(self._classes.count)
        values = stopping_values([self._prospect(entry, number) for number in lines], slack_s, rest_s)
        stay = values[entry.line][1]
        open_lines = [number for number in self._open_lines(entry) if values[number][0] > stay * (1 + 1e-9)]
        best = max(open_lines, key=lambda number: values[number][0], default=None)
        return None if best is None else (best, MoveReason.BETTER_CHANCE)

    def _prospect(self, entry: WaitingEntry, number: int) -> LineProspect:
        """What a line promises: surplus quality brings a job nothing, less than its own costs."""
        home = self._classes.of(entry.job.quality)
        worth = self._classes.middle(max(number, home))
        line = self._lines[number]
        if number == entry.line:
            ahead = line.index(entry)
        else:
            ahead = sum(other.deadline_s <= entry.deadline_s for other in line)
        return LineProspect(worth, lambda within_s: self._chance(number, ahead, within_s))

    def _chance(self, pool: int, ahead: int, within_s: float, free: int | None = None) -> float:
        needed = ahead + 1 - (self._free[pool] if free is None else free)
        return 1.0 if needed <= 0 else self._curve(pool).chance(within_s, needed)

    def _curve(self, pool: int) -> ReleaseCurve:
        """Expected releases into a pool, by the ages of all slots that are held at this moment."""
        key = self._now_s, self._changes
        if self._curves_at != key:
            self._curves_at, self._curves, self._busy = key, {}, self._busy_slots()
        if pool not in self._curves:
            landing = [(slots, self._times.landing(given, pool)) for given, slots in self._busy.items()]
            self._curves[pool] = release_curve(
                [(slots, lands) for slots, lands in landing if lands >= MIN_LANDING]
            )
        return self._curves[pool]

    def _busy_slots(self) -> dict[int, BusySlots]:
        """Slots that are held at this moment, by the pool that they were given from."""
        ages: dict[int, list[float]] = {}
        for held in self._held.values():
            ages.setdefault(held.pool, []).append(self._now_s - held.started_s)
        fits = {given: self._times.fit(given) for given in ages}
        return {given: BusySlots(fit, ages[given]) for given, fit in fits.items() if fit is not None}
