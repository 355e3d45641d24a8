"""What traces tell beyond latencies: how copies would do, how sure a gain is, what drifts, and who pays."""

from __future__ import annotations

from kwiken.learning._caution import Caution, caution_notes
from kwiken.learning._classes import ClassOutcome, by_class
from kwiken.learning._decay import decayed
from kwiken.learning._drift import Drift, drift, drift_notes
from kwiken.learning._guesses import guess_by_kind, guess_copies

__all__ = [
    "Caution",
    "ClassOutcome",
    "Drift",
    "by_class",
    "caution_notes",
    "decayed",
    "drift",
    "drift_notes",
    "guess_by_kind",
    "guess_copies",
]
