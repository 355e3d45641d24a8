"""Public data files beside the repository, in `../shared/data`: a test whose file is missing is skipped, by its name.

The licences of some allow no copy in the project. What a generator can make is made by the tests instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_FOLDER: Final = Path(__file__).resolve().parents[4] / "shared" / "data"


def public_file(name: str) -> Path:
    """Path of a file or folder; the test that asks for one which is missing is skipped.

    Args:
        name: path from `../shared/data`.
    """
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"the public file {name} is not in ../shared/data")
    return path
