"""Price lists for tests: cores on demand at 1 an hour, and reserved for a year."""

from __future__ import annotations

SPOT_OFFER = """
[[offers]]
name = "spot"
class = "core"
terms = "spot"
cores = 1
price_per_hour = 0.3
interruptions = "zone.json"
"""


def price_list(
    ratio: float = 1.6, cores: float = 1.0, held: int = 0, extra: str = "", boot_s: float = 0.0
) -> str:
    """TOML of two offers of one class, and more if given."""
    return f"""
currency = "unit"
date = 2026-11-01
source = "normalised"
[[offers]]
name = "hour"
class = "core"
terms = "on-demand"
cores = {cores}
price_per_hour = {cores}
boot_s = {boot_s}
[[offers]]
name = "year"
class = "core"
terms = "reserved"
cores = {cores}
price_per_hour = {cores / ratio}
term_days = 365
held = {held}
{extra}"""
