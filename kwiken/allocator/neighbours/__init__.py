"""Neighbours of a workload: a hashed index, prediction from neighbours as published, and error intervals."""

from __future__ import annotations

from kwiken.allocator.neighbours.hashed_index import (
    HashFamily as HashFamily,
)
from kwiken.allocator.neighbours.intervals import (
    SourcePlan as SourcePlan,
    allowed_slowdown as allowed_slowdown,
    sources_to_measure as sources_to_measure,
)
from kwiken.allocator.neighbours.prediction import (
    HashedPredictor as HashedPredictor,
    training_rows as training_rows,
)
