"""Scores: quality that a job needs and that a node offers, from predictions and the ledger."""

from __future__ import annotations

from kwiken.allocator.waiting.scores.lines_for_jobs import planned_lines as planned_lines
from kwiken.allocator.waiting.scores.pressure import (
    job_quality as job_quality,
    node_qualities as node_qualities,
    offered_by_class as offered_by_class,
)
from kwiken.allocator.waiting.scores.suitability import SuitableQuality as SuitableQuality
