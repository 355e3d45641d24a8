"""A machine whose processors all replicas of a service share, and the process in front with them.

Whoever is served needs a processor. While more are than there are processors, all go slower alike (processor
sharing over the whole machine), whichever stage they belong to: that is why calls of different stages, and
copies with their calls, are slow together. So a machine's time is one clock for all that runs on it, and goes
the slower the more of them are busy.

Everything happens to everybody here, so stages cannot be simulated one after the other. In turns, the stages
are gone through with the clock as it is known (`_network`), which settles who takes which call and which
copies go; and with that settled, all requests go through the machine together (`_flow`), which tells its
clock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken._profile import Floats

MAX_PROCESSORS: Final = 4096
PIECE_MS: Final = 1.0  # of other work; about what a scheduler gives at a time
MOST_PIECES: Final = 200_000  # longer ones, where they would be more


class SharedClock:
    """A machine's own time, which goes at another pace from some moments on. Milliseconds, from moment 0.

    Args:
        moments: (m,) of the changes, ascending; the first is 0.
        paces: (m,) own milliseconds a millisecond from then on, above 0.
    """

    def __init__(self, moments: Floats, paces: Floats) -> None:
        self.moments, self.paces = moments, paces
        self._all_own = np.concatenate(([0.0], np.cumsum(np.diff(moments) * paces[:-1])))
        # for one moment at a time, where an element of an array costs more than the search
        self._moments, self._own = array("d", moments), array("d", self._all_own)
        self._paces = array("d", paces)

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
        at = np.searchsorted(self.moments, moments, side="right") - 1
        return np.asarray(self._all_own[at] + (moments - self.moments[at]) * self.paces[at])

    def moments_at(self, worked: Floats) -> Floats:
        """(n,): the moments of own times."""
        at = np.searchsorted(self._all_own, worked, side="right") - 1
        return np.asarray(self.moments[at] + (worked - self._all_own[at]) / self.paces[at])


def between(one: SharedClock, other: SharedClock) -> SharedClock:
    """The clock half-way between two.

    Args:
        one: clock.
        other: clock.
    """
    moments = np.unique(np.concatenate((one.moments, other.moments)))
    paces = [clock.paces[np.searchsorted(clock.moments, moments, side="right") - 1] for clock in (one, other)]
    return SharedClock(moments, (paces[0] + paces[1]) / 2)


@dataclass(frozen=True)
class FrontLine:
    """What the process in front had to do, one thing after the other, whenever more came.

    Attributes:
        moments: (k,) at which more came, ascending; the first is 0.
        work_ms: (k,) own time that it had to work then, with what came.
    """

    moments: Floats
    work_ms: Floats

    def wait_at(self, moments: Floats, clock: SharedClock) -> Floats:
        """(n,): milliseconds until it gets to what comes at these moments.

        Args:
            moments: (n,) at which something comes.
            clock: of the machine that it runs on.
        """
        at = np.searchsorted(self.moments, moments, side="right") - 1
        own = clock.worked_at(moments)
        done = own - clock.worked_at(self.moments[at])
        return np.asarray(clock.moments_at(own + np.maximum(0.0, self.work_ms[at] - done)) - moments)


@dataclass(frozen=True)
class Machine:
    """What is known of a machine after some turns.

    Attributes:
        processors: how many it has.
        others: (j,) moments at which a piece of other work comes.
        piece_ms: how much each is, milliseconds.
        beside_ms: other work that comes with a request, when it is over.
        clock: its own time.
        starting: by stage: (n * width,) milliseconds from a visit's start until the front began to send the
            call: a fan-out's go one after the other.
        sending: by stage: (n * width,) milliseconds from then until the front had sent it.
        answering: by stage: (n * width,) milliseconds from an answer's arrival until the front had read it.
        copying: by stage: (n * width,) milliseconds from when a copy was due until the front had sent it;
            NaN where none went.
        line: of the front.
    """

    processors: int
    others: Floats
    piece_ms: float = PIECE_MS
    beside_ms: float = 0.0
    clock: SharedClock = field(default_factory=lambda: SharedClock(np.zeros(1), np.ones(1)))
    starting: Mapping[str, Floats] = field(default_factory=dict)
    sending: Mapping[str, Floats] = field(default_factory=dict)
    answering: Mapping[str, Floats] = field(default_factory=dict)
    copying: Mapping[str, Floats] = field(default_factory=dict)
    line: FrontLine = field(default_factory=lambda: FrontLine(np.zeros(1), np.zeros(1)))
