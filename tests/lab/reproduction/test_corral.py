"""Corral's reproduction: generators, the ablation of the rate of tasks, and the parts that are listed."""

from __future__ import annotations

import pytest

from kwiken.lab.reproduction import reproduction
from kwiken.lab.reproduction.batch.corral import ablation
from kwiken.lab.reproduction.batch.corral.workloads import START_S, w1, w2


def test_a_rate_changes_the_time_of_tasks_alone() -> None:
    for slow, fast in (
        (w1(20, 5), w1(20, 5, rate=40e6)),
        (w2(5), w2(5, rate=40e6)),
    ):
        for one, other in zip(slow, fast, strict=True):
            assert one.input_bytes == other.input_bytes
            for before, after in zip(one.stages, other.stages, strict=True):
                assert (before.tasks, before.shuffled_bytes) == (after.tasks, after.shuffled_bytes)
                assert before.task_s - START_S == pytest.approx(4 * (after.task_s - START_S))


def test_every_part_is_listed_once() -> None:
    names = [part.name for part in reproduction("corral", seeds=1).parts]
    assert len(set(names)) == len(names)
    assert {"batch", "online", "flows", "rates of tasks"} <= set(names)


def test_rows_of_the_ablation_say_where_an_order_holds() -> None:
    seeds = [{"W1 batch": -30.0, "W1 online": -0.5, "W2 batch": 20.0, "giants": 3.0}] * 2
    found = ablation.conclude_rates([seeds] * len(ablation.RATES_MB_PER_S))
    orders = {row.metric.split(": ", 1)[1]: row.note for row in found.rows if "before" in row.metric}
    assert orders["Corral before Yarn-CS, W1 batch: seeds of 2"] == "holds"
    assert orders["Corral before Yarn-CS, W1 online: seeds of 2"] == "fails"
    assert orders["Corral before Yarn-CS, W2 batch: seeds of 2"] == "fails"


@pytest.mark.slow
def test_giants_get_three_racks_where_tasks_are_quick() -> None:
    assert ablation.at_rate(10, 300)["giants"] < ablation.at_rate(40, 300)["giants"] == 3
