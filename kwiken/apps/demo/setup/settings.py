"""Settings of a demo, and the division of its time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kwiken.apps.demo.setup.blocks import ARMS
from kwiken.base.errors import InputError

TARGET = "kwiken.services.search:search"
MIN_SECONDS, MAX_SECONDS = 8.0, 3600.0
MAX_RATE = 2000.0
MIN_LEARN_REQUESTS = 50  # requests to learn from
SETTLE_S, EDGE_S = 0.5, 0.05  # seconds left out after and before a switch of plans
WARM_S = 3.0
MAX_LEARN_S = 160.0
LEARN_SHARE = 0.24  # a tail is learned from rare requests, which takes time
PILOT_SHARE = 0.10  # enough for some dozens of copies at most stages, and for a tail with them
BLOCK_S = 5.0  # long beside a burst and the settling, short beside drift
MIN_ROUNDS = 2
PLANNING_S = 120.0  # the longest time for planning twice: the load goes on meanwhile, and then ends


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Settings that the user chooses.

    Attributes:
        seconds: time under load for warm-up, learning, pilot and measuring, in seconds; planning comes on
            top. None for the time that the rate needs.
        rate: mean rate of arrivals, in requests a second; None for the rate that fits the machine.
        budget: extra work allowed, as a share from 0 to 1.
        seed: seed of all random numbers.
        calm: whether to run without disturbance.
    """

    seconds: float | None
    rate: float | None
    budget: float
    seed: int
    calm: bool
    out: Path

    def __post_init__(self) -> None:
        """Check the settings before anything is started.

        Raises:
            InputError: names the option.
        """
        if self.rate is not None and not 0 < self.rate <= MAX_RATE:
            raise InputError(
                f"must be above 0 and at most {MAX_RATE:g} requests a second, not {self.rate:g}",
                where="--rate",
            )
        if self.seconds is not None:
            timing = divide(self.seconds)
            if self.rate is not None:
                check_enough(self.rate, timing)


@dataclass(frozen=True)
class Timing:
    """Division of the time under load.

    Attributes:
        warm_s: seconds of warm-up, which are not measured.
        learn_s: seconds of load to learn from.
        pilot_s: seconds of load with a first plan, to learn how copies do.
        rounds: number of rounds, each with one block per arm.
        block_s: length of a block, in seconds.
    """

    warm_s: float
    learn_s: float
    pilot_s: float
    rounds: int
    block_s: float

    @property
    def measure_s(self) -> float:
        """Total length of all blocks, in seconds."""
        return self.rounds * len(ARMS) * self.block_s

    @property
    def total_s(self) -> float:
        """Total time under load except planning, in seconds."""
        return self.warm_s + self.learn_s + self.pilot_s + self.measure_s


def check_enough(rate: float, timing: Timing) -> None:
    """Check that there will be enough requests to learn from.

    Args:
        rate: requests a second.

    Raises:
        InputError: says how many there would be.
    """
    learned = rate * timing.learn_s
    if learned < MIN_LEARN_REQUESTS:
        raise InputError(
            f"would learn from about {learned:.0f} requests, and {MIN_LEARN_REQUESTS} are needed; "
            "raise --rate or --seconds",
            where="demo",
        )


def divide(seconds: float) -> Timing:
    """Divide the time under load into warm-up, learning, pilot and measuring (what is left).

    Blocks are about `BLOCK_S` long, with as many rounds as fit. Where there are more rounds than arms, their
    number is a multiple of that of the arms, so that each arm has each position equally often.

    Args:
        seconds: time under load.

    Raises:
        InputError: when the time is too short or too long.
    """
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise InputError(f"must be from {MIN_SECONDS:g} to {MAX_SECONDS:g}, not {seconds:g}", where="seconds")
    warm = min(WARM_S, 0.1 * seconds)
    learn = min(MAX_LEARN_S, LEARN_SHARE * seconds)
    pilot = PILOT_SHARE / LEARN_SHARE * learn
    left = seconds - warm - learn - pilot
    rounds = max(MIN_ROUNDS, round(left / (len(ARMS) * BLOCK_S)))
    if rounds > len(ARMS):
        rounds -= rounds % len(ARMS)
    return Timing(warm, learn, pilot, rounds, left / (rounds * len(ARMS)))
