"""With what a demo runs, and how it divides its time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kwiken.cli.demo.setup.blocks import ARMS
from kwiken.errors import InputError

TARGET = "kwiken.services.search:search"
LEAST_SECONDS, MOST_SECONDS = 8.0, 3600.0
MOST_RATE = 2000.0
FEWEST = 50  # requests to learn from
SETTLE_S, EDGE_S = 0.5, 0.05  # left out after and before a switch of plans
WARM_S = 3.0
LONGEST_LEARN_S = 60.0
LEARN_SHARE = 0.33  # a tail is learned from rare requests, so it takes time
BLOCK_S = 5.0  # long beside a burst and the settling, short beside drift
FEWEST_ROUNDS = 2
PLANNING_S = 60.0  # the load goes on while the plan is made; past that it runs out


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """What the user may choose.

    Attributes:
        seconds: of load: warming up, learning and measuring; making the plan comes on top.
        rate: requests a second.
        budget: extra work, as a share.
        seed: of everything that is drawn.
        calm: without disturbance.
        out: folder for what comes out.
    """

    seconds: float
    rate: float
    budget: float
    seed: int
    calm: bool
    out: Path

    def __post_init__(self) -> None:
        """Refuse before anything is started what could only fail later.

        Raises:
            InputError: names the option.
        """
        if not 0 < self.rate <= MOST_RATE:
            raise InputError(
                f"must be above 0 and at most {MOST_RATE:g} requests a second, not {self.rate:g}",
                where="--rate",
            )
        learned = self.rate * divide(self.seconds).learn_s
        if learned < FEWEST:
            raise InputError(
                f"would learn from about {learned:.0f} requests, and {FEWEST} are needed; "
                "raise --rate or --seconds",
                where="demo",
            )


@dataclass(frozen=True)
class Timing:
    """How the seconds are divided.

    Attributes:
        warm_s: load that is thrown away.
        learn_s: load that is learned from.
        rounds: number of rounds, each with a block an arm.
        block_s: length of a block.
    """

    warm_s: float
    learn_s: float
    rounds: int
    block_s: float

    @property
    def measure_s(self) -> float:
        """All blocks together."""
        return self.rounds * len(ARMS) * self.block_s

    @property
    def total_s(self) -> float:
        """Everything but making the plan."""
        return self.warm_s + self.learn_s + self.measure_s


def divide(seconds: float) -> Timing:
    """Divide the time of the load: a little to warm up, a third to learn, the rest to measure.

    Blocks are about `BLOCK_S` long, the rounds as many as fit; each arm runs first, second and last in
    as many rounds where there are three or a multiple.

    Raises:
        InputError: for too short or too long a time.
    """
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise InputError(
            f"must be from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, not {seconds:g}", where="seconds"
        )
    warm = min(WARM_S, 0.1 * seconds)
    learn = min(LONGEST_LEARN_S, LEARN_SHARE * seconds)
    left = seconds - warm - learn
    rounds = max(FEWEST_ROUNDS, round(left / (len(ARMS) * BLOCK_S)))
    if rounds > len(ARMS):
        rounds -= rounds % len(ARMS)
    return Timing(warm, learn, rounds, left / (rounds * len(ARMS)))
