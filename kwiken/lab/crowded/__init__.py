"""Crowded world: managers compared in a world that is not their schedulers' model."""

from __future__ import annotations

from kwiken.lab.crowded.comparison import (
    ABLATED_PAIRS as ABLATED_PAIRS,
    CROWDED_PAIRS as CROWDED_PAIRS,
    ORDERED as ORDERED,
    ablated as ablated,
    crowded as crowded,
    paired as paired,
)
from kwiken.lab.crowded.managers import CROWDED_MANAGERS as CROWDED_MANAGERS
from kwiken.lab.crowded.truth import ABLATIONS as ABLATIONS, LOADS as LOADS
