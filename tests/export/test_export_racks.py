"""Plans of racks as settings of engines."""

from __future__ import annotations

import pytest
import yaml

from kwiken.batch.racks.document import PlannedJob, RackPlan
from kwiken.export.racks.settings import RACK_PROGRAMS, untold

PLAN = RackPlan(
    minimise="makespan",
    racks=["r1", "r2"],
    objective_s=9.0,
    jobs=[
        PlannedJob(
            name="Daily report'; rm",
            racks=["r1"],
            further_rack="r2",
            priority=0,
            arrival_s=0.0,
            start_s=0.0,
            took_s=5.0,
        ),
        PlannedJob(
            name="joins\nx: y",
            racks=["r1", "r2"],
            further_rack="r1",
            priority=1,
            arrival_s=0.0,
            start_s=5.0,
            took_s=4.0,
        ),
    ],
)


@pytest.mark.parametrize("program", list(RACK_PROGRAMS))
def test_what_an_engine_cannot_be_told_is_in_the_text(program: str) -> None:
    text = " ".join(RACK_PROGRAMS[program](PLAN).replace("\n#", " ").split())
    for remark in untold(program):
        assert remark in text


def test_kubernetes_gets_affinity_and_priority_classes() -> None:
    documents = list(yaml.safe_load_all(RACK_PROGRAMS["kubernetes"](PLAN)))
    classes = {one["metadata"]["name"]: one for one in documents if one["kind"] == "PriorityClass"}
    jobs = [one for one in documents if one["kind"] == "Job"]
    assert [one["metadata"]["name"] for one in jobs] == ["daily-report-rm", "joins-x-y"]
    values = []
    for one, racks in zip(jobs, (["r1"], ["r1", "r2"]), strict=True):
        spec = one["spec"]["template"]["spec"]
        affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (rule,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
        assert (rule["key"], rule["values"]) == ("topology.kubernetes.io/rack", racks)
        values.append(classes[spec["priorityClassName"]]["value"])
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 2


def test_yarn_and_spark_name_racks_queues_and_waits() -> None:
    yarn = RACK_PROGRAMS["yarn"](PLAN)
    assert "-placement_spec 'rm.yarn.io/rack=r1'" in yarn
    assert "-placement_spec 'OR(rm.yarn.io/rack=r1:rm.yarn.io/rack=r2)'" in yarn
    capacities = [int(line.rpartition("=")[2]) for line in yarn.splitlines() if ".capacity=" in line]
    assert sum(capacities) == 100
    spark = [line for line in RACK_PROGRAMS["spark"](PLAN).splitlines() if not line.startswith("#")]
    assert len(spark) == 2
    assert all("spark.locality.wait.rack" in line for line in spark)
    assert "nodeLabelExpression=r1" in spark[0]
    assert "nodeLabelExpression" not in spark[1]


def test_names_that_are_alike_in_kubernetes_stay_apart_and_labels_are_valid() -> None:
    import msgspec

    jobs = [
        msgspec.structs.replace(job, name=name, racks=["Zone a/" + "r" * 80])
        for job, name in zip(PLAN.jobs, ("Daily report", "daily-report"), strict=True)
    ]
    plan = msgspec.structs.replace(PLAN, racks=jobs[0].racks, jobs=jobs)
    documents = list(yaml.safe_load_all(RACK_PROGRAMS["kubernetes"](plan)))
    patches = [one for one in documents if one["kind"] == "Job"]
    assert len({one["metadata"]["name"] for one in patches}) == 2
    spec = patches[0]["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (value,) = affinity["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]
    assert len(value) <= 63
    assert value.startswith("Zone_a_r")
