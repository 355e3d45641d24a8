"""Cases from the field: small trace files after public bug reports, beside the repository; skipped where missing."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "field"


def field_file(name: str) -> Path:
    """Path of a case by the start of its file's name; skips the test where the data are missing."""
    found = sorted(_FOLDER.glob(f"{name}*"))
    if not found:
        pytest.skip(f"../shared/data/field/{name}* is not there")
    return found[0]
