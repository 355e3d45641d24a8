"""Generators and platforms of simulated fleets: what is specified, and what managers predict from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.workloads.classification import first_columns
from kwiken.allocator.workloads.completion.gaussian import FoldIn
from kwiken.allocator.workloads.completion.selection import CompletionKind, candidates, choose
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure
from kwiken.base.arrays import Floats
from papers.worlds.fleet.application_world import applications
from papers.worlds.fleet.behaviour import ENTRIES_AGAIN, Behaviour, Knowledge, predicted
from papers.worlds.fleet.generators import (
    CONTENDED,
    CORES,
    MAX_CAUSED,
    MEMORY_GB,
    MIN_TOLERATED,
    contention_scores,
    platform_response,
    replica_rows,
    score_rows,
    size_rows,
)
from papers.worlds.fleet.platforms import CLOUD, LOCAL, cloud, cluster_of
from papers.worlds.fleet.targets import random_reservations, reserved_by_user
from papers.worlds.fleet.world import behaviour_of


def test_clusters_have_as_many_nodes_and_cores_as_the_sources_say() -> None:
    local = cluster_of(LOCAL)
    assert (len(local.nodes), float(local.cores.sum()), float(local.memory_gb.sum())) == (40, 178.0, 696.0)
    whole = cluster_of(CLOUD)
    assert (len(whole.nodes), len(whole.classes), float(whole.cores.sum())) == (1000, 14, 4960.0)
    part = cluster_of(cloud(200))
    assert (len(part.nodes), float(part.cores.sum())) == (200, 992.0)
    assert len({node.name for node in part.nodes}) == 200


@pytest.mark.parametrize("servers", [0, 100, 250, 300, 200_000])
def test_a_cloud_keeps_its_proportions(servers: int) -> None:
    with pytest.raises(ValueError, match="multiple of 200"):
        cloud(servers)


@pytest.mark.parametrize("servers", [200, 400, 100_000])
def test_a_cloud_has_as_many_servers_as_are_asked_for(servers: int) -> None:
    assert [one.count / servers for one in cloud(servers)] == [one.count / 1000 for one in CLOUD]


def test_an_application_is_near_its_best_on_about_six_platforms_of_ten() -> None:
    response = platform_response(np.random.default_rng(0), 2000, LOCAL)
    assert response.max(axis=1) == pytest.approx(np.ones(2000))
    assert 0 < response.min() < 0.3
    assert 5 < (response >= 0.95).sum(axis=1).mean() < 7


def test_a_measured_score_stays_from_0_to_1() -> None:
    """Without noise scores are within; where noise is large, many are cut at both ends."""
    truth, seen = (score_rows(np.random.default_rng(30), 500, 2, noise) for noise in (0.0, 0.5))
    assert 0 < truth.min() < truth.max() < 1
    assert (seen.min(), seen.max()) == (0.0, 1.0)
    assert (seen == 0.0).mean() == pytest.approx((seen == 1.0).mean(), abs=0.1)
    assert ((seen > 0.0) & (seen < 1.0)).mean() == pytest.approx(0.66, abs=0.05)


def test_scores_stay_in_their_ranges_for_ten_sources() -> None:
    assert len(CONTENDED) == 10
    assert not any(SOURCES[place].startswith("cpu-") for place in CONTENDED)
    tolerated, caused = contention_scores(np.random.default_rng(1), 500)
    assert tolerated.shape == caused.shape == (500, 10)
    assert MIN_TOLERATED <= tolerated.min() < tolerated.max() <= 1
    assert 0 <= caused.min() < caused.max() <= MAX_CAUSED
    assert np.median(caused) < MAX_CAUSED / 3  # most applications press hard on few sources


def test_reservations_exceed_the_need_as_the_source_says() -> None:
    factors = random_reservations(np.random.default_rng(2), 200_000)
    assert factors.mean() == pytest.approx(2.935, abs=0.02)
    assert (factors > 1).mean() == pytest.approx(0.7, abs=0.01)
    assert (factors < 1).mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("factor", "replicas", "alone"),
    [(1.0, 3, (4, 8)), (2.5, 8, (12, 32)), (0.3, 1, (2, 4)), (10.0, 30, (24, 48))],
)
def test_a_factor_changes_the_replicas_or_the_size_of_a_program_on_one_node(
    factor: float, replicas: int, alone: tuple[int, int]
) -> None:
    need = Size(4.0, 8.0)
    several = reserved_by_user(need, 3, factor, one_node=False)
    assert (several.size, several.replicas) == (need, replicas)
    single = reserved_by_user(need, 1, factor, one_node=True)
    assert ((single.size.cores, single.size.memory_gb), single.replicas) == (alone, 1)


def test_predictions_are_better_the_more_is_known() -> None:
    rng = np.random.default_rng(3)
    everything = behaviour_of(rng, 90, LOCAL, one_size=False)
    truth, known = everything.part(0, 60), everything.part(60, 90)
    exact = predicted(truth, known, Knowledge.TRUE, rng)
    assert exact is truth
    published = predicted(truth, known, Knowledge.PUBLISHED, np.random.default_rng(4))
    chosen = predicted(truth, known, Knowledge.CHOSEN, np.random.default_rng(4))
    for what in ("up", "het", "tolerated", "caused"):
        missed = [np.abs(getattr(each, what) - getattr(truth, what)).mean() for each in (published, chosen)]
        plain = np.abs(getattr(known, what).mean(axis=0) - getattr(truth, what)).mean()
        assert missed[1] < missed[0], what
        assert missed[1] < plain, what
    again = predicted(truth, known, Knowledge.PUBLISHED, np.random.default_rng(4), ENTRIES_AGAIN)
    for what in ("up", "het", "tolerated", "caused"):
        missed = [np.abs(getattr(each, what) - getattr(truth, what)).mean() for each in (published, again)]
        assert missed[1] < missed[0], what
    assert not published.deviations
    assert all((values >= 0).all() for values in chosen.deviations.values())
    assert np.abs(published.out[:, 0]).max() == 0


def test_a_profile_carries_scores_to_their_sources() -> None:
    truth = behaviour_of(np.random.default_rng(5), 2, LOCAL, one_size=True)
    profile = truth.profile(1, "one", Measure.IPS, (Size(2.0, 3.0),), tuple(one.name for one in LOCAL))
    assert profile.tolerated.mean[list(CONTENDED)] == pytest.approx(truth.tolerated[1])
    others = np.setdiff1d(np.arange(len(SOURCES)), CONTENDED)
    assert profile.tolerated.mean[others] == pytest.approx(np.ones(3))
    assert profile.caused.mean[others] == pytest.approx(np.zeros(3))
    assert not profile.het.deviation.any()


# Paragon's table 3.3: clock in GHz, sockets, cores, last-level cache in MB of a socket, memory in GB, nodes.
TABLE = {
    "Xeon L5609": (1.87, 2, 8, 12, 24, 1),
    "Xeon X5650": (2.67, 2, 12, 12, 24, 2),
    "Xeon X5670": (2.93, 2, 12, 12, 48, 2),
    "Xeon L5640": (2.27, 2, 12, 12, 48, 1),
    "Xeon MP": (3.16, 4, 4, 1, 8, 5),
    "Xeon E5345": (2.33, 1, 4, 8, 32, 8),
    "Xeon E5335": (2.00, 1, 4, 8, 16, 8),
    "Opteron 240": (1.80, 2, 2, 2, 4, 7),
    "Atom 330": (1.60, 1, 2, 1, 4, 5),
    "Atom D510": (1.66, 1, 2, 1, 8, 1),
}
# GB per second that the memory of a whole node can deliver at most: channels of DDR3 of both sockets, two or one
# front-side buses, channels of DDR of both sockets, one channel of DDR2.
PEAK_GB_PER_S = {
    "Xeon L5609": 51.2,
    "Xeon X5650": 64.0,
    "Xeon X5670": 64.0,
    "Xeon L5640": 64.0,
    "Xeon MP": 10.7,
    "Xeon E5345": 10.7,
    "Xeon E5335": 10.7,
    "Opteron 240": 10.7,
    "Atom 330": 4.3,
    "Atom D510": 6.4,
}
PER_CYCLE = {"L5": 1.0, "X5": 1.0, "E5": 0.8, "MP": 0.45, "24": 0.55, "33": 0.3, "D5": 0.3}


def test_local_nodes_are_those_of_the_table() -> None:
    assert [one.name for one in LOCAL] == [*TABLE]
    for one in LOCAL:
        ghz, sockets, cores, cache_mb, memory_gb, count = TABLE[one.name]
        assert (one.cores, one.memory_gb, one.count) == (cores, memory_gb, count)
        assert one.cache_mb == cache_mb * sockets / cores
        assert one.core_speed == pytest.approx(ghz * PER_CYCLE[one.name.split()[1][:2]], abs=0.006)
        assert 0.55 < one.bandwidth_gb_per_s * cores / PEAK_GB_PER_S[one.name] < 1.0


def test_rented_servers_are_what_their_names_say() -> None:
    offered = [(one.core_speed, one.cache_mb, one.bandwidth_gb_per_s) for one in CLOUD]
    assert np.min(offered, axis=0).tolist() == [1.6, 1.0, 2.0]
    assert np.max(offered, axis=0).tolist() == [3.2, 2.5, 5.0]
    assert [(one.cores, one.memory_gb) for one in CLOUD[:: len(CLOUD) - 1]] == [(1, 2), (32, 244)]
    known = {one.name: one for one in CLOUD}
    for one in CLOUD:
        assert f"cloud-{one.cores}" in one.name
        assert 1.8 < one.memory_gb / one.cores < 8
        plain = known.get(f"cloud-{one.cores}", one)
        mine, usual = ((each.core_speed, each.cache_mb, each.bandwidth_gb_per_s) for each in (one, plain))
        sign = {"slow": -1, "fast": 1}.get(one.name.split("-")[-1], 0)
        assert (np.sign(np.subtract(mine, usual)) == sign).all() or sign == 0
        assert sign == 0 or sign * (one.memory_gb - plain.memory_gb) > 0
    assert cloud(1000) == CLOUD


def test_rented_servers_have_2_4_or_8_gb_a_core_and_large_ones_no_slow_memory() -> None:
    for one in CLOUD:
        kind = one.name.split("-")[-1]
        per_core_gb = 2 if kind == "slow" else 8 if kind in {"fast", "large", "32"} else 4
        assert one.memory_gb / one.cores == pytest.approx(per_core_gb, rel=0.08)
        if one.cores >= 8 and kind != "slow":
            assert 2.0 <= one.cache_mb <= 2.5
            assert 4.0 <= one.bandwidth_gb_per_s <= 5.0


def test_performance_by_size_is_that_of_amdahl_and_of_the_working_set() -> None:
    """The serial part and the working set of each row follow from some entries, and tell the others."""
    rows = np.exp(size_rows(np.random.default_rng(6), 400, 0.0)).reshape(400, 7, 6)
    cores, memory_gb = np.array([1, 2, 4, 8, 12, 16, 24]), np.array([2, 4, 8, 16, 32, 48])
    whole = rows[:, :, -1]  # 48 GB hold every working set
    serial = 2 * whole[:, 0] / whole[:, 1] - 1
    assert 0.02 <= serial.min() < 0.03
    assert 0.45 < serial.max() <= 0.5
    law = 1 / (serial[:, None] + (1 - serial[:, None]) / cores)
    assert whole == pytest.approx(law)
    share = rows / whole[:, :, None]
    assert share == pytest.approx(np.broadcast_to(share[:, :1], share.shape))
    held = share[:, 0] >= 1 - 1e-12
    # Working sets of 1 to 32 GB: a third of their logarithms lies within each step of a factor of four.
    assert held[:, 0].mean() == pytest.approx(np.log10(2) / 1.5, abs=0.06)
    assert held[:, 2].mean() == pytest.approx(np.log10(8) / 1.5, abs=0.06)
    assert held[:, 4].all()
    small = ~held[:, 1]  # both 2 and 4 GB are below the working set
    exponent = np.log2(share[small, 0, 1] / share[small, 0, 0])
    assert 0.2 <= exponent.min() < 0.25
    assert 0.95 < exponent.max() <= 1.0
    assert memory_gb.tolist() == list(MEMORY_GB)
    assert cores.tolist() == list(CORES)


def test_performance_by_replicas_is_that_of_the_universal_scalability_law() -> None:
    rows = np.exp(replica_rows(np.random.default_rng(7), 400, 0.0))
    nodes = np.arange(1, 101)
    assert rows.shape == (400, 100)
    assert rows[:, 0] == pytest.approx(np.ones(400))
    # n / S(n) - 1 = s (n - 1) + k n (n - 1): two entries give both numbers.
    first, last = 2 / rows[:, 1] - 1, (100 / rows[:, 99] - 1) / 99
    coherency = (last - first) / 98
    contention = first - 2 * coherency
    assert 0 <= contention.min() < 0.005
    assert 0.095 < contention.max() <= 0.1
    assert np.log10(coherency.min()) == pytest.approx(-6, abs=0.1)
    assert np.log10(coherency.max()) == pytest.approx(-3.5, abs=0.1)
    law = nodes / (1 + contention[:, None] * (nodes - 1) + coherency[:, None] * nodes * (nodes - 1))
    assert rows == pytest.approx(law)


def score_two(rng: np.random.Generator, count: int, *noise: float) -> Floats:
    return score_rows(rng, count, 2, *noise)


@pytest.mark.parametrize("rows", [size_rows, replica_rows, score_two])
def test_measurements_miss_the_truth_by_two_percent(rows: Callable[..., Floats]) -> None:
    truth, seen = (rows(np.random.default_rng(8), 300, *noise) for noise in ((0.0,), ()))
    apart = (seen - truth)[(seen > 0) & (seen < 1) if rows is score_two else ...]
    assert apart.std() == pytest.approx(0.02, rel=0.05)


def test_scores_are_spread_as_their_generator_says() -> None:
    """Logits of the scores: a deviation of 0.4 between sources, and of 1 within each."""
    between, within = [], []
    for seed in range(60):
        scores = score_rows(np.random.default_rng(seed), 200, 2, 0.0)
        logits = np.log(scores / (1 - scores))
        between.append(logits.mean(axis=0))
        within.append(logits.var(axis=0).mean())
    assert np.std(between) == pytest.approx(0.4, rel=0.1)
    assert np.mean(within) == pytest.approx(1.0, rel=0.15)


def test_scores_have_two_traits() -> None:
    scores = score_rows(np.random.default_rng(9), 200, 2, 0.0)
    logits = np.log(scores / (1 - scores))
    singular = np.linalg.svd(logits - logits.mean(axis=0), compute_uv=False)
    assert singular[1] > 0.1 * singular[0]
    assert singular[2] < 1e-9 * singular[0]


def test_what_is_caused_is_a_square_and_what_is_tolerated_a_score() -> None:
    tolerated, caused = contention_scores(np.random.default_rng(10), 3000)
    assert np.sqrt(caused / 0.4).mean() == pytest.approx(0.5, abs=0.12)
    assert tolerated.mean() == pytest.approx(0.5, abs=0.12)
    assert tolerated.min() == 0.02
    whole = tolerated[(tolerated > 0.02).all(axis=1)]
    assert len(tolerated) > len(whole) > 2000
    for scores in (whole, np.sqrt(caused / 0.4)):
        singular = np.linalg.svd(np.log(scores / (1 - scores)), compute_uv=False)
        assert singular[2] > 0.05 * singular[0]  # two traits, and the means of the sources
        assert singular[3] < 1e-6 * singular[0]


def test_a_platform_that_offers_more_costs_nothing_and_noise_is_one_percent() -> None:
    """With needs at the lowest offer no platform lacks anything, and what is left is noise."""
    response = platform_response(np.random.default_rng(11), 4000, LOCAL, 0.0)
    log = np.log(response)
    assert (log - log.mean(axis=1, keepdims=True)).std() * np.sqrt(10 / 9) == pytest.approx(0.01, rel=0.05)
    # Twice the speed, the cache and the bandwidth gains nothing where needs are below both.
    strong = tuple(
        replace(one, core_speed=2 * one.core_speed, cache_mb=2 * one.cache_mb) for one in LOCAL[:1]
    )
    pair = platform_response(np.random.default_rng(12), 4000, (LOCAL[0], *strong), 0.0)
    assert np.log(pair).mean(axis=0) == pytest.approx([-0.0056, -0.0056], abs=0.001)


def test_a_platform_that_offers_half_of_all_needs_costs_a_power_of_it() -> None:
    """Powers from 0.2 to 1 of each of three needs: in the mean (1/2) ** 1.8."""
    half = replace(
        LOCAL[0],
        core_speed=LOCAL[0].core_speed / 2,
        cache_mb=LOCAL[0].cache_mb / 2,
        bandwidth_gb_per_s=LOCAL[0].bandwidth_gb_per_s / 2,
    )
    response = platform_response(np.random.default_rng(13), 4000, (LOCAL[0],) * 8 + (half,), 1.0)
    loss = -np.log2(response[:, -1])
    # The needs of most lie at the seven equal offers, but for an eighth between them and the half.
    assert np.quantile(loss, [0.0, 1.0]) == pytest.approx([0.6, 3.0], abs=0.45)
    assert np.median(loss) == pytest.approx(1.8, abs=0.1)


def often_at_the_ends(behaviour: Behaviour) -> Behaviour:
    """The same with scores that are stretched: many are 0 or 1, so that noise and predictions leave the range."""
    ends = {what: np.clip(2 * getattr(behaviour, what) - 0.5, 0, 1) for what in ("tolerated", "caused")}
    return replace(behaviour, tolerated=ends["tolerated"], caused=np.clip(5 * ends["caused"], 0, 1))


def test_published_predictions_are_factors_of_two_noisy_random_entries() -> None:
    """Rank 3 for sizes and 2 for all else, a ridge of 0.001, and measurements that miss by 2%."""
    rng = np.random.default_rng(20)
    everything = often_at_the_ends(behaviour_of(rng, 40, LOCAL, one_size=False))
    truth, known = everything.part(0, 10), everything.part(10, 40)
    found = predicted(truth, known, Knowledge.PUBLISHED, np.random.default_rng(21))
    chance = np.random.default_rng(21)
    for what, rank in (("up", 3), ("out", 2), ("het", 2), ("tolerated", 2), ("caused", 2)):
        score = what in {"tolerated", "caused"}
        seen, past = (
            each + chance.normal(0, 0.02, each.shape) for each in (getattr(truth, what), getattr(known, what))
        )
        if score:
            seen, past = np.clip(seen, 0, 1), np.clip(past, 0, 1)
        model = FoldIn(rank, 1e-3).fit(past, level=not score)
        rows = []
        for row in seen:
            columns = (
                np.array([0, 3]) if what == "out" else chance.choice(seen.shape[1], 2, replace=False)
            ).astype(np.int64)
            rows.append(model.complete(columns, row[columns]).mean)
        expected = np.clip(rows, 0, 1) if score else np.array(rows)
        if what == "out":  # one replica is the unit
            expected = expected - expected[:, :1]
        assert getattr(found, what) == pytest.approx(expected), what
    assert found.base == pytest.approx(truth.base * np.exp(chance.normal(0, 0.02, 10)))


def test_chosen_predictions_are_those_of_the_least_held_out_error_and_its_scale() -> None:
    rng = np.random.default_rng(22)
    everything = often_at_the_ends(behaviour_of(rng, 42, LOCAL, one_size=False))
    truth, known = everything.part(0, 12), everything.part(12, 42)
    found = predicted(truth, known, Knowledge.CHOSEN, np.random.default_rng(23))
    chance = np.random.default_rng(23)
    assert {*found.deviations} == {"up", "out", "het", "tolerated", "caused"}
    for what in ("up", "out", "het", "tolerated", "caused"):
        score = what in {"tolerated", "caused"}
        seen, past = (
            each + chance.normal(0, 0.02, each.shape) for each in (getattr(truth, what), getattr(known, what))
        )
        if score:
            seen, past = np.clip(seen, 0, 1), np.clip(past, 0, 1)
        columns = np.array([0, 3]) if what == "out" else np.sort(first_columns(past, 2, level=not score))
        counts = tuple(range(1, 33)) if what == "out" else None
        chosen = choose(past, columns, candidates(counts, CompletionKind.GAUSSIAN), level=not score)
        means, deviations = chosen.model.predict(columns, seen[:, columns])
        means = np.clip(means, 0, 1) if score else means
        expected = means - means[:, :1] if what == "out" else means  # one replica is the unit
        assert getattr(found, what) == pytest.approx(expected), what
        assert found.deviations[what] == pytest.approx(chosen.scale * deviations), what
    few = behaviour_of(np.random.default_rng(24), 4, LOCAL[:2], one_size=True)
    exact = predicted(few, few, Knowledge.CHOSEN, np.random.default_rng(25))
    assert exact.up.tolist() == few.up.tolist()  # one size, and two classes: measured everywhere
    assert exact.het.tolist() == few.het.tolist()
    assert "het" not in exact.deviations


@pytest.mark.parametrize(("classes", "exact"), [(4, True), (5, False)])
def test_a_second_measurement_takes_four_entries_and_knows_four_columns_exactly(
    classes: int, exact: bool
) -> None:
    truth = behaviour_of(np.random.default_rng(31), 24, LOCAL[:classes], one_size=True)
    new, known = truth.part(0, 4), truth.part(4, 24)
    found = predicted(new, known, Knowledge.PUBLISHED, np.random.default_rng(32), ENTRIES_AGAIN)
    assert (found.het.tolist() == new.het.tolist()) == exact


def test_a_profile_carries_deviations_of_predictions_but_none_of_what_is_measured() -> None:
    everything = behaviour_of(np.random.default_rng(33), 28, LOCAL, one_size=True)
    known = everything.part(8, 28)
    found = predicted(everything.part(0, 8), known, Knowledge.CHOSEN, np.random.default_rng(34))
    told = found.profile(5, "one", Measure.IPS, (Size(2.0, 3.0),), tuple(one.name for one in LOCAL))
    assert (told.base, told.base_deviation) == (found.base[5], 0.0)
    assert (told.up.deviation.tolist(), told.out.deviation.tolist()) == ([0.0], [0.0])
    assert told.het.mean.tolist() == found.het[5].tolist()
    assert told.het.deviation.tolist() == found.deviations["het"][5].tolist()
    for what in ("tolerated", "caused"):
        deviations = getattr(told, what).deviation
        assert deviations[list(CONTENDED)].tolist() == found.deviations[what][5].tolist()
        assert not np.delete(deviations, CONTENDED).any()


def test_behaviour_of_one_size_has_one_size_and_one_replica() -> None:
    one = behaviour_of(np.random.default_rng(26), 5, LOCAL, one_size=True)
    assert (one.up.shape, one.out.shape, one.replicas.tolist()) == ((5, 1), (5, 1), [1])
    many = behaviour_of(np.random.default_rng(26), 5, LOCAL, one_size=False)
    assert (many.up.shape, many.out.shape) == ((5, 42), (5, 32))
    assert many.replicas.tolist() == list(range(1, 33))
    assert np.exp(many.het).max(axis=1) == pytest.approx(np.ones(5))
    assert set(many.base) == {1.0}
    # Without noise, curves are those of the law: one replica is the unit.
    assert many.out[:, 0].tolist() == [0.0] * 5
    up = many.up.reshape(5, len(CORES), len(MEMORY_GB))
    assert (np.diff(up, axis=1) > 0).all()
    assert (np.diff(up, axis=2) >= 0).all()


def test_a_world_tells_the_same_of_its_workloads_each_time() -> None:
    world = applications("some", 4, LOCAL, np.arange(12.0), known=20, median_s=50.0, phases=2)
    true = world.profiles(Knowledge.TRUE)
    for job, phases, rows in zip(world.scenario.jobs, true, world.rows, strict=True):
        for phase, told, row in zip(job.phases, phases, rows, strict=True):
            assert told.het.mean.tolist() == phase.truth.het.mean.tolist() == world.truth.het[row].tolist()
            assert told.caused.mean.tolist() == phase.truth.caused.mean.tolist()
            assert told.name == job.workload.name
    first, again = (world.profiles(Knowledge.PUBLISHED) for _ in range(2))
    assert first is again
    other = applications("some", 4, LOCAL, np.arange(12.0), known=20, median_s=50.0, phases=2)
    assert other.profiles(Knowledge.PUBLISHED)[0][0].het.mean.tolist() == first[0][0].het.mean.tolist()
    more = world.profiles(Knowledge.PUBLISHED, ENTRIES_AGAIN)
    # Published figures stand on the draws: those of the seed and the knowledge, and others for the second time.
    seed = [4, *b"published"]
    for profiles, entries, key in ((first, 2, seed), (more, 4, [*seed, 4])):
        draws = np.random.default_rng(key)
        expected = predicted(world.truth, world.known, Knowledge.PUBLISHED, draws, entries).het
        for phases, rows in zip(profiles, world.rows, strict=True):
            assert [one.het.mean.tolist() for one in phases] == expected[list(rows)].tolist()
    missed = [
        np.mean(
            [
                np.abs(one[0].het.mean - exact[0].het.mean).mean()
                for one, exact in zip(told, true, strict=True)
            ]
        )
        for told in (first, more)
    ]
    assert missed[1] < missed[0]
