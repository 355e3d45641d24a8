"""A machine whose processors all replicas of a service share, and the process in front with them.

Whoever is served needs a processor. While more are than there are processors, all go slower alike (processor
sharing over the whole machine), whichever stage they belong to: that is why calls of different stages, and
copies with their calls, are slow together. So a machine's time is one clock for all that runs on it, and goes
the slower the more of them are busy.

Who is busy when follows from the clock, and the clock from who is busy. Each is found from the other in
turns, over the whole time at once (waveform relaxation, Lelarasmee 1982). Busy periods are short beside
the time that is simulated, so a few turns are enough.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken._profile import Floats
from kwiken.queueing._fifo import fifo_ends

Ints = NDArray[np.int64]
MAX_PROCESSORS: Final = 4096
COPY_COST: Final = 2.0  # calls: the copy, and the question whether the loser's replica lives (decision 16)
PIECE_MS: Final = 1.0  # of other work; about what a scheduler gives at a time


class SharedClock:
    """A machine's own time: it runs at `min(1, processors / busy ones)`. Milliseconds, from moment 0.

    Args:
        begins: (m,) moments at which somebody became busy.
        ends: (m,) moments at which they were done.
        processors: how many there are.
    """

    def __init__(self, begins: Floats, ends: Floats, processors: int) -> None:
        moments = np.concatenate(([0.0], begins, ends))
        steps = np.repeat([0, 1, -1], (1, len(begins), len(ends)))
        order = np.argsort(moments, kind="stable")
        moments = moments[order]
        pace = np.minimum(1.0, processors / np.maximum(1, np.cumsum(steps[order])))
        changes = np.flatnonzero(np.diff(pace, prepend=0.0))
        self._all_moments, self._all_paces = moments[changes], pace[changes]
        self._all_own = np.concatenate(([0.0], np.cumsum(np.diff(self._all_moments) * self._all_paces[:-1])))
        # for one moment at a time, where an element of an array costs more than the search
        self._moments, self._own = array("d", self._all_moments), array("d", self._all_own)
        self._paces = array("d", self._all_paces)

    def worked(self, moment: float) -> float:
        """Own time at a moment."""
        at = bisect_right(self._moments, moment) - 1
        return float(self._own[at] + (moment - self._moments[at]) * self._paces[at])

    def moment(self, worked: float) -> float:
        """The moment of an own time."""
        at = bisect_right(self._own, worked) - 1
        return float(self._moments[at] + (worked - self._own[at]) / self._paces[at])

    def worked_at(self, moments: Floats) -> Floats:
        """(n,): own time at moments."""
        at = np.searchsorted(self._all_moments, moments, side="right") - 1
        return np.asarray(self._all_own[at] + (moments - self._all_moments[at]) * self._all_paces[at])

    def moments_at(self, worked: Floats) -> Floats:
        """(n,): the moments of own times."""
        at = np.searchsorted(self._all_own, worked, side="right") - 1
        return np.asarray(self._all_moments[at] + (worked - self._all_own[at]) / self._all_paces[at])


@dataclass(frozen=True)
class Handled:
    """What the process in front had to do with one stage: n requests, m calls.

    Attributes:
        name: of the stage.
        front_ms: its work for each call; half when the call is sent, half when it is answered.
        places: n * width.
        there: (m,) which of them the calls have.
        sent: (m,) moments at which they were to be sent.
        answered: (m,) moments at which their answers came in.
        copies: (k,) moments at which copies were sent.
    """

    name: str
    front_ms: float
    places: int
    there: Ints
    sent: Floats
    answered: Floats
    copies: Floats


@dataclass(frozen=True)
class Machine:
    """What is known of a machine after some turns.

    Attributes:
        processors: how many it has.
        clock: its own time.
        others: (j,) moments at which a piece of other work comes, `PIECE_MS` each.
        sending: by stage: (n * width,) milliseconds from a call's start until the front had sent it.
        answering: by stage: (n * width,) milliseconds from an answer's arrival until the front had read it.
    """

    processors: int
    clock: SharedClock
    others: Floats
    sending: Mapping[str, Floats] = field(default_factory=dict)
    answering: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def idle(cls, processors: int, others: Floats) -> Machine:
        """One on which nothing was ever slow."""
        return cls(processors, SharedClock(np.empty(0), np.empty(0), processors), others)

    def after(self, busy: Sequence[tuple[Floats, Floats]], handled: Sequence[Handled]) -> Machine:
        """What is known after one more turn.

        Args:
            busy: own time at which replicas began and ended to serve, in that turn.
            handled: what the process in front had to do.
        """
        sending, answering, front = self._front([part for part in handled if part.front_ms])
        others = self.clock.worked_at(self.others)
        spans = [*busy, front, (others, others + PIECE_MS)]
        begins, ends = (
            self.clock.moments_at(np.concatenate([span[side] for span in spans])) for side in (0, 1)
        )
        clock = SharedClock(begins, ends, self.processors)
        return Machine(self.processors, clock, self.others, sending, answering)

    def _front(
        self, handled: Sequence[Handled]
    ) -> tuple[dict[str, Floats], dict[str, Floats], tuple[Floats, Floats]]:
        """Delays by stage, and the own time at which the process in front was busy: it has one thread."""
        due = [moments for part in handled for moments in (part.sent, part.answered, part.copies)]
        pieces = [
            np.full(len(moments), part.front_ms * share)
            for part in handled
            for moments, share in ((part.sent, 0.5), (part.answered, 0.5), (part.copies, COPY_COST))
        ]
        if not due:
            return {}, {}, (np.empty(0), np.empty(0))
        moments, work = np.concatenate(due), np.concatenate(pieces)
        order = np.argsort(moments, kind="stable")
        ends = np.empty(len(moments))
        ends[order] = fifo_ends(self.clock.worked_at(moments[order]), work[order], 1)
        delays = np.split(self.clock.moments_at(ends) - moments, np.cumsum([len(part) for part in due])[:-1])
        return (
            {part.name: _placed(part, delays[3 * i]) for i, part in enumerate(handled)},
            {part.name: _placed(part, delays[3 * i + 1]) for i, part in enumerate(handled)},
            (ends - work, ends),
        )


def _placed(part: Handled, delays: Floats) -> Floats:
    """(n * width,): 0 where there is no call."""
    placed = np.zeros(part.places)
    placed[part.there] = delays
    return placed
