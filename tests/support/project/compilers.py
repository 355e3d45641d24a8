"""Mark of tests that build the contention kernels."""

from __future__ import annotations

import shutil

import pytest

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler is installed here"
)
