"""Offers: terms on which nodes of a class can be had, and the dated document that lists their prices."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert
from kwiken.base.parsing.strict_toml import parse_toml

MAX_PRICES_BYTES: Final = 4 << 20  # of a document of prices
MAX_OFFERS: Final = 1000
MAX_PRICE: Final = 1e6  # of one node in an hour, in any currency
MIN_PRICE: Final = 1e-6
MAX_CORES: Final = 4096.0  # of one node
MAX_MEMORY_GB: Final = 1e6  # of one node
MAX_TERM_DAYS: Final = 3660
MAX_BOOT_S: Final = 86_400.0
MAX_HELD: Final = 100_000
MAX_INTERRUPTIONS_PER_HOUR: Final = 3600.0
HOURS_PER_DAY: Final = 24.0
_DATE: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Terms(StrEnum):
    """Terms of an offer.

    Attributes:
        ON_DEMAND: rented and given back at any time.
        RESERVED: paid for a whole term, used or not.
        SPOT: rented at any time, and taken away by the provider at any time.
    """

    ON_DEMAND = "on-demand"
    RESERVED = "reserved"
    SPOT = "spot"


class NodeOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Terms and price of nodes of one class.

    Attributes:
        name: unique name of the offer.
        node_class: class of the nodes, as in a document of nodes; `class` in TOML.
        cores: number of cores of one node that workloads may use.
        memory_gb: memory of one node, in units of GB; None where it is not known.
        price_per_hour: cost of one node in an hour; of a reserved one the price of the whole term, with what
            is paid in advance, over its hours.
        boot_s: time from the order to a node that serves, seconds.
        min_billed_s: shortest time that is billed, seconds.
        term_days: length of a reservation, days; for reserved offers alone.
        upfront: share of a reservation's price that is paid in advance, 0 to 1.
        held: number of nodes that are reserved already on these terms.
        interruptions_per_hour: mean number of interruptions of one node in an hour; for spot alone.
        interruptions: path of a recording of interruptions, in place of the rate; for spot alone.
        notice_s: time between the notice of an interruption and the interruption, seconds.
    """

    name: _Name
    node_class: _Name = msgspec.field(name="class")
    terms: Terms
    cores: float
    memory_gb: float | None = None
    price_per_hour: float
    boot_s: float = 0.0
    min_billed_s: float = 0.0
    term_days: int | None = None
    upfront: float = 0.0
    held: int = 0
    interruptions_per_hour: float | None = None
    interruptions: _Name | None = None
    notice_s: float = 0.0

    def __post_init__(self) -> None:
        """Check bounds, and that fields of one kind of terms stand with no other."""
        _between("price_per_hour", self.price_per_hour, MIN_PRICE, MAX_PRICE)
        _between("cores", self.cores, 1e-3, MAX_CORES)
        if self.memory_gb is not None:
            _between("memory_gb", self.memory_gb, 1e-3, MAX_MEMORY_GB)
        for name in ("boot_s", "min_billed_s", "notice_s"):
            _between(name, getattr(self, name), 0.0, MAX_BOOT_S)
        _between("upfront", self.upfront, 0.0, 1.0)
        if not 0 <= self.held <= MAX_HELD:
            raise ValueError(f"held must be from 0 to {MAX_HELD}, not {self.held}")
        self._check_reservation()
        self._check_interruptions()

    def _check_reservation(self) -> None:
        reserved = self.terms is Terms.RESERVED
        if reserved and self.term_days is None:
            raise ValueError("term_days is missing: a reservation has a term")
        if self.term_days is not None and not 1 <= self.term_days <= MAX_TERM_DAYS:
            raise ValueError(f"term_days must be from 1 to {MAX_TERM_DAYS}, not {self.term_days}")
        given = {"term_days": self.term_days is not None, "upfront": self.upfront > 0, "held": self.held > 0}
        for name, is_given in given.items():
            if is_given and not reserved:
                raise ValueError(f"{name} is for reserved offers alone")

    def _check_interruptions(self) -> None:
        spot = self.terms is Terms.SPOT
        known = [self.interruptions_per_hour is not None, self.interruptions is not None]
        if any(known) and not spot:
            raise ValueError("interruptions are for spot offers alone")
        if spot and sum(known) != 1:
            raise ValueError("give a spot offer either interruptions_per_hour or interruptions, a recording")
        if self.interruptions_per_hour is not None:
            most = MAX_INTERRUPTIONS_PER_HOUR
            _between("interruptions_per_hour", self.interruptions_per_hour, 0.0, most)

    @property
    def price_per_core(self) -> float:
        """Price of one core in an hour, in the currency's unit."""
        return self.price_per_hour / self.cores


def _between(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError unless a value is within bounds; NaN fails too."""
    if not (math.isfinite(value) and least <= value <= most):
        raise ValueError(f"{name} must be a finite number from {least:g} to {most:g}, not {value}")


@dataclass(frozen=True)
class PriceList:
    """Offers of one date and currency.

    Attributes:
        currency: name of the currency of all prices, such as USD.
        date: day on which the prices held, as YYYY-MM-DD.
        source: where the prices are from, such as the address of a page.
        offers: offers in the document's order; one or more are on demand.
    """

    currency: str
    date: str
    source: str
    offers: tuple[NodeOffer, ...]

    def of(self, terms: Terms) -> tuple[NodeOffer, ...]:
        """Offers on some terms, the cheapest core first."""
        found = [offer for offer in self.offers if offer.terms is terms]
        return tuple(sorted(found, key=lambda offer: offer.price_per_core))

    @property
    def on_demand(self) -> tuple[NodeOffer, ...]:
        """Offers on demand, the cheapest core first; one or more."""
        return self.of(Terms.ON_DEMAND)

    @property
    def reserved(self) -> tuple[NodeOffer, ...]:
        """Reserved offers, the cheapest core first."""
        return self.of(Terms.RESERVED)

    @property
    def spot(self) -> tuple[NodeOffer, ...]:
        """Spot offers, the cheapest core first."""
        return self.of(Terms.SPOT)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    currency: Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
    date: Any
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    offers: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1, max_length=MAX_OFFERS)]


def prices_from_toml(text: str | bytes, *, where: str) -> PriceList:
    """Price list of a `prices.toml`, with the offers in the document's order.

    Args:
        text: TOML document with `currency`, `date`, `source` and tables `[[offers]]`, the fields of
            `NodeOffer`.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of broken syntax, or the offer and field that is wrong or unknown: no date,
            an offer in another currency, a price of 0 or less, a name that is given twice, nothing on demand.
    """
    raw = parse_toml(text, where=where, max_bytes=MAX_PRICES_BYTES)
    if "date" not in raw:
        raise InputError("date: is missing; prices hold on a day, such as date = 2026-11-01", where=where)
    found = convert(raw, _Document, where=where)
    date = str(found.date)
    if not _DATE.fullmatch(date):
        raise InputError(f"date: must be a day such as 2026-11-01, not {date!r}", where=where)
    offers: list[NodeOffer] = []
    for place, table in enumerate(found.offers):
        own = table.pop("currency", found.currency)
        if own != found.currency:
            raise InputError(
                f"offers[{place}].currency: is {own!r}, and the document's is {found.currency!r}; "
                "prices of two currencies cannot be added",
                where=where,
            )
        price = table.get("price_per_hour")
        if isinstance(price, int | float) and not price > 0:
            raise InputError(f"offers[{place}].price_per_hour: must be above 0, not {price}", where=where)
        try:
            offer = convert(table, NodeOffer, where=where)
        except InputError as error:
            raise InputError(f"offers[{place}]: {error.problem}", where=where) from error
        if any(offer.name == other.name for other in offers):
            raise InputError(f"offers[{place}].name: {offer.name!r} is given twice", where=where)
        offers.append(offer)
    _check_cores(offers, where)
    prices = PriceList(found.currency, date, found.source, tuple(offers))
    if not prices.on_demand:
        raise InputError(
            "offers: none is on demand, so load above what is reserved has no price", where=where
        )
    return prices


def _check_cores(offers: list[NodeOffer], where: str) -> None:
    """Refuse two sizes of one class."""
    cores: dict[str, float] = {}
    for place, offer in enumerate(offers):
        if cores.setdefault(offer.node_class, offer.cores) != offer.cores:
            raise InputError(
                f"offers[{place}].cores: is {offer.cores:g}, and an offer before says "
                f"{cores[offer.node_class]:g} for class {offer.node_class!r}",
                where=where,
            )
