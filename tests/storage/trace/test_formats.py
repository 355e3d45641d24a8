"""Reading block traces: the format is told from the content, and a wrong line is named."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.storage.trace.formats import FORMATS, trace_from_text
from tests.support.data.storage.traces import FORMAT_TEXTS


@pytest.mark.parametrize("name", FORMAT_TEXTS)
def test_every_format_is_told_from_its_content(name: str) -> None:
    trace = trace_from_text(FORMAT_TEXTS[name], where="x")
    assert trace.read.tolist() == [True, False]
    assert trace.size.tolist() == [8192, 4096]
    assert trace.start.tolist() == [4096, 8192]
    if name != "MQSim":
        assert trace.t_s[1] == pytest.approx(1e-3)
    assert name in {each.name for each in FORMATS}


def test_a_wrong_line_is_named() -> None:
    with pytest.raises(InputError, match=r"x:2: is no record"):
        trace_from_text("1000 0 8 16 1\n1000 0 8 x 1\n1000 0 8 16 1\n", where="x")


def test_a_cut_last_line_is_left_out_and_told() -> None:
    trace = trace_from_text("1000 0 8 16 1\n2000 0 8 16 1\n300", where="x")
    assert len(trace) == 2
    assert "cut" in trace.notes[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello\n", "no known format"),
        ("fio version 9 iolog\n", "version"),
        ("fio version 3 iolog\n0 a add\n", "no read"),
        ("fio version 3 iolog\n0 a read 8 8\n1 a write\n2 a close\n", "x:3: "),
        ("fio version 2 iolog\na read 8192\na wait 10\na write 8 8\n", "x:2: "),
        ("1000 0 8 0 1\n", "no I/O with bytes"),
        ("1000 0 999999999999999999 8 1\n", "x:1: the offset is"),
        ("# note\n1000 0 8 8 1\n\n1000 0 999999999999999999 8 1\n", "x:4: the offset is"),
        ("fio version 3 iolog\n0 a add\n0 a read 8 8\n1 a write 8 99999999999\n", "x:4: the size is"),
        ("t_s,volume,start,size,op,thread\n0,a,0,8,read,0\n", "x:2: is no record.* with R or W as op"),
    ],
)
def test_bad_traces_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        trace_from_text(text, where="x")


def test_a_log_of_fio_cut_within_a_number_of_its_last_write() -> None:
    trace = trace_from_text(
        "fio version 2 iolog\na add\na open\na read 8 8\na wait 10\na write 16", where="x"
    )
    assert trace.start.tolist() == [8]
    assert "cut" in trace.notes[0]


def test_a_clock_that_runs_backwards_is_told() -> None:
    trace = trace_from_text("2000 0 8 16 1\n1000 0 64 16 0\n", where="x")
    assert trace.read.tolist() == [False, True]
    assert "backwards" in trace.notes[0]


@given(st.text(max_size=300))
def test_any_text_is_a_trace_or_one_error(text: str) -> None:
    try:
        trace = trace_from_text(text, where="x")
    except InputError:
        return
    assert len(trace) > 0
