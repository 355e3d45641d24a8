"""Traces whose numbers and names are too long."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.storage.trace.formats import trace_from_text

LONG = 900


def test_a_sector_beyond_64_bits_is_refused_and_does_not_wrap() -> None:
    text = "".join(f"{1000 * k} 0 {1 << 55} 8 1\n" for k in range(5))  # 2^64 bytes, which wrap to 0
    with pytest.raises(InputError, match="trace:1: the offset is"):
        trace_from_text(text, where="trace")


def test_a_long_name_takes_its_own_length_for_each_io_alone() -> None:
    rows = [f"{k} disk read {4096 * k} 4096\n" for k in range(200)]
    rows.append(f"300 {'x' * LONG} read 0 4096\n")
    trace = trace_from_text("fio version 3 iolog\n" + "".join(rows), where="trace")
    assert trace.volumes == ("disk", "x" * LONG)
    assert np.bincount(trace.volume).tolist() == [200, 1]
