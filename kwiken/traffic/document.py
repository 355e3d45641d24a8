"""Traffic model: the document that says who sends how much to whom in which window, as versioned JSON."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct
from kwiken.traffic.flows import (
    MAX_BIN_S,
    MAX_ENDPOINTS,
    MAX_INSTANT_S,
    MAX_PAIRS,
    TrafficEndpoint,
    TrafficUnit,
)
from kwiken.traffic.maps import MapLevel, TrafficMap, level_map
from kwiken.traffic.windows import DayWindow

VERSION: Final = 2  # 1 had the rank of a low-rank map
MAX_BYTES: Final = 512 << 20  # of a document
MAX_WINDOWS: Final = 100
REL_ROUNDING: Final = 1e-6  # of a sum of shares
_NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
_Length = Annotated[float, msgspec.Meta(ge=1e-3, le=MAX_BIN_S)]
_Instant = Annotated[float, msgspec.Meta(ge=-MAX_INSTANT_S, le=MAX_INSTANT_S + MAX_BIN_S)]
_Index = Annotated[int, msgspec.Meta(ge=0, lt=MAX_ENDPOINTS)]


class LearnedWindow(StrictStruct, frozen=True, kw_only=True):
    """Traffic in one window of the day.

    Attributes:
        seconds: length of the bins that had traffic, seconds.
        amount: calls or bytes in these bins.
        shares: share of each pair in the window's traffic, 0 to 1; they sum to 1.
    """

    window: DayWindow
    seconds: _NotNegative
    amount: _NotNegative
    shares: Annotated[list[_NotNegative], msgspec.Meta(max_length=MAX_PAIRS)]


class PriorWeights(StrictStruct, frozen=True, kw_only=True):
    """Weight of a parent's prior in the shares of its pairs, in calls or bytes; 0 for the plain mean.

    Attributes:
        service: weight of a pair of groups in the shares of its pairs of services.
        instance: weight of a pair of services in the shares of its pairs of instances.
    """

    service: _NotNegative
    instance: _NotNegative


class TrafficModel(JsonDocument, frozen=True, kw_only=True):
    """Who sends how much to whom, by window of the day.

    Attributes:
        version: version of the format; must be 2.
        bin_s: length of the time bins that it was learned from, seconds.
        from_s: start of the first bin, seconds since 1970.
        until_s: end of the last bin, seconds since 1970.
        endpoints: instances at both ends.
        source: index of the sender of each pair.
        target: index of the receiver of each pair.
        seen: amount of each pair that was seen, calls or bytes; 0 for pairs that only their parents expect.
        prior: weights of the priors, as held-out bins chose them.
    """

    FORMAT: ClassVar = DocumentFormat(VERSION, MAX_BYTES, indented=False)

    version: int
    unit: TrafficUnit
    bin_s: _Length
    from_s: _Instant
    until_s: _Instant
    endpoints: Annotated[list[TrafficEndpoint], msgspec.Meta(min_length=2, max_length=MAX_ENDPOINTS)]
    source: Annotated[list[_Index], msgspec.Meta(min_length=1, max_length=MAX_PAIRS)]
    target: Annotated[list[_Index], msgspec.Meta(min_length=1, max_length=MAX_PAIRS)]
    seen: Annotated[list[_NotNegative], msgspec.Meta(max_length=MAX_PAIRS)]
    prior: PriorWeights
    windows: Annotated[list[LearnedWindow], msgspec.Meta(min_length=1, max_length=MAX_WINDOWS)]

    def check(self, where: str) -> None:
        """Check that columns fit one another, indices the endpoints, and shares sum to 1."""
        count, pairs = len(self.endpoints), len(self.source)
        for name, column in (("target", self.target), ("seen", self.seen)):
            if len(column) != pairs:
                raise InputError(f"{name} has {len(column)} entries, and source has {pairs}", where=where)
        for name, column in (("source", self.source), ("target", self.target)):
            if max(column) >= count:
                raise InputError(f"{name}: no endpoint {max(column)}; there are {count}", where=where)
        if len({(one.service, one.name) for one in self.endpoints}) < count:
            raise InputError("endpoints: two have the same service and name", where=where)
        if len(set(zip(self.source, self.target, strict=True))) < pairs:
            raise InputError("source and target: a pair is given twice", where=where)
        if self.until_s <= self.from_s:
            raise InputError("until_s must be above from_s", where=where)
        for place, each in enumerate(self.windows):
            _check_window(each, f"windows[{place}]", pairs, where)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """(p,) indices of the senders, and of the receivers."""
        return np.array(self.source, np.int64), np.array(self.target, np.int64)

    def rates_per_s(self, window: int | None = None) -> Floats:
        """(p,) calls or bytes a second by pair, while there is traffic.

        Args:
            window: index of a window; None for the mean over all time that had traffic.
        """
        found = np.zeros(len(self.source))
        seconds = 0.0
        for place, each in enumerate(self.windows):
            if window in {None, place}:
                found += each.amount * np.array(each.shares)
                seconds += each.seconds
        return found / seconds if seconds > 0 else found

    def traffic_map(self, level: MapLevel, window: int | None = None) -> TrafficMap:
        """Calls or bytes a second by pair at a level.

        Args:
            window: index of a window; None for the mean over all time that had traffic.
        """
        return level_map(self.endpoints, level, *self.pairs, self.rates_per_s(window))


def _check_window(each: LearnedWindow, path: str, pairs: int, where: str) -> None:
    if each.window.until_h <= each.window.from_h:
        raise InputError(f"{path}.window.until_h must be above from_h", where=where)
    if len(each.shares) != pairs:
        raise InputError(f"{path}.shares has {len(each.shares)} entries, and source has {pairs}", where=where)
    if each.amount > 0 and not each.seconds > 0:
        raise InputError(f"{path}.seconds must be above 0, since amount is", where=where)
    if abs(sum(each.shares) - 1.0) > REL_ROUNDING:
        raise InputError(f"{path}.shares must sum to 1", where=where)
