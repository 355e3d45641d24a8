"""Flows: who sent how much to whom and when, and the endpoints at both ends with their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

MAX_ENDPOINTS: Final = 100_000
MAX_PAIRS: Final = 4_000_000
MAX_BINS: Final = 1_000_000
MAX_INSTANT_S: Final = 4e9  # seconds since 1970, the year 2096
MAX_BIN_S: Final = 366 * 86_400.0
OUTSIDE: Final = "(outside)"  # name of the one endpoint that stands for all that is not known
_Name = Annotated[str, msgspec.Meta(max_length=500)]


class TrafficUnit(StrEnum):
    """Unit of the amounts of traffic.

    Attributes:
        CALLS: number of calls from one endpoint to another.
        BYTES: number of bytes that one endpoint sends to another.
    """

    CALLS = "calls"
    BYTES = "bytes"


class TrafficEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One instance of a service that sends or receives.

    Attributes:
        name: name of the instance, such as a pod; that of its service where no instance is stated.
        node: name of the machine; empty where it is not stated.
        zone: name of the zone; empty where it is not stated.
        group: number of the group of services that its service was found to be in; empty before that.
    """

    name: _Name
    service: _Name
    node: _Name = ""
    zone: _Name = ""
    group: _Name = ""


@dataclass(frozen=True, eq=False)
class Flows:
    """Transfers between endpoints: n of them, in any order.

    Attributes:
        endpoints: both ends of the transfers; `source` and `target` are indices into them.
        start_s: (n,) time at which each transfer began, seconds since 1970.
        source: (n,) index of the endpoint that sends or calls.
        target: (n,) index of the endpoint that receives or is called.
        amount: (n,) calls or bytes of each transfer, 0 or more.
    """

    endpoints: tuple[TrafficEndpoint, ...]
    unit: TrafficUnit
    start_s: Floats
    source: Ints
    target: Ints
    amount: Floats

    def __len__(self) -> int:
        return len(self.start_s)

    def during(self, since_s: float, until_s: float) -> Flows:
        """The transfers that begin in a time.

        Args:
            since_s: start of the time, seconds since 1970.
            until_s: end of the time, seconds since 1970.

        Raises:
            InputError: none does.
        """
        some = (self.start_s >= since_s) & (self.start_s < until_s)
        if not some.any():
            raise InputError("no traffic begins in this time", where="during")
        return replace(
            self,
            start_s=self.start_s[some],
            source=self.source[some],
            target=self.target[some],
            amount=self.amount[some],
        )


@dataclass(frozen=True, eq=False)
class BinnedFlows:
    """Flows summed by time bin and pair: only bins and pairs with traffic are kept.

    Attributes:
        bin_s: length of a bin, seconds.
        starts_s: (b,) start of each bin that has traffic, ascending, seconds since 1970.
        source: (p,) index of the sending endpoint of each pair.
        target: (p,) index of the receiving endpoint of each pair.
        amounts: (b, p) calls or bytes by bin and pair.
    """

    endpoints: tuple[TrafficEndpoint, ...]
    unit: TrafficUnit
    bin_s: float
    starts_s: Floats
    source: Ints
    target: Ints
    amounts: Floats

    @property
    def total(self) -> Floats:
        """(p,) amount of each pair over all bins."""
        return np.asarray(self.amounts.sum(axis=0))

    @property
    def seconds(self) -> float:
        """Length of all bins that have traffic, seconds."""
        return self.bin_s * len(self.starts_s)

    def during(self, bins: Ints) -> BinnedFlows:
        """The same pairs in some of the bins.

        Args:
            bins: (k,) indices of the bins to keep, ascending.
        """
        return BinnedFlows(
            self.endpoints,
            self.unit,
            self.bin_s,
            self.starts_s[bins],
            self.source,
            self.target,
            self.amounts[bins],
        )


def binned(flows: Flows, bin_s: float) -> BinnedFlows:
    """Sum flows by time bin and pair; transfers of an endpoint to itself are left out.

    Args:
        bin_s: length of a bin, above 0, seconds.

    Raises:
        InputError: there is no traffic between two endpoints, too many pairs and bins, or too long bins.
    """
    if not 0 < bin_s <= MAX_BIN_S:
        raise InputError(f"bins of {bin_s:g} s: must be above 0 and at most {MAX_BIN_S:g} s")
    apart = (flows.source != flows.target) & (flows.amount > 0)
    if not apart.any():
        raise InputError("holds no traffic between two endpoints")
    count = len(flows.endpoints)
    keys, pair = np.unique(flows.source[apart] * count + flows.target[apart], return_inverse=True)
    ticks, at = np.unique(np.floor(flows.start_s[apart] / bin_s).astype(np.int64), return_inverse=True)
    if len(ticks) * len(keys) > MAX_PAIRS * 16 or len(ticks) > MAX_BINS:
        raise InputError(
            f"there are {len(keys)} pairs in {len(ticks)} bins of {bin_s:g} s, which is too many; "
            "choose longer bins"
        )
    flat = summed(at * len(keys) + pair, flows.amount[apart], len(ticks) * len(keys))
    return BinnedFlows(
        flows.endpoints,
        flows.unit,
        bin_s,
        ticks * bin_s,
        keys // count,
        keys % count,
        flat.reshape(len(ticks), len(keys)),
    )


def summed(places: Ints, amount: Floats, length: int) -> Floats:
    """(length,) sum of the amounts at each place.

    Args:
        places: (n,) index of the place of each amount.
        amount: (n,) amounts.
        length: number of places, those without an amount among them.
    """
    return np.asarray(np.bincount(places, amount, length), np.float64)


def of_endpoints(endpoints: Sequence[TrafficEndpoint], field: str) -> tuple[list[str], Ints]:
    """Distinct values of one field of some endpoints, in order of first use, and each endpoint's number.

    Args:
        field: `name`, `service`, `node`, `zone` or `group`; an empty value is a place of its own.
    """
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(getattr(one, field) or f"({one.service})", len(numbers)) for one in endpoints]
    return list(numbers), np.array(found, np.int64)
