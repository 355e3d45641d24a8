"""Admission of jobs with deadlines: tuples in time, on a tree of a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.predictor import Predictor
from kwiken.batch.jobs.replay.replayed_run import NetworkBounds
from kwiken.batch.racks.admission import admission_tree, judge_offers, offers_in_time
from kwiken.batch.racks.selection import select_tuple
from kwiken.model.nodes.document import cluster_from_toml
from papers.worlds.queries.event_lines import event_log
from papers.worlds.queries.world import draw_query, run_query
from tests.support.data.batch.clusters import two_racks

CLUSTER = two_racks("slots = 4", "nic_gbps = 1")
LINK = 1e9 / 8


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    query = draw_query("query", np.random.default_rng(3))
    log = event_log(run_query(query, 4, 1, np.random.default_rng(4)), "app")
    found = read_log(log, name="n", where="w")
    assert found is not None
    return Predictor(found.jobs)


def test_a_tree_has_places_for_executors() -> None:
    tree = admission_tree(cluster_from_toml(CLUSTER, where="c"), 2)
    assert tree.free.tolist() == [2] * 6
    assert tree.machine_link == LINK
    with pytest.raises(InputError, match="5 free slots"):
        admission_tree(cluster_from_toml(CLUSTER, where="c"), 5)


def test_tuples_are_in_time_with_the_least_bandwidth(predictor: Predictor) -> None:
    deadline_ms = 1.2 * predictor.at(4).high_ms
    offers, nearest_ms = offers_in_time(predictor, deadline_ms, range(1, 13), LINK)
    assert offers
    assert nearest_ms <= deadline_ms
    for offer in offers:
        assert offer.time_s <= deadline_ms / 1e3 + 1e-9
        less = NetworkBounds(machines=offer.size, bytes_per_s=max(1.0, 0.9 * offer.bandwidth - LINK / 2**13))
        if offer.size > 1 and offer.bandwidth > LINK / 2**10:
            assert predictor.at(offer.size, network=less).high_ms > deadline_ms


def test_judging_takes_nothing_and_the_choice_is_the_least_imbalance(predictor: Predictor) -> None:
    tree = admission_tree(cluster_from_toml(CLUSTER, where="c"), 1)
    offers, _ = offers_in_time(predictor, 1.2 * predictor.at(4).high_ms, range(1, 13), LINK)
    judged = judge_offers(tree, offers)
    assert tree.free.sum() == 24
    found = select_tuple(tree, offers, "balanced", np.random.default_rng(0))
    assert found is not None
    assert found.imbalance == min(one.imbalance for one in judged if one.imbalance is not None)
    assert tree.free.sum() == 24 - found.offer.size


def test_a_deadline_that_nothing_meets_has_no_tuple(predictor: Predictor) -> None:
    offers, nearest_ms = offers_in_time(predictor, 1.0, range(1, 5), LINK)
    assert offers == []
    assert nearest_ms > 1.0
