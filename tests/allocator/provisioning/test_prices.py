"""Price lists: what is read, and one clear line for each kind of bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwiken.allocator.provisioning.offers import Terms, prices_from_toml
from kwiken.base.errors import InputError

HEAD = 'currency = "USD"\ndate = 2026-11-01\nsource = "a page"\n'
ON_DEMAND = '[[offers]]\nname = "od"\nclass = "small"\nterms = "on-demand"\ncores = 4\nprice_per_hour = 0.2\n'
RESERVED = (
    '[[offers]]\nname = "year"\nclass = "small"\nterms = "reserved"\ncores = 4\nprice_per_hour = 0.125\n'
    "term_days = 365\n"
)
SPOT = '[[offers]]\nname = "spot"\nclass = "small"\nterms = "spot"\ncores = 4\nprice_per_hour = 0.07\n'


def test_offers_are_read_with_the_cheapest_core_first() -> None:
    prices = prices_from_toml(
        HEAD + ON_DEMAND + ON_DEMAND.replace("od", "big").replace("small", "large").replace("= 4", "= 16"),
        where="prices.toml",
    )
    assert [offer.name for offer in prices.on_demand] == ["big", "od"]
    assert prices.date == "2026-11-01"
    assert prices.of(Terms.SPOT) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD.replace("date = 2026-11-01\n", "") + ON_DEMAND, "date: is missing"),
        (HEAD.replace("2026-11-01", '"soon"') + ON_DEMAND, "date: must be a day"),
        (HEAD.replace("2026-11-01", "2026-11-01T10:00:00Z") + ON_DEMAND, "date: must be a day"),
        (HEAD.replace('source = "a page"\n', "") + ON_DEMAND, "source"),
        (HEAD + ON_DEMAND + RESERVED + 'currency = "EUR"\n', "offers[1].currency: is 'EUR'"),
        (HEAD + ON_DEMAND.replace("0.2", "0"), "offers[0].price_per_hour: must be above 0"),
        (HEAD + ON_DEMAND.replace("0.2", "-1"), "offers[0].price_per_hour: must be above 0"),
        (HEAD + ON_DEMAND.replace("0.2", "nan"), "price_per_hour"),
        (HEAD + ON_DEMAND.replace("0.2", "inf"), "price_per_hour"),
        (HEAD + ON_DEMAND.replace("cores = 4", "cores = 0"), "cores"),
        (HEAD + ON_DEMAND + ON_DEMAND, "offers[1].name: 'od' is given twice"),
        (HEAD + RESERVED, "none is on demand"),
        (HEAD + ON_DEMAND + RESERVED.replace("term_days = 365\n", ""), "a reservation has a term"),
        (HEAD + ON_DEMAND + RESERVED.replace("= 365", "= 0"), "term_days must be from 1"),
        (HEAD + ON_DEMAND + RESERVED.replace("cores = 4", "cores = 8"), "offers[1].cores: is 8"),
        (HEAD + ON_DEMAND + "term_days = 30\n", "term_days is for reserved offers alone"),
        (HEAD + ON_DEMAND + "held = 2\n", "held is for reserved offers alone"),
        (HEAD + ON_DEMAND + SPOT, "either interruptions_per_hour or interruptions"),
        (HEAD + ON_DEMAND + SPOT + 'interruptions_per_hour = 1.0\ninterruptions = "x.json"\n', "either"),
        (HEAD + ON_DEMAND + "interruptions_per_hour = 1.0\n", "for spot offers alone"),
        (HEAD + ON_DEMAND + "colour = 1\n", "unknown field `colour`"),
        (HEAD + ON_DEMAND + "boot_s = -1\n", "boot_s"),
        (HEAD + ON_DEMAND.replace('"on-demand"', '"lease"'), "terms"),
        (HEAD, "offers"),
        ("currency = \n", "broken TOML"),
        ("", "is empty"),
    ],
)
def test_bad_prices_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as failed:
        prices_from_toml(text, where="prices.toml")
    assert str(failed.value).startswith("prices.toml")
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    "path", sorted(Path("examples/provision/prices").glob("*.toml")), ids=lambda path: path.stem
)
def test_lists_of_providers_say_where_and_when_their_prices_held(path: Path) -> None:
    text = path.read_text()
    prices = prices_from_toml(text, where=str(path))
    assert re.match(r"https://github\.com/.+/blob/[0-9a-f]{40}/", prices.source)
    assert "2023" <= prices.date < "2027"
    hourly = {offer.node_class: offer.price_per_core for offer in prices.on_demand}
    assert all(offer.price_per_core < hourly[offer.node_class] for offer in prices.reserved)
    families: dict[str, set[float]] = {}
    for node_class, price in hourly.items():  # sizes of one family have one price of a core
        families.setdefault(re.sub(r"\d+(?=s_|ls_|$)|\.\d*xlarge", "", node_class), set()).add(
            round(price, 6)
        )
    assert all(len(found) == 1 for found in families.values()), families
    forms = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# [["))
    assert forms, "offers that the source has no price of stand as forms"
