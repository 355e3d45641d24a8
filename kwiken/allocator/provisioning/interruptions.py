"""Interruptions of spot nodes: recordings, and which of several spot offers serves at each moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.allocator.provisioning.offers import NodeOffer
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert, parse_json

MAX_RECORDING_BYTES: Final = 64 << 20  # of a recording, unpacked
MAX_RECORDED: Final = 10_000_000  # samples of one recording
SHORT_LIFE_S: Final = 600.0  # life of a spot node below which the offer is left for a while
AVOIDED_S: Final = 1800.0  # time for which an offer is left after a short life
LOST_S: Final = 120.0  # work of a node that an interruption without enough notice undoes, on average
SAVED_S: Final = 60.0  # time that a node needs to save its work after a notice


@dataclass(frozen=True, eq=False)
class Recording:
    """Whether a spot node was there, in steps of equal length.

    Attributes:
        step_s: length of a step, seconds.
        up: (n,) whether the node was there in each step.
    """

    step_s: float
    up: Bools

    def part(self, first: int, last: int) -> Recording:
        """Steps from `first` to before `last`."""
        return Recording(self.step_s, self.up[first:last])


class _Meta(msgspec.Struct, frozen=True):
    gap_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class _Document(msgspec.Struct, frozen=True):
    metadata: _Meta
    data: Annotated[
        list[Annotated[int, msgspec.Meta(ge=0, le=1)]], msgspec.Meta(min_length=2, max_length=MAX_RECORDED)
    ]


def recording_from_json(text: str | bytes, *, where: str) -> Recording:
    """Recording of a document of the form `{"metadata": {"gap_seconds": 34}, "data": [0, 1, 1]}`.

    Args:
        text: JSON document; 1 stands for a node that is there.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of broken syntax, or the field that is wrong or missing.
    """
    found = convert(parse_json(text, where=where, max_bytes=MAX_RECORDING_BYTES), _Document, where=where)
    return Recording(found.metadata.gap_seconds, np.array(found.data, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class SpotSupply:
    """Which spot offer serves at each step of recordings that run side by side.

    Attributes:
        step_s: length of a step, seconds.
        offers: spot offers, the cheapest core first.
        serving: (n,) index of the offer that serves; -1 where none does.
        lost: (n,) whether the node that served in this step was taken away in the next one.
        left: how many times an offer was left because its nodes lived too shortly.
    """

    step_s: float
    offers: tuple[NodeOffer, ...]
    serving: Ints
    lost: Bools
    left: int

    @property
    def share_up(self) -> float:
        """Share of the time in which some offer serves."""
        return float((self.serving >= 0).mean())

    @property
    def interruptions_per_hour(self) -> float:
        """Mean number of interruptions in an hour of service."""
        served_h = float((self.serving >= 0).sum()) * self.step_s / 3600.0
        return float(self.lost.sum()) / served_h if served_h > 0 else 0.0

    @property
    def prices_per_core(self) -> Floats:
        """(n,) price of a core in an hour at each step, the currency's unit; 0 where no offer serves."""
        table = np.array([*(offer.price_per_core for offer in self.offers), 0.0])
        return table[self.serving]

    @property
    def lost_core_s(self) -> Floats:
        """(n,) work of a core that each step's end undoes, with the boot of the next node, in seconds."""
        undone = [offer.boot_s + (0.0 if offer.notice_s >= SAVED_S else LOST_S) for offer in self.offers]
        return np.where(self.lost, np.array([*undone, 0.0])[self.serving], 0.0)

    def part(self, first: int, last: int) -> SpotSupply:
        """Steps from `first` to before `last`."""
        return SpotSupply(
            self.step_s, self.offers, self.serving[first:last], self.lost[first:last], self.left
        )


def spot_supply(
    offers: Sequence[NodeOffer], recordings: Mapping[str, Recording], *, leaves: bool = True
) -> SpotSupply | None:
    """Which of several offers serves at each step: the cheapest that is there, until it is taken away.

    An offer whose node is taken away within ten minutes is left for half an hour.

    Args:
        offers: spot offers; those without a recording are not used.
        recordings: recording of each offer, by its name; all have one step length.
        leaves: whether an offer is left after a short life.

    Returns:
        Supply as long as the shortest recording; None without a recorded offer.

    Raises:
        InputError: recordings of different step lengths.
    """
    recorded = sorted(
        (offer for offer in offers if offer.name in recordings), key=lambda offer: offer.price_per_core
    )
    if not recorded:
        return None
    steps = {recordings[offer.name].step_s for offer in recorded}
    if len(steps) > 1:
        raise InputError(
            "recordings of interruptions have different steps: "
            + ", ".join(f"{step:g} s" for step in sorted(steps))
        )
    step_s = steps.pop()
    count = min(len(recordings[offer.name].up) for offer in recorded)
    up = np.array([recordings[offer.name].up[:count] for offer in recorded])
    serving, left = np.full(count, -1, dtype=np.int64), 0
    avoided_until = np.zeros(len(recorded), dtype=np.int64)
    now = 0
    # From change to change: a node serves until its recording says that it is gone.
    ends = [_ends(row) for row in up]
    while now < count:
        there = next(
            (one for one in range(len(recorded)) if up[one, now] and avoided_until[one] <= now), None
        )
        if there is None:
            now += 1
            continue
        end = int(ends[there][now])
        serving[now:end] = there
        if leaves and end < count and (end - now) * step_s < SHORT_LIFE_S:
            avoided_until[there] = end + round(AVOIDED_S / step_s)
            left += 1
        now = end
    lost = np.zeros(count, dtype=np.bool_)
    gone = np.array(
        [serving[at] >= 0 and not up[serving[at], at + 1] for at in range(count - 1)], dtype=np.bool_
    )
    lost[:-1] = gone
    return SpotSupply(step_s, tuple(recorded), serving, lost, left)


def _ends(up: Bools) -> Ints:
    """(n,) index of the next step in which a node is gone, from each step on."""
    count = len(up)
    gone = np.where(up, count, np.arange(count))
    found: Ints = np.minimum.accumulate(gone[::-1])[::-1]
    return found


def drawn_recording(
    rate_per_h: float, step_s: float, count: int, rng: np.random.Generator, *, away_s: float = 900.0
) -> Recording:
    """Recording drawn from a rate of interruptions, each of which lasts for a time of exponential law.

    Args:
        rate_per_h: mean number of interruptions in an hour.
        step_s: length of a step, seconds.
        count: number of steps of the recording.
        away_s: mean time without a node after an interruption, seconds.
    """
    up = np.ones(count, dtype=np.bool_)
    if rate_per_h <= 0:
        return Recording(step_s, up)
    at = 0.0
    while (at := at + rng.exponential(3600.0 / rate_per_h)) < count * step_s:
        away = rng.exponential(away_s)
        up[int(at / step_s) : max(int(at / step_s) + 1, int((at + away) / step_s))] = False
        at += away
    return Recording(step_s, up)
