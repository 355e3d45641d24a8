"""Generation: what a drawn trace keeps of the one that was learned."""

from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.storage.model.comparison import StorageJudgement, judge, nearest
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.stack_distance import block_accesses, hit_ratios
from papers.storage_model.validation import stride_order
from tests.support.data.storage.traces import log_and_hot_zone, zipf_trace


@pytest.mark.parametrize("trace", [zipf_trace(), log_and_hot_zone()], ids=["zipf", "log"])
def test_mix_states_gaps_and_hits_are_kept(trace: BlockTrace) -> None:
    made = generate(train(trace), np.random.default_rng(1))
    high = int(trace.end.max())
    quarters = [
        np.bincount(np.minimum(4 * each.start // high, 3), minlength=4) / len(each) for each in (trace, made)
    ]
    assert np.abs(quarters[0] - quarters[1]).max() < 0.01
    assert made.read.mean() == pytest.approx(trace.read.mean(), abs=0.01)
    assert made.sequential.mean() == pytest.approx(trace.sequential.mean(), abs=0.02)
    assert made.duration_s == pytest.approx(trace.duration_s, rel=0.02)
    shares = np.array([0.01, 0.05, 0.20])
    hits = [hit_ratios(block_accesses(each)[0], shares) for each in (trace, made)]
    assert np.abs(hits[0] - hits[1]).max() < 0.05


def test_a_seed_gives_one_trace() -> None:
    model = train(log_and_hot_zone(5000))
    first, again = (generate(model, np.random.default_rng(3)) for _ in range(2))
    assert (first.start == again.start).all()
    assert (first.t_s == again.t_s).all()


def test_a_scale_stretches_every_gap() -> None:
    model = train(zipf_trace(5000))
    one, half = (generate(model, np.random.default_rng(3), IODrawing(scale=scale)) for scale in (1.0, 0.5))
    assert one.duration_s / half.duration_s == pytest.approx(2.0)
    assert (one.start == half.start).all()


def test_compression_keeps_gaps_and_shortens_the_day() -> None:
    trace = zipf_trace(20_000)
    slow = replace(trace, t_s=trace.t_s * 9000)
    model = train(slow)
    assert len(model.windows) > 10
    long, short = (
        generate(model, np.random.default_rng(3), IODrawing(compress=factor)) for factor in (1.0, 20.0)
    )
    assert long.duration_s / short.duration_s == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("drawing", [IODrawing(scale=0), IODrawing(compress=-1), IODrawing(ios=10**9)])
def test_impossible_drawings_are_refused(drawing: IODrawing) -> None:
    with pytest.raises(InputError):
        generate(train(zipf_trace(1000)), np.random.default_rng(0), drawing)


def test_threads_keep_their_shares_in_each_part() -> None:
    weight = 1.0 / np.arange(1, 41)
    weight /= weight.sum()
    thread = np.repeat(np.arange(40), np.round(weight * 100_000).astype(int))
    laid = thread[stride_order(thread, weight)]
    assert np.abs(np.bincount(laid) / len(laid) - weight).max() < 0.0005
    for part in np.array_split(laid, 10):
        assert np.abs(np.bincount(part, minlength=40) / len(part) - weight).max() < 0.005


@pytest.fixture(scope="module")
def judged() -> list[StorageJudgement]:
    trace = log_and_hot_zone(4000)
    return judge(trace, train(trace), np.random.default_rng(1))


def test_a_trace_that_was_trained_on_is_judged_by_slices_and_by_time(judged: list[StorageJudgement]) -> None:
    *slices, later = judged
    assert len(slices) == 4
    assert len({each.part for each in slices}) == 1
    assert later.part == "the later half"
    assert later.judged_ios == 2000
    for each in judged:
        assert each.trained_ios + each.judged_ios == 4000
        assert each.nearness[0].distances[0] < min(each.nearness[0].distances[1:])


def test_chance_tells_how_far_parts_of_shuffled_ios_are_apart(judged: list[StorageJudgement]) -> None:
    features = {each.name: each for each in judged[-1].features}
    share = log_and_hot_zone(4000).read.mean()
    # Of two halves of n I/Os without replacement: a normal deviation of sqrt(p (1 - p) * 4 / n).
    deviation = 100 * float(np.sqrt(share * (1 - share) * 4 / 4000))
    read = features["read share, %"]
    assert read.by_chance == pytest.approx(1.96 * deviation, rel=0.1)
    assert read.holds_by_chance == pytest.approx(erf(1 / deviation / 2**0.5), abs=0.05)
    assert features["hits of an LRU cache of 1%, %"].by_chance is None


def test_the_own_error_is_the_distance_from_the_trained_part(judged: list[StorageJudgement]) -> None:
    for each in judged[0].features:
        if each.name in {"read share, %", "sequential share, %", "mean gap, ms"}:
            assert each.trained is not None
            assert each.own == pytest.approx(abs(each.generated - each.trained))
            assert each.apart == pytest.approx(abs(each.judged - each.trained))


def test_another_trace_is_judged_whole() -> None:
    trace = log_and_hot_zone(4000)
    (found,) = judge(log_and_hot_zone(3000, seed=8), train(trace), np.random.default_rng(1))
    assert found.trained_ios == 0
    assert found.judged_ios == 3000
    for each in found.features:
        assert each.by_chance is each.holds_by_chance is each.apart is each.own is None


def test_too_few_are_not_judged() -> None:
    trace = log_and_hot_zone(50)
    with pytest.raises(InputError, match="200 are needed"):
        judge(trace, train(trace), np.random.default_rng(1))


def test_a_difference_within_the_errors_of_seeds_is_no_order(judged: list[StorageJudgement]) -> None:
    *slices, _ = judged
    for each in nearest(slices):
        assert each.difference > each.chance > 0
        assert each.nearer_cuts == 4
        assert each.farther_cuts == 0
    # The same traces, if the rival's distances were the model's own.
    level = [
        replace(
            cut,
            nearness=tuple(
                replace(
                    one,
                    distances=(one.distances[0],) * len(one.distances),
                    uncertainty=(one.uncertainty[0],) * len(one.uncertainty),
                )
                for one in cut.nearness
            ),
        )
        for cut in slices
    ]
    for each in nearest(level):
        assert abs(each.difference) <= each.chance
        assert each.nearer_cuts == each.farther_cuts == 0


def test_one_drawn_trace_is_no_nearer_than_the_mean_of_all(judged: list[StorageJudgement]) -> None:
    for cut in judged:
        mean, one, with_order, one_with_order = (np.array(each.distances) for each in cut.nearness)
        assert (one >= mean - 1e-12).all()  # a distance is convex
        assert (one_with_order >= with_order - 1e-12).all()
