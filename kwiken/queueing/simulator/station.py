"""What a stage is to the queueing simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from kwiken.errors import InputError
from kwiken.queueing.simulator.service_times import Constant, Empirical, ServiceTimes
from kwiken.service import MAX_FANOUT, MAX_REPLICAS, Reissue

Dispatch = Literal["random", "two", "aged", "least"]
Cancel = Literal["none", "queued", "running"]
NOTHING: Final = Constant(0.0)
MAX_BURST: Final = 1e6


@dataclass(frozen=True, kw_only=True)
class Background:
    """Other work that a stage's replicas do, spread evenly over them as a Poisson process each.

    Attributes:
        utilisation: share of a replica's time that it takes, below 1.
        work: law of one piece.

    Raises:
        InputError: for a share that leaves nothing, or work that takes no time.
    """

    utilisation: float
    work: ServiceTimes

    def __post_init__(self) -> None:
        """Refuse a share that leaves nothing."""
        if not 0 <= self.utilisation < 1:
            raise InputError(
                f"must be a share from 0 to below 1, not {self.utilisation}", where="background.utilisation"
            )
        if not self.work.mean_ms > 0:
            raise InputError("must be a law of a mean above 0", where="background.work")


@dataclass(frozen=True, kw_only=True)
class Earnings:
    """A stage's account for copies: calls earn, every copy costs 1, what is over the burst is lost.

    The runtime's is `prompt_only` and `keeps_back`. A copy that it cannot pay asks again at twice its
    call's age, as in the runtime.

    Attributes:
        fraction: what a call earns.
        burst: the most that is saved, in units of a copy's cost; the account starts full.
        prompt_only: only calls that were answered before their time-out earn, when that passes; else all do,
            when they come.
        keeps_back: half of the burst is kept for calls that were denied before, a quarter for those that
            were denied twice, and so on.

    Raises:
        InputError: for a fraction that is none, or a burst that no account could hold.
    """

    fraction: float
    burst: float = 10.0
    prompt_only: bool = False
    keeps_back: bool = False

    def __post_init__(self) -> None:
        """Refuse what no account could hold."""
        if not 0 <= self.fraction <= 1:
            raise InputError(f"must be a share from 0 to 1, not {self.fraction}", where="earnings.fraction")
        if not 0 <= self.burst <= MAX_BURST:
            raise InputError(f"must be from 0 to {MAX_BURST:g}, not {self.burst}", where="earnings.burst")


@dataclass(frozen=True, kw_only=True)
class Station:
    """A stage with its replicas and their queues.

    Attributes:
        name: of the stage.
        after: names of its parents.
        work: law of the time that a call keeps its replica busy.
        rest: law of the time that a call takes besides, after its work and without keeping anyone busy:
            network, storage, other services.
        replicas: how many serve it, each one call at a time in the order of arrival; None where it has no
            queue at all, only `work` and `rest`.
        dispatch: which replica takes a call: `random`; the less loaded of `two` random ones (Mitzenmacher
            2001); `aged`, the better of two random ones as the runtime's picker judges them: estimated
            latency times load, where the age of the oldest call counts as latency; the `least` loaded of
            all. Load is the number of calls without an answer: their caller does not know who rests.
        fanout: calls of one visit; the stage ends with the last.
        reissue: when copies go; each to a replica that has no attempt of that call yet (the least loaded,
            or a random one where dispatch is random). None for none.
        cancel: what becomes of the other attempts when the first is answered: `none`: they run on; `queued`:
            those not begun are taken out; `running`: those too that are being served.
        earnings: account that pays for copies; None for one that always can.
        alike: correlation of the normal scores of a copy's rest and its call's; needs an `Empirical` rest.
        background: other work of the replicas.

    Raises:
        InputError: for what no stage could be; names the stage and the field.
    """

    name: str
    after: tuple[str, ...] = ()
    work: ServiceTimes
    rest: ServiceTimes = NOTHING
    replicas: int | None = 1
    dispatch: Dispatch = "two"
    fanout: int = 1
    reissue: Reissue | None = None
    cancel: Cancel = "running"
    earnings: Earnings | None = None
    alike: float = 0.0
    background: Background | None = None

    def __post_init__(self) -> None:
        """Refuse what no stage could be; names the stage and the field."""
        for label, most in (("replicas", MAX_REPLICAS), ("fanout", MAX_FANOUT)):
            value = getattr(self, label)
            if value is None and label == "replicas":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise self._wrong(label, f"must be a whole number from 1 to {most}, not {value!r}")
        for label, choices in (("dispatch", Dispatch), ("cancel", Cancel)):
            if getattr(self, label) not in get_args(choices):
                known = ", ".join(get_args(choices))
                raise self._wrong(label, f"must be one of {known}, not {getattr(self, label)!r}")
        if not 0 <= self.alike < 1 or (self.alike and not isinstance(self.rest, Empirical)):
            raise self._wrong("alike", f"must be from 0 to below 1, with an Empirical rest, not {self.alike}")
        if self.replicas is None and self.background is not None:
            raise self._wrong("background", "needs replicas to run on")

    def _wrong(self, label: str, message: str) -> InputError:
        return InputError(message, where=f"stage {self.name!r}: {label}")

    def utilisation(self, visits_per_s: float) -> float:
        """Share of the replicas' time that calls and background take without copies; 0 without replicas.

        Args:
            visits_per_s: visits of the stage a second.
        """
        if self.replicas is None:
            return 0.0
        busy = visits_per_s / 1e3 * self.fanout * self.work.mean_ms / self.replicas
        return busy + (self.background.utilisation if self.background is not None else 0.0)

    def visits_per_s(self, utilisation: float) -> float:
        """The visits a second that keep its replicas so busy, background included.

        Raises:
            InputError: without replicas or work nothing is ever busy.
        """
        one = self.utilisation(1.0) - self.utilisation(0.0)
        visits = (utilisation - self.utilisation(0.0)) / one if one > 0 else math.nan
        if not 0 <= visits < math.inf:
            raise self._wrong("utilisation", f"{utilisation} cannot be reached by calls")
        return visits
