"""Neighbours of a workload: a hashed index, prediction from neighbours as published, and error intervals."""

from __future__ import annotations

from kwiken.allocator.neighbours.hashed_index import (
    HashedIndex as HashedIndex,
    collision_probability as collision_probability,
    tables_for as tables_for,
)
from kwiken.allocator.neighbours.intervals import (
    ErrorInterval as ErrorInterval,
    SourcePlan as SourcePlan,
    allowed_slowdown as allowed_slowdown,
    error_intervals as error_intervals,
    sources_to_measure as sources_to_measure,
)
from kwiken.allocator.neighbours.prediction import (
    HashedPredictor as HashedPredictor,
    NeighbourPrediction as NeighbourPrediction,
    training_rows as training_rows,
)
