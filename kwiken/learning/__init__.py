"""What traces tell beyond latencies: how copies would do, how sure a gain is, what drifts, and who pays."""

from __future__ import annotations

from kwiken.learning._caution import Caution
from kwiken.learning._classes import ClassOutcome, by_class
from kwiken.learning._decay import decayed
from kwiken.learning._drift import Drift, drift
from kwiken.learning._guesses import guess_copies

__all__ = ["Caution", "ClassOutcome", "Drift", "by_class", "decayed", "drift", "guess_copies"]
