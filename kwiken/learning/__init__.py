"""What traces tell beyond latencies: how copies would do, what drifts, and who pays."""

from __future__ import annotations

from kwiken.learning._guesses import guess_copies

__all__ = ["guess_copies"]
