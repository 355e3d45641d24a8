"""Classification of a workload: composition, feedback, and the next measurement."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.classification import Classification, Classifier
from kwiken.allocator.workloads.completion.gaussian import EntryErrors
from kwiken.allocator.workloads.completion.selection import CompletionKind
from kwiken.allocator.workloads.identity import KnownProfiles
from kwiken.allocator.workloads.measurements import Matrix, Measured, Measurements, Run, RunSetting
from kwiken.allocator.workloads.profile import Size
from kwiken.allocator.workloads.sources import SOURCES as PLACES
from kwiken.allocator.workloads.workload import Measure
from kwiken.base.errors import InputError
from papers.worlds.fleet.generators import replica_rows, score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows

SIZES = tuple(Size(cores, memory) for cores in (1, 2, 4) for memory in (2, 8))
COUNTS = (1, 2, 4, 8)
CLASSES = ("large", "medium", "small", "old")
SOURCES = ("l3-capacity", "memory-bandwidth", "disk", "network")
REFERENCE = RunSetting(Size(2, 8), 1, "large")
ROWS, NEW = 16, 4


@pytest.fixture(scope="module")
def world() -> tuple[Measurements, tuple[np.ndarray, ...]]:
    """A history of 16 workloads, and the true rows of four new ones."""
    rng = np.random.default_rng(8)
    total = ROWS + NEW
    up = size_rows(rng, total, 0.0)[:, [0, 2, 6, 8, 12, 14]]
    out = replica_rows(rng, total, 0.0)[:, [0, 1, 3, 7]]
    het = platform_rows(rng, total, 1)[:, :4]
    tolerated, caused = (score_rows(rng, total, 1)[:, :4] for _ in range(2))
    known = Measurements(
        REFERENCE,
        Matrix(SIZES, up[:ROWS], level=True),
        Matrix(COUNTS, out[:ROWS], level=True),
        Matrix(CLASSES, het[:ROWS], level=True),
        Matrix(SOURCES, tolerated[:ROWS], level=False),
        Matrix(SOURCES, caused[:ROWS], level=False),
        (),
    )
    return known, tuple(rows[ROWS:] for rows in (up, out, het, tolerated, caused))


@pytest.fixture(scope="module")
def classifier(world: tuple[Measurements, tuple[np.ndarray, ...]]) -> Classifier:
    """What is chosen for workloads that are measured alike is kept."""
    return Classifier(world[0])


def truth(rows: tuple[np.ndarray, ...], new: int, place: RunSetting) -> float:
    """True log performance of a new workload: a product of factors."""
    up, out, het, *_ = rows
    return float(
        up[new, SIZES.index(place.size)]
        + out[new, COUNTS.index(place.replicas)]
        - out[new, 0]
        + het[new, CLASSES.index(place.node_class)]
        - het[new, 0]
    )


def measured(rows: tuple[np.ndarray, ...], new: int, places: list[RunSetting]) -> Measured:
    """Exact runs at some places, and two scores of each kind."""
    runs = tuple(Run(place, float(np.exp(truth(rows, new, place)))) for place in places)
    tolerated, caused = (dict(zip(SOURCES[:2], each[new, :2].tolist(), strict=True)) for each in rows[3:])
    return Measured(f"new {new}", Measure.RATE, "", runs, tolerated, caused)


FEW = [
    REFERENCE,
    replace(REFERENCE, size=Size(1, 2)),
    replace(REFERENCE, replicas=4),
    replace(REFERENCE, node_class="small"),
]
AXES = [
    *(replace(REFERENCE, size=size) for size in SIZES),
    *(replace(REFERENCE, replicas=count) for count in COUNTS[1:]),
    *(replace(REFERENCE, node_class=name) for name in CLASSES[1:]),
]
World = tuple[Measurements, tuple[np.ndarray, ...]]
ODD = RunSetting(Size(4, 8), 8, "small")


def test_exact_curves_of_a_product_compose_exactly(world: World, classifier: Classifier) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 0, AXES))
    for size in SIZES:
        for count in COUNTS:
            for name in CLASSES:
                place = RunSetting(size, count, name)
                assert abs(found.predict(place)[0] - truth(rows, 0, place)) < 1e-9


def test_the_profile_says_what_the_classification_says(world: World, classifier: Classifier) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 1, FEW))
    profile = found.profile()
    place = RunSetting(Size(4, 2), 8, "old")
    composed = (
        np.log(profile.base)
        + profile.up.mean[SIZES.index(place.size)]
        + profile.out.mean[COUNTS.index(8)]
        + profile.het.mean[CLASSES.index("old")]
    )
    assert composed == pytest.approx(found.predict(place)[0], abs=1e-9)
    assert profile.base == pytest.approx(np.exp(truth(rows, 1, REFERENCE)))
    for estimate, at in ((profile.up, SIZES.index(REFERENCE.size)), (profile.out, 0), (profile.het, 0)):
        assert estimate.mean[at] == 0.0
        assert estimate.deviation[at] == pytest.approx(0.0, abs=1e-6)
    assert len(profile.assumed) == 9
    assert profile.tolerated.mean[0] == 1.0  # a source that nobody measured
    assert profile.caused.mean[0] == 0.0


def test_predictions_are_within_their_intervals(world: World, classifier: Classifier) -> None:
    _, rows = world
    held = []
    for new in range(NEW):
        found = classifier.classify(measured(rows, new, FEW))
        for place in AXES:
            mean, deviation = found.predict(place)
            held.append(abs(mean - truth(rows, new, place)) <= 1.645 * deviation + 1e-9)
    assert np.mean(held) >= 0.8


def test_a_pathological_place_is_learned_and_other_places_keep_their_predictions(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 2, AXES))
    other = classifier.classify(measured(rows, 3, FEW))
    halved = float(np.exp(truth(rows, 2, ODD))) / 2
    learned = found.observed(Run(ODD, halved))
    assert np.exp(learned.predict(ODD)[0]) == pytest.approx(halved, rel=0.05)
    beside = replace(ODD, node_class="old")
    assert abs(learned.predict(beside)[0] - found.predict(beside)[0]) < 0.02
    assert classifier.classify(measured(rows, 3, FEW)).mean.tolist() == other.mean.tolist()
    (correction,) = learned.profile().corrections
    assert (correction.size, correction.replicas, correction.node_class) == (ODD.size, 8, "small")
    assert correction.mean < -0.5


def test_what_was_uncertain_learns_most_from_a_run(world: World, classifier: Classifier) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 2, FEW))
    run = Run(ODD, float(np.exp(found.predict(ODD)[0])) * 1.5)
    moved = np.abs(found.observed(run).mean - found.mean)
    sizes, counts = moved[1 : 1 + len(SIZES)], moved[1 + len(SIZES) : 1 + len(SIZES) + len(COUNTS)]
    before = found.profile()
    assert before.up.deviation[SIZES.index(ODD.size)] > 2 * before.out.deviation[COUNTS.index(8)]
    assert sizes[SIZES.index(ODD.size)] > counts[COUNTS.index(8)]


@pytest.fixture(scope="module")
def few(world: World, classifier: Classifier) -> Classification:
    _, rows = world
    return classifier.classify(measured(rows, 2, FEW))


@given(
    factor=st.floats(0.2, 5.0),
    size=st.sampled_from(SIZES),
    count=st.sampled_from(COUNTS),
    name=st.sampled_from(CLASSES),
)
def test_a_run_never_widens_a_prediction_and_brings_it_nearer(
    few: Classification, factor: float, size: Size, count: int, name: str
) -> None:
    found = few
    place = RunSetting(size, count, name)
    seen = found.predict(place)[0] + float(np.log(factor))
    learned = found.observed(Run(place, float(np.exp(seen))))
    assert (learned.covariance.diagonal() <= found.covariance.diagonal() + 1e-12).all()
    assert abs(learned.predict(place)[0] - seen) <= abs(float(np.log(factor))) + 1e-12


def test_runs_off_the_axes_are_learned_with_the_others(world: World, classifier: Classifier) -> None:
    _, rows = world
    plain = classifier.classify(measured(rows, 1, FEW))
    more = classifier.classify(measured(rows, 1, [*FEW, ODD]))
    error = [abs(each.predict(ODD)[0] - truth(rows, 1, ODD)) for each in (plain, more)]
    assert error[1] < error[0]
    assert more.predict(ODD)[1] < plain.predict(ODD)[1]


def test_the_first_proposal_lowers_the_variance_most(world: World, classifier: Classifier) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 0, FEW))
    runs = [proposal for proposal in found.proposals() if proposal.kind != "source"]
    fields = {"size": "size", "replicas": "replicas", "class": "node_class"}
    left = []
    for proposal in runs:
        place = replace(REFERENCE, **{fields[proposal.kind]: proposal.label})
        learned = found.observed(Run(place, float(np.exp(found.predict(place)[0]))))
        left.append(
            np.mean(
                [
                    learned.predict(RunSetting(size, count, name))[1] ** 2
                    for size in SIZES
                    for count in COUNTS
                    for name in CLASSES
                ]
            )
        )
    assert left == sorted(left)
    proposed = {replace(REFERENCE, **{fields[one.kind]: one.label}) for one in runs}
    assert len(proposed) == len(runs)
    assert proposed.isdisjoint({REFERENCE, *FEW})  # what was measured is not asked for again
    assert all(0 <= proposal.share <= 1 for proposal in found.proposals())
    sources = [proposal.label for proposal in found.proposals() if proposal.kind == "source"]
    assert sorted(sources) == ["disk", "network"]


def test_a_workload_with_too_few_entries_is_told_what_to_measure(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    with pytest.raises(InputError, match=r"'new 0': needs 2 or more measurements by size, not 1; measure \d"):
        classifier.classify(measured(rows, 0, [REFERENCE]))
    bare = Measured("bare", Measure.IPS, "", (), {}, {})
    with pytest.raises(InputError, match=r"measurements by size, not 0; measure .* and .* next"):
        classifier.classify(bare)


def test_a_history_of_one_column_each_needs_one_run() -> None:
    empty, none = np.empty((0, 1)), np.empty((0, 0))
    scores = Matrix((), none, level=False)
    known = Measurements(
        REFERENCE,
        Matrix((REFERENCE.size,), empty, level=True),
        Matrix((1,), empty, level=True),
        Matrix(("large",), empty, level=True),
        scores,
        scores,
        (),
    )
    run = Run(REFERENCE, 120.0)
    profile = Classifier(known).classify(Measured("one", Measure.RATE, "", (run, run), {}, {})).profile()
    assert profile.base == pytest.approx(120.0)
    assert profile.base_deviation == pytest.approx(0.02 / np.sqrt(2))
    with pytest.raises(InputError, match=r"needs 1 or more measurements by size, not 0$"):
        Classifier(known).classify(Measured("none", Measure.RATE, "", (), {}, {}))


def test_a_program_seen_before_is_found_by_its_identity(world: World, classifier: Classifier) -> None:
    known, rows = world
    profile = classifier.classify(replace(measured(rows, 0, FEW), identity="sha256:aa")).profile()
    cache = KnownProfiles([profile])
    again = Measured("again", Measure.RATE, "sha256:aa", (), {}, {})
    found = cache.find(again, known)
    assert found is not None
    assert found.name == "again"
    assert found.base == profile.base
    assert cache.find(replace(again, identity="sha256:bb"), known) is None
    assert cache.find(replace(measured(rows, 0, FEW), identity="sha256:aa"), known) is None
    with pytest.raises(InputError, match="told as ips, and was known as rate"):
        cache.find(replace(again, measure=Measure.IPS), known)
    fewer = replace(known, het=Matrix(CLASSES[:3], known.het.rows[:, :3], level=True))
    with pytest.raises(InputError, match="classified for other classes than the history's"):
        cache.find(again, fewer)


def test_a_matrix_that_is_measured_whole_has_the_noise_of_a_measurement(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    profile = classifier.classify(measured(rows, 0, AXES)).profile()
    for estimate, at in ((profile.up, SIZES.index(REFERENCE.size)), (profile.out, 0), (profile.het, 0)):
        others = np.delete(estimate.deviation, at)
        np.testing.assert_allclose(others, 0.02 * np.sqrt(2))


def test_scores_that_are_measured_whole_have_the_noise_of_a_measurement(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    scores = dict.fromkeys(SOURCES, 0.5)
    told = replace(measured(rows, 0, AXES), tolerated=scores, caused=scores)
    found = classifier.classify(told)
    for score in (found.tolerated, found.caused):
        assert score.deviation == pytest.approx(np.full(len(SOURCES), 0.02))
        assert score.noise == pytest.approx(0.02**2)
    assert found.proposals() == ()


def test_means_of_methods_are_tried_for_the_best_alone(world: World, classifier: Classifier) -> None:
    known, rows = world
    for method in CompletionKind:
        by_method = classifier if method is CompletionKind.BEST else Classifier(known, method)
        chosen = by_method.classify(measured(rows, 0, FEW)).methods["class"]
        assert chosen is not None
        assert any(name.startswith("mean of") for name in chosen.errors) is (method is CompletionKind.BEST)


def test_a_target_asks_for_what_decides_whether_the_target_is_met(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    found = classifier.classify(measured(rows, 0, FEW))
    base = float(np.exp(found.predict(REFERENCE)[0]))
    places = [RunSetting(size, count, name) for size in SIZES for count in COUNTS for name in CLASSES]
    for required in (base, 4 * base):
        weights = found.undecided(required)
        for at, place in zip(np.ndindex(weights.shape), places, strict=True):
            mean, deviation = found.predict(place)
            meets = NormalDist().cdf((mean - np.log(required)) / max(deviation, 1e-5))
            assert weights[at] == pytest.approx(meets * (1 - meets), abs=1e-6)
    near, far = (
        [proposal.label for proposal in found.proposals(required) if proposal.kind != "source"]
        for required in (0.6 * base, 8 * base)
    )
    assert near != far
    plain = found.proposals()
    assert found.proposals(1e-9 * base) == plain  # every place meets this: nothing to decide


def test_a_run_moves_the_prediction_by_what_the_variances_say(few: Classification) -> None:
    """The mean of a Gaussian after an observation: the whole gain, no part of it."""
    place = next(one for one in AXES if few.predict(one)[1] ** 2 > 4 * few.noise)
    before, deviation = few.predict(place)
    after, _ = few.observed(Run(place, float(np.exp(before + 0.3)))).predict(place)
    assert after - before == pytest.approx(0.3 * deviation**2 / (deviation**2 + few.noise))


def test_levels_are_compared_only_where_the_history_says_that_rows_have_one_unit(world: World) -> None:
    known, rows = world
    for told in (None, False, True):
        history = known if told is None else replace(known, het=replace(known.het, one_unit=told))
        chosen = Classifier(history).classify(measured(rows, 0, FEW)).methods["class"]
        assert chosen is not None
        assert any("one unit" in name for name in chosen.errors) is bool(told)


@pytest.mark.parametrize("times", [0.1, 0.5, 0.999, -0.999, 1.001, -1.001, 2.0, -5.0])
def test_what_the_factors_do_not_explain_is_a_common_or_a_rare_departure(
    few: Classification, times: float
) -> None:
    """Common departures have a deviation of 3%; one of fifty halves the performance.

    The departure is told in times of that from which on a rare one is more probable.
    """
    mean, deviation = few.predict(ODD)
    expected = deviation**2 + 0.02**2
    common, rare = (NormalDist(0, np.sqrt(expected + apart**2)) for apart in (0.03, 0.69))
    alike = np.log(0.98 / 0.02 * common.pdf(0.0) / rare.pdf(0.0))
    missed = times * np.sqrt(2 * alike / (1 / common.variance - 1 / rare.variance))
    apart = (0.03 if abs(times) < 1 else 0.69) ** 2
    factor = float(np.exp(missed))
    learned = few.observed(Run(ODD, float(np.exp(mean)) * factor))
    assert learned.corrections == {ODD: pytest.approx(apart / (expected + apart) * missed)}
    assert learned.predict(ODD)[0] - mean == pytest.approx(
        (deviation**2 + apart) / (expected + apart) * missed
    )
    again = learned.observed(Run(ODD, float(np.exp(learned.predict(ODD)[0]))))
    assert again.corrections == {ODD: pytest.approx(learned.corrections[ODD])}
    on_axis = replace(REFERENCE, replicas=8)
    assert few.observed(Run(on_axis, 3.0)).corrections == {}


@pytest.mark.parametrize("told", [2, 3])
def test_shares_of_proposed_sources_are_those_of_the_variance_of_scores(
    world: World, classifier: Classifier, told: int
) -> None:
    _, rows = world
    scores = [dict(zip(SOURCES[:told], each[2].tolist(), strict=False)) for each in rows[3:]]
    workload = replace(measured(rows, 2, FEW), tolerated=scores[0], caused=scores[1])
    found = classifier.classify(workload)
    proposed = {one.label: one.share for one in found.proposals() if one.kind == "source"}
    assert {*proposed} == {*SOURCES[told:]}
    for source, share in proposed.items():
        at, before, removed = SOURCES.index(source), 0.0, 0.0
        for each in (found.tolerated, found.caused):
            variances = each.deviation**2
            before += variances.sum()
            gains = each.covariance[:, at] ** 2 / variances[at]
            gains[at] = variances[at]
            removed += gains.sum()
        assert share == pytest.approx(removed / before)
    values = list(proposed.values())
    assert values == sorted(values, reverse=True)
    assert told == 2 or values[0] > 0.5  # of the only one that is left


def test_shares_of_proposed_runs_are_those_of_the_variance_of_performance(few: Classification) -> None:
    places = [RunSetting(size, count, name) for size in SIZES for count in COUNTS for name in CLASSES]
    before = sum(few.predict(place)[1] ** 2 for place in places)
    for proposal in few.proposals():
        if proposal.kind == "source":
            continue
        field = {"size": "size", "replicas": "replicas", "class": "node_class"}[proposal.kind]
        place = replace(REFERENCE, **{field: proposal.label})
        learned = few.observed(Run(place, float(np.exp(few.predict(place)[0]))))
        after = sum(learned.predict(one)[1] ** 2 for one in places)
        assert proposal.share == pytest.approx(1 - after / before, abs=1e-6)


def test_repeated_and_uncertain_runs_are_means_with_their_errors(
    world: World, classifier: Classifier
) -> None:
    _, rows = world
    plain = measured(rows, 0, AXES)
    first = plain.runs[0]
    for second, deviations in ((None, (0.02, 0.02)), (0.1, (0.02, 0.1))):
        runs = (first, Run(first.place, 1.1 * first.performance, second), *plain.runs[1:])
        found = classifier.classify(replace(plain, runs=runs))
        at = 1 + SIZES.index(first.place.size)
        assert found.entries["size"][1, SIZES.index(first.place.size)] == pytest.approx(
            np.log(first.performance) + np.log(1.1) / 2
        )
        expected = (deviations[0] ** 2 + deviations[1] ** 2) / 4
        # The entry is told relative to the reference, which was run once.
        assert found.covariance[at, at] == pytest.approx(expected + 0.02**2)


def test_known_profiles_are_found_only_where_nothing_was_measured(
    world: World, classifier: Classifier
) -> None:
    known, rows = world
    profile = classifier.classify(replace(measured(rows, 0, FEW), identity="id")).profile()
    cache = KnownProfiles([profile, replace(profile, identity="", name="nobody")])
    bare = Measured("again", Measure.RATE, "id", (), {}, {})
    assert cache.find(bare, known) is not None
    for changed in ({"tolerated": {"disk": 0.1}}, {"caused": {"disk": 0.1}}, {"identity": ""}):
        assert cache.find(replace(bare, **changed), known) is None
    for part, kind in (("up", "sizes"), ("out", "numbers of replicas")):
        matrix = getattr(known, part)
        fewer = replace(known, **{part: replace(matrix, labels=matrix.labels[:-1])})
        with pytest.raises(InputError, match=f"classified for other {kind} than the history's"):
            cache.find(bare, fewer)
    assert KnownProfiles().find(bare, known) is None


def test_neighbours_differ_most_where_nothing_was_measured(world: World) -> None:
    known, rows = world
    found = Classifier(known, CompletionKind.NEAREST).classify(measured(rows, 0, FEW))
    for kind, matrix in (("class", known.het), ("tolerated", known.tolerated)):
        near = found.neighbours(kind)
        columns = found.entries[kind][0].astype(int)
        assert near is not None
        places = [int(name.split()[1]) - 1 for name in near.names]  # rows without names are numbered
        some = matrix.rows[places]
        if matrix.level:
            some = some - some[:, columns].mean(axis=1, keepdims=True)
        spread = some.std(axis=0)
        spread[columns] = 0.0
        assert near.label == matrix.labels[int(spread.argmax())]
        assert near.spread == pytest.approx(spread.max())
        assert near.used
    assert not any(one is None for one in found.methods.values())
    whole = Classifier(known, CompletionKind.GAUSSIAN).classify(measured(rows, 0, FEW)).neighbours("class")
    assert whole is not None
    assert not whole.used
    assert len(whole.names) == 5  # of the 16, where the method takes no neighbours


def test_curves_are_told_relative_to_the_reference_and_the_base_by_the_surest_of_them(world: World) -> None:
    known, rows = world
    beside: dict[str, tuple[Any, ...]] = {
        "size": SIZES[:2],
        "replicas": COUNTS[2:],
        "node_class": CLASSES[1:3],
    }  # not at the reference
    places = [replace(REFERENCE, **{field: label}) for field, some in beside.items() for label in some]
    found = Classifier(known, CompletionKind.GAUSSIAN).classify(measured(rows, 0, places))
    start, bases = 1, {}
    for kind, matrix, at in (
        ("size", known.up, SIZES.index(REFERENCE.size)),
        ("replicas", known.out, 0),
        ("class", known.het, 0),
    ):
        chosen, (columns, values) = found.methods[kind], found.entries[kind]
        assert chosen is not None
        row = chosen.complete(columns.astype(int), values, EntryErrors(np.ones(len(values))))
        variance = row.deviation**2
        bases[kind] = variance[at], row.mean[at]
        here = slice(start, start + len(matrix.labels))
        assert found.mean[here] == pytest.approx(row.mean - row.mean[at])
        apart = variance + variance[at] - 2 * row.covariance[:, at]
        apart[at] = 0.0
        assert found.covariance[here, here].diagonal() == pytest.approx(apart, abs=1e-12)
        start = here.stop
    least, *others = sorted(bases.values())
    assert others[0][0] > 1.1 * least[0]
    assert bases["size"] != least
    assert (found.covariance[0, 0], found.mean[0]) == pytest.approx(least)
    assert not found.covariance[0, 1:].any()


def test_scores_that_are_predicted_beyond_their_range_are_at_its_end(world: World) -> None:
    known, rows = world
    steps = np.linspace(0.1, 0.4, ROWS)[:, None]
    shape = np.array([1.0, 2.0, 2.2, 2.4])
    straight = replace(
        known,
        tolerated=Matrix(SOURCES, steps * shape, level=False),
        caused=Matrix(SOURCES, 1.0 - steps * shape, level=False),
    )
    new = measured(rows, 0, FEW)
    told = replace(
        new,
        tolerated=dict(zip(SOURCES[:2], (0.49, 0.98), strict=True)),
        caused=dict(zip(SOURCES[:2], (0.51, 0.02), strict=True)),
    )
    found = Classifier(straight, CompletionKind.GAUSSIAN).classify(told)
    for kind, scores in (("tolerated", found.tolerated), ("caused", found.caused)):
        chosen, (columns, values) = found.methods[kind], found.entries[kind]
        assert chosen is not None
        free = chosen.complete(columns.astype(int), values).mean[2:]
        assert ((free > 1.05) if kind == "tolerated" else (free < -0.05)).all()
        assert scores.mean[2:].tolist() == [1.0 if kind == "tolerated" else 0.0] * 2
        racks_text = getattr(found.profile(), kind)
        at = [PLACES.index(source) for source in SOURCES]
        assert racks_text.mean[at].tolist() == scores.mean.tolist()
        assert racks_text.deviation[at].tolist() == scores.deviation.tolist()


def test_a_variance_that_rounding_made_negative_counts_as_0(few: Classification) -> None:
    rounded = replace(few, covariance=np.full_like(few.covariance, -1e-20))
    assert rounded.predict(ODD)[1] == 0.0
    profile = rounded.profile()
    for estimate in (profile.up, profile.out, profile.het):
        assert not estimate.deviation.any()
    assert profile.base_deviation == 0.0


def test_no_run_is_proposed_where_only_an_exactly_known_setting_is_undecided() -> None:
    """The reference gives exactly what is needed, and all else is far better."""
    rng = np.random.default_rng(3)
    sizes, classes = (Size(1, 1), Size(2, 1), Size(4, 1)), ("slow", "fast")
    reference = RunSetting(sizes[0], 1, classes[0])
    up = np.log([1.0, 8.0, 64.0]) + rng.normal(0, 1e-4, (6, 3))
    scores = Matrix((), np.empty((0, 0)), level=False)
    known = Measurements(
        reference,
        Matrix(sizes, up, level=True),
        Matrix((1,), np.empty((0, 1)), level=True),
        Matrix(classes, np.log([[1.0, 90.0], [1.0, 91.0], [1.0, 89.0]]), level=True),
        scores,
        scores,
        (),
    )
    runs = (
        Run(reference, 100.0, 0.0),
        Run(replace(reference, size=sizes[1]), 800.0, 0.0),
        Run(replace(reference, node_class=classes[1]), 9000.0, 0.0),
    )
    found = Classifier(known).classify(Measured("new", Measure.RATE, "", runs, {}, {}))
    assert [one.label for one in found.proposals()] == [sizes[2]]
    assert [one.label for one in found.proposals(120.0)] == [sizes[2]]  # nothing is undecided at all
    assert found.proposals(100.0) == ()


def test_neighbours_are_said_to_differ_only_where_nothing_was_measured(world: World) -> None:
    """The nearest rows are further apart at a measured source than anywhere else."""
    known, rows = world
    scores = np.full((ROWS, 4), 0.5)
    scores[:, 0] = np.linspace(0.1, 0.9, ROWS)
    scores[::2, 3] += 0.01
    known = replace(known, tolerated=Matrix(SOURCES, scores, level=False))
    told = replace(measured(rows, 0, FEW), tolerated=dict.fromkeys(SOURCES[:2], 0.5))
    near = Classifier(known, CompletionKind.NEAREST).classify(told).neighbours("tolerated")
    assert near is not None
    assert near.label == SOURCES[3]
    assert near.spread == pytest.approx(0.005, abs=5e-4)
