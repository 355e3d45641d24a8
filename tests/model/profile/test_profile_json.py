"""JSON of profiles: round trips, and refusals of invalid documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Origin, Profile, StageProfile
from kwiken.model.profile.subset import part_of

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def profile(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    rng = np.random.default_rng(0)
    wide = rng.lognormal(0, 1, (50, 3))
    wide[7, 1] = wide[9] = np.nan
    cut = np.zeros((50, 3), dtype=bool)
    cut[3, 2] = cut[4, 0] = True
    worth = rng.integers(0, 2, (50, 3)).astype(float)
    worth[5] = worth[7, 1] = np.nan
    learned = profile_of(
        stage_of("own (own time)", rng.exponential(1, 50), reissuable=False),
        replace(
            stage_of("wide", wide, after=("own (own time)",), censored=cut, busy_ms=0.5),
            busy_variation=0.7,
            replicas=3,
            worth=worth,
            threads=3,
            asked=rng.integers(-1, 2, (50, 3)),
            replica_names=("wide/0", "wide/1"),
            lag_ms=rng.exponential(0.1, (50, 3)),
        ),
        replace(stage_of("last", rng.exponential(1, 50), after=("wide",)), writes="POST"),
        counts={"traces": 50, "spans with errors": 2},
    )
    return replace(
        learned,
        origin=Origin(kind="shop:/buy", caller="edge:/*", depth=2, ignored=("egress",)),
        service_names=("shop", "disk"),
        service_ms=np.stack([0.25 * learned.latency_ms, 0.65 * learned.latency_ms]).T,
        link_names=(("shop", "disk"),),
        link_ms=0.1 * learned.latency_ms[:, None],
    )


@pytest.fixture
def document(profile: Profile) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(profile_to_json(profile))
    return loaded


def test_round_trip_keeps_everything_to_the_microsecond(profile: Profile) -> None:
    again = profile_from_json(profile_to_json(profile))
    assert again.service == profile.service
    assert again.counts == profile.counts
    assert np.allclose(again.latency_ms, profile.latency_ms, atol=0.0005)
    assert np.allclose(again.started_s, profile.started_s, atol=1e-6, rtol=0)
    assert (again.origin, again.service_names) == (profile.origin, profile.service_names)
    assert again.service_ms is not None
    assert profile.service_ms is not None
    assert np.allclose(again.service_ms, profile.service_ms, atol=0.00051)
    assert again.link_names == profile.link_names
    assert again.link_ms is not None
    assert profile.link_ms is not None
    assert np.allclose(again.link_ms, profile.link_ms, atol=0.00051)
    assert [stage.writes for stage in again.stages] == ["", "", "POST"]
    for mine, theirs in zip(profile.stages, again.stages, strict=True):
        assert (mine.name, mine.after, mine.match) == (theirs.name, theirs.after, theirs.match)
        assert (mine.busy_ms, mine.reissuable) == (theirs.busy_ms, theirs.reissuable)
        assert (mine.busy_variation, mine.replicas) == (theirs.busy_variation, theirs.replicas)
        assert np.allclose(mine.calls_ms, theirs.calls_ms, atol=0.00051, equal_nan=True)
        assert np.array_equal(mine.censored, theirs.censored)
        assert (mine.worth is None) == (theirs.worth is None)
        if mine.worth is not None and theirs.worth is not None:
            assert np.allclose(mine.worth, theirs.worth, equal_nan=True)
        assert mine.threads == theirs.threads
        assert mine.replica_names == theirs.replica_names
        assert (mine.asked is None) == (theirs.asked is None)
        if mine.asked is not None and theirs.asked is not None:
            assert np.array_equal(mine.asked, theirs.asked)
        assert (mine.lag_ms is None) == (theirs.lag_ms is None)
        if mine.lag_ms is not None and theirs.lag_ms is not None:
            assert np.allclose(mine.lag_ms, theirs.lag_ms, atol=0.00051)


def test_profiles_of_before_worth_and_threads_are_still_read(document: dict[str, Any]) -> None:
    del document["stages"][1]["worth"], document["stages"][1]["threads"]
    wide = profile_from_json(json.dumps(document)).stage("wide")
    assert wide.worth is None
    assert wide.threads == 1


@pytest.mark.parametrize("field", ["worth", "threads", "lag_ms"])
def test_the_digest_differs_without_each_optional_field(
    field: str, profile: Profile, document: dict[str, Any]
) -> None:
    del document["stages"][1][field]
    assert profile_from_json(json.dumps(document)).digest != profile.digest


def test_second_round_trip_changes_nothing_and_neither_does_the_digest(profile: Profile) -> None:
    text = profile_to_json(profile)
    again = profile_from_json(text.encode())
    assert profile_to_json(again) == text
    assert again.digest == profile.digest


def test_the_digest_is_the_same_whatever_the_width_of_numbers(profile: Profile) -> None:
    stages = tuple(
        stage if stage.asked is None else replace(stage, asked=stage.asked.astype(np.int16))
        for stage in profile.stages
    )
    assert stages[1].asked is not None
    assert stages[1].asked.dtype == np.int16
    assert replace(profile, stages=stages).digest == profile.digest


def test_the_digest_differs_between_profiles(profile: Profile, document: dict[str, Any]) -> None:
    document["stages"][1]["calls_ms"][0][0] += 0.001
    assert profile_from_json(json.dumps(document)).digest != profile.digest


def test_a_part_of_the_requests_keeps_their_services(profile: Profile) -> None:
    part = part_of(profile, np.array([3, 1]))
    assert part.service_ms is not None
    assert part.link_ms is not None
    np.testing.assert_allclose(
        part.service_ms.sum(axis=1) + part.link_ms.sum(axis=1), profile.latency_ms[[3, 1]]
    )


def test_missing_calls_are_null(document: dict[str, Any]) -> None:
    assert document["stages"][1]["calls_ms"][1][7] is None
    assert document["stages"][1]["censored"] == [[4], [], [3]]
    assert "censored" not in document["stages"][0]


def test_stages_may_stand_in_any_order(document: dict[str, Any], profile: Profile) -> None:
    document["stages"].reverse()
    again = profile_from_json(json.dumps(document))
    assert [stage.name for stage in again.stages] == [stage.name for stage in profile.stages]


def set_at(*path: Any, to: Any) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = to

    return edit


def drop(*path: Any) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return edit


def add_stage_twice(document: Any) -> None:
    document["stages"].append(document["stages"][0])


BROKEN = [
    (set_at("version", to=2), "version must be 1, not 2"),
    (drop("version"), "version"),
    (set_at("surprise", to=1), "surprise"),
    (set_at("service_names", to=["a"]), "service_ms has 2 services, and service_names has 1"),
    (set_at("service_names", to=["", "disk"]), "service_names must be at most"),
    (set_at("service_names", to=["disk", "disk"]), "service_names has a name twice"),
    (set_at("service_ms", 0, to=[1.0]), "service_ms of 'shop': has 1 requests, and the profile has 50"),
    (set_at("link_names", to=[]), "link_ms has 1 links, and link_names has 0"),
    (set_at("link_names", 0, to=["shop", ""]), "link_names must be at most 10000 pairs of names of 1 to"),
    (set_at("link_names", to=[["shop", "disk"]] * 2), "link_names has a pair twice"),
    (set_at("link_ms", 0, to=[1.0]), "link_ms of 'shop' and 'disk': has 1 requests, and the profile has 50"),
    (set_at("link_ms", 0, 3, to=-1.0), "link_ms of 'shop' and 'disk', request 3: must be a number of ms"),
    (set_at("service_ms", 1, 3, to=-1.0), "service_ms of 'disk', request 3: must be a number of ms"),
    (set_at("origin", "kind", to=""), "kind, caller and ignored must have 1 to 1000 characters"),
    (set_at("origin", "depth", to=21), "depth must be from 1 to 20, not 21"),
    (set_at("origin", "stages", to="pods"), "pods"),
    (set_at("stages", 1, "writes", to="x" * 1001), "writes must have at most 1000 characters"),
    (set_at("stages", 1, "surprise", to=1), "surprise"),
    (set_at("service", to=""), "service"),
    (set_at("service", to="x" * 2000), "service"),
    (set_at("stages", to=[]), "stages must be from 1"),
    (set_at("latency_ms", to="fast"), "latency_ms"),
    (set_at("latency_ms", 0, to=-1.0), "latency_ms, request 0: must be a number"),
    (set_at("latency_ms", 0, to=None), "latency_ms"),
    (drop("latency_ms", 0), "has 49|has 50"),
    (lambda data: data.update(started_s=[-1e300] * 50), "started_s must be numbers of seconds since 1970"),
    (
        lambda data: data.update(classes=[0] * 50, class_names=["read", "read"]),
        "class_names has a name twice",
    ),
    (drop("started_s", 0), "started_s has 49 requests, and latency_ms has 50"),
    (drop("stages", 1, "calls_ms", 2, 0), "stage 'wide': calls_ms, shard 2: has 49 requests"),
    (set_at("stages", 1, "calls_ms", 0, 5, to=-0.5), "stage 'wide': calls_ms, shard 0, request 5"),
    (set_at("stages", 1, "calls_ms", 0, 5, to=1e300), "stage 'wide': calls_ms, shard 0, request 5"),
    (set_at("stages", 1, "calls_ms", 0, 5, to="1"), "calls_ms"),
    (set_at("stages", 1, "calls_ms", to=[]), "stage 'wide': calls_ms must have from 1"),
    (set_at("stages", 1, "censored", to=[[1]]), "stage 'wide': censored has 1 shards"),
    (set_at("stages", 1, "censored", to=[[50], [], []]), "stage 'wide': censored, shard 0: request 50"),
    (set_at("stages", 1, "censored", to=[[-1], [], []]), "stage 'wide': censored, shard 0: request -1"),
    (set_at("stages", 1, "censored", to=[[], [7], []]), "stage 'wide': censored, shard 1: request 7"),
    (set_at("stages", 1, "busy_ms", to=-1), "stage 'wide': busy_ms"),
    (set_at("stages", 1, "busy_variation", to=-0.1), "stage 'wide': busy_variation"),
    (set_at("stages", 1, "replicas", to=0), "stage 'wide': replicas must be from 1"),
    (
        set_at("stages", 1, "asked", 0, 4, to=2),
        "stage 'wide': asked, shard 0: must be numbers of replica_names",
    ),
    (set_at("stages", 1, "asked", to=[[0]]), "stage 'wide': asked has 1 shards"),
    (set_at("stages", 1, "replica_names", 0, to=""), "stage 'wide': replica_names"),
    (set_at("stages", 1, "replicas", to=2.5), "replicas"),
    (set_at("stages", 1, "threads", to=0), "stage 'wide': threads must be from 1"),
    (set_at("stages", 1, "threads", to=10**6), "stage 'wide': threads must be from 1"),
    (set_at("stages", 1, "worth", 2, 4, to=-1), "stage 'wide': worth, shard 2, request 4: must be from 0"),
    (set_at("stages", 1, "worth", 2, 4, to=1e300), "stage 'wide': worth, shard 2, request 4: must be"),
    (drop("stages", 1, "worth", 2, 4), "stage 'wide': worth, shard 2: has 49 requests"),
    (drop("stages", 1, "worth", 2), "stage 'wide': worth has 2 shards, and calls_ms has 3"),
    (set_at("stages", 1, "name", to=""), "name must have from 1"),
    (set_at("stages", 1, "after", to=["nosuch"]), "'nosuch', which is not a stage"),
    (set_at("stages", 1, "after", to=["last"]), "cycle"),
    (set_at("stages", 1, "after", to=["own (own time)"] * 2), "names a parent twice"),
    (add_stage_twice, "twice"),
    (set_at("stages", 1, "match", to={"service": "x"}), "operation"),
    (set_at("stages", 1, "reissuable", to="yes"), "reissuable"),
    (set_at("counts", to={"x": -1}), "counts"),
    (set_at("counts", to={"x": 1.5}), "counts"),
]


@pytest.mark.parametrize(("edit", "words"), BROKEN)
def test_refuses_and_names_the_place(
    document: dict[str, Any], edit: Callable[[dict[str, Any]], None], words: str
) -> None:
    edit(document)
    with pytest.raises(InputError, match=words) as caught:
        profile_from_json(json.dumps(document), where="some.json")
    assert str(caught.value).startswith("some.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1e999", b"\xff\xfe", "[" * 100_000, '{"version": 1}', "NaN", "<html>"],
)
def test_refuses_what_is_no_json_of_ours(text: str | bytes) -> None:
    with pytest.raises(InputError):
        profile_from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_refuses_numbers_that_are_none(document: dict[str, Any], number: str) -> None:
    document["latency_ms"][0] = 123456.789
    with pytest.raises(InputError):
        profile_from_json(json.dumps(document).replace("123456.789", number))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("field", ["latency_ms", "started_s", "calls_ms"])
def test_a_number_that_is_none_is_named_by_field_and_request(
    document: dict[str, Any], number: str, field: str
) -> None:
    stage = document["stages"][1]
    (stage[field][0] if field in stage else document[field])[2] = 123456.789
    text = json.dumps(document).replace("123456.789", number)
    words = rf"p.json: {field}, request 2: {number.lstrip('-')} is not a number in JSON \(line 1, byte \d+\)"
    for given_as in (text, text.encode()):
        with pytest.raises(InputError, match=words):
            profile_from_json(given_as, where="p.json")


@pytest.mark.parametrize(
    ("limit", "words"), [("MAX_REQUESTS", "requests"), ("MAX_CELLS", "calls"), ("MAX_BYTES", "bytes")]
)
def test_refuses_what_is_too_large(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, limit: str, words: str
) -> None:
    text = profile_to_json(profile)
    monkeypatch.setattr(f"kwiken.model.profile.codec.{limit}", 10)
    with pytest.raises(InputError, match=words):
        profile_from_json(text)


def test_unreadable_profiles_are_not_written(stage_of: StageOf, profile_of: ProfileOf) -> None:
    with pytest.raises(InputError, match="latency_ms, request 1"):
        profile_to_json(profile_of(stage_of("a", [1.0, math.inf])))


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(0, 1e7)), min_size=2, max_size=2), min_size=1, max_size=20
    )
)
def test_any_calls_round_trip(rows: list[list[float | None]]) -> None:
    document = {
        "version": 1,
        "service": "s",
        "latency_ms": [1.0] * len(rows),
        "started_s": [0.0] * len(rows),
        "stages": [
            {
                "name": "a",
                "match": {"service": "s", "operation": "a", "occurrence": 1},
                "calls_ms": [list(column) for column in zip(*rows, strict=True)],
            }
        ],
    }
    profile = profile_from_json(json.dumps(document))
    again = profile_from_json(profile_to_json(profile))
    assert np.allclose(again.stages[0].calls_ms, profile.stages[0].calls_ms, atol=0.00051, equal_nan=True)
    assert again.digest == profile.digest
