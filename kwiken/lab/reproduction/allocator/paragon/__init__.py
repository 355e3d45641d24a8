"""Paragon: classification by platform and by source of contention, and the schedulers compared."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.paragon.episodes import (
    Episode as Episode,
    TwoEntries as TwoEntries,
    by_density as by_density,
    drawn as drawn,
    two_entries as two_entries,
)
from kwiken.lab.reproduction.allocator.paragon.parts import all_parts as all_parts
from kwiken.lab.reproduction.allocator.paragon.tables import (
    TABLE_3_2 as TABLE_3_2,
    sensitivities as sensitivities,
)
