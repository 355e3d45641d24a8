"""Arrival processes of the load generator: Poisson, constant, and rates from a file."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from numpy.typing import NDArray
from scipy import stats

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.arrivals import Arrivals, parse_arrivals, read_rps
from tests.support.loadtest.rates import hour_of_rates


def times(arrivals: Arrivals, seed: int = 1) -> NDArray[np.float64]:
    return np.concatenate(list(arrivals.chunks(np.random.default_rng(seed))))


def steady(rate: float, duration: float, *, poisson: bool) -> Arrivals:
    return Arrivals(rates=(rate,), poisson=poisson, duration_s=duration)


rate_lists = st.lists(st.one_of(st.just(0.0), st.floats(0.5, 300)), min_size=1, max_size=8).filter(any)


def test_poisson_gaps_are_exponential() -> None:
    starts = times(steady(500, 100, poisson=True))
    gaps = np.diff(starts)
    assert stats.kstest(gaps, stats.expon(scale=1 / 500).cdf).pvalue > 1e-3
    # Gaps of a Poisson process do not remember each other.
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4 / math.sqrt(len(gaps))


def test_poisson_counts_are_poisson() -> None:
    counts = np.histogram(times(steady(50, 400, poisson=True)), bins=400, range=(0, 400))[0]
    assert abs(counts.mean() - 50) < 4 * math.sqrt(50 / 400)
    # Index of dispersion: variance / mean is 1, its error about sqrt(2 / n).
    assert abs(counts.var(ddof=1) / counts.mean() - 1) < 4 * math.sqrt(2 / 400)


def test_constant_gaps_are_even() -> None:
    starts = times(steady(200, 10, poisson=False))
    assert len(starts) == 2000
    assert np.allclose(starts, np.arange(2000) / 200, atol=1e-9)


@given(rates=rate_lists, duration=st.floats(0.1, 30))
def test_even_arrivals_follow_the_integral_of_the_rate(rates: list[float], duration: float) -> None:
    assume(any(rates[: math.ceil(duration)]))
    arrivals = Arrivals(rates=tuple(rates), poisson=False, duration_s=duration)
    starts = times(arrivals)
    assert np.all(np.diff(starts) >= 0)
    assert np.all((starts >= 0) & (starts < duration))
    # The k-th starts where the integral of the rate reaches k.
    for index in range(0, len(starts), max(1, len(starts) // 20)):
        assert arrivals.expected(float(starts[index])) == pytest.approx(index, abs=1e-6)
    assert abs(len(starts) - arrivals.expected(duration)) <= 1 + 1e-6


@given(rates=rate_lists, seed=st.integers(0, 2**32))
def test_nothing_starts_while_the_rate_is_zero(rates: list[float], seed: int) -> None:
    arrivals = Arrivals(rates=tuple(rates), poisson=True, duration_s=3.0 * len(rates))
    seconds = np.floor(times(arrivals, seed) + 1e-9).astype(int) % len(rates)
    assert all(rates[second] > 0 for second in seconds)


@given(rates=rate_lists, seed=st.integers(0, 2**32))
def test_poisson_counts_follow_the_integral_of_the_rate(rates: list[float], seed: int) -> None:
    arrivals = Arrivals(rates=tuple(rates), poisson=True, duration_s=4.0 * len(rates))
    mean = arrivals.expected(4.0 * len(rates))
    assert mean == pytest.approx(4 * sum(rates))
    assert abs(len(times(arrivals, seed)) - mean) < 7 * math.sqrt(mean) + 7


def test_the_same_seed_gives_the_same_schedule() -> None:
    arrivals = steady(100, 20, poisson=True)
    assert np.array_equal(times(arrivals, 7), times(arrivals, 7))
    assert not np.array_equal(times(arrivals, 7)[:50], times(arrivals, 8)[:50])


def test_without_a_duration_it_never_ends() -> None:
    endless = Arrivals(rates=(0.0, 2000.0), poisson=True, duration_s=None)
    chunks = list(itertools.islice(endless.chunks(np.random.default_rng(1)), 50))
    starts = np.concatenate(chunks)
    assert len(starts) == 50 * 1024
    assert np.all(np.diff(starts) >= 0)
    assert len(starts) / starts[-1] == pytest.approx(1000, rel=0.05)


@given(rates=rate_lists, mean=st.floats(0.5, 500), duration=st.floats(0.5, 20))
def test_a_shape_scales_to_any_mean(rates: list[float], mean: float, duration: float) -> None:
    shape = Arrivals(rates=(1.0, *rates), poisson=True, duration_s=duration)
    assume(max(rates) * mean * duration / shape.expected(duration) < 100_000)
    scaled = shape.scaled_to(mean)
    assert scaled.expected(duration) == pytest.approx(mean * duration)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_production_shapes(noise: float, tmp_path: Path) -> None:
    path = hour_of_rates(tmp_path, noise)
    rates = np.loadtxt(path)
    shape = parse_arrivals(str(path), rate=None, duration_s=None)
    assert shape.duration_s == len(rates) == 3600
    starts = times(shape)
    per_minute = np.histogram(starts, bins=60, range=(0, 3600))[0]
    asked = rates.reshape(60, 60).sum(axis=1)
    assert np.all(np.abs(per_minute - asked) < 5.5 * np.sqrt(asked))
    even = times(parse_arrivals(f"constant:{path}", rate=None, duration_s=None))
    assert np.all(np.abs(np.histogram(even, bins=60, range=(0, 3600))[0] - asked) <= 2)


def test_a_production_shape_at_another_rate_keeps_its_form(tmp_path: Path) -> None:
    path = hour_of_rates(tmp_path, 0.4)
    scaled = parse_arrivals(str(path), rate=40, duration_s=600)
    assert scaled.expected(600) == pytest.approx(40 * 600)
    rates = np.loadtxt(path)
    assert np.allclose(np.asarray(scaled.rates) / scaled.rates[0], rates / rates[0])


def test_a_file_starts_over_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "rps"
    path.write_text("0\n100\n")
    starts = times(parse_arrivals(f"constant:{path}", rate=None, duration_s=4))
    assert np.allclose(starts, np.concatenate([1 + np.arange(100) / 100, 3 + np.arange(100) / 100]))


def test_windows_line_ends_and_trailing_blank_lines_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "rps"
    path.write_bytes(b"\xef\xbb\xbf1\r\n2.5\r\n\r\n\n")
    assert read_rps(str(path)) == (1.0, 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nten\n", "rps:2: 'ten' is not a number"),
        ("1\n\n3\n", "rps:2: '' is not a number"),
        ("5\n-1\n", "rps:2: '-1' is not a number"),
        ("nan\n", "rps:1: 'nan' is not a number"),
        ("1\n1\ninf\n", "rps:3: 'inf' is not a number"),
        ("1e9\n", "rps:1: '1e9' is not a number of requests per second between 0 and 100000"),
        ("", "rps: is empty"),
        ("\n\n", "rps: is empty"),
        ("0\n0\n", "every rate is 0"),
        (b"\xff\xfe1", "rps:1: is not UTF-8"),
        (b"1\n2\n\xff", "rps:3: is not UTF-8"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "rps"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        parse_arrivals(str(path), rate=None, duration_s=None)
    assert message in str(caught.value)


@pytest.mark.parametrize("path", ["/nowhere/rps", "/", "nul\0byte"])
def test_files_that_cannot_be_read(path: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        parse_arrivals(path, rate=None, duration_s=None)


def test_a_file_that_never_ends_is_not_read_whole() -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        read_rps("/dev/zero")


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf, 1e6])
def test_rates_out_of_range(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        parse_arrivals("poisson", rate=rate, duration_s=1)


@pytest.mark.parametrize("duration", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_durations_out_of_range(duration: float) -> None:
    with pytest.raises(InputError, match="duration"):
        parse_arrivals("constant", rate=1, duration_s=duration)


def test_a_process_without_a_rate() -> None:
    with pytest.raises(InputError, match="poisson arrivals need a rate"):
        parse_arrivals("poisson", rate=None, duration_s=1)


def test_zeroes_up_to_the_end_of_the_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rps"
    path.write_text("0\n0\n5\n")
    with pytest.raises(InputError, match="every rate is 0"):
        parse_arrivals(str(path), rate=None, duration_s=2)
    assert len(times(parse_arrivals(str(path), rate=None, duration_s=3))) > 0
