"""Lines for Kueue, checked against the custom resource definitions of its Go module."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwiken.allocator.waiting.document import LinedJob, LinesDocument, PlannedLine
from kwiken.base.errors import InputError
from kwiken.export.lines.kueue import kueue_queues
from tests.support.export.schemas import faults

MODULE = "sigs.k8s.io/kueue@v0.17.0"
FILES = {"ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues"}


def lines(count: int = 3, name: str = "line-{}") -> LinesDocument:
    return LinesDocument(
        version=1,
        source="nodes.toml",
        lines=[
            PlannedLine(
                name=name.format(at),
                above=100.0 * (count - 1 - at) / count,
                jobs=[LinedJob(name=f"job-{at}", quality=50.0, suits=0.5)],
                nodes=[f"node-{at}-{number}" for number in range(at * 15)],
                cores=4.5 * at,
                memory_gb=16.0 * at,
            )
            for at in range(count)
        ],
    )


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Schemas by kind in the module, as `go mod download` brings it."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed, so the definitions of Kueue cannot be had")
    try:
        done = subprocess.run(
            [go, "mod", "download", "-json", MODULE],
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
            check=False,
        )
        path = Path(json.loads(done.stdout)["Zip"])
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        pytest.skip("the Go module sigs.k8s.io/kueue cannot be had here")
    found = {}
    with zipfile.ZipFile(path) as archive:
        for kind, file in FILES.items():
            name = f"{MODULE}/config/components/crd/bases/kueue.x-k8s.io_{file}.yaml"
            for version in yaml.safe_load(archive.read(name))["spec"]["versions"]:
                if version["name"] == "v1beta2":
                    found[kind] = version["schema"]["openAPIV3Schema"]
    return found


def resources(document: LinesDocument) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(kueue_queues(document, where="queues.json")))


def test_each_line_is_a_queue_that_borrows_from_its_neighbours() -> None:
    found = resources(lines())
    assert [one["kind"] for one in found] == ["ResourceFlavor", "ClusterQueue", "LocalQueue"] * 3
    middle = next(
        one for one in found if one["kind"] == "ClusterQueue" and one["metadata"]["name"] == "line-1"
    )
    (group,) = middle["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["line-1", "line-0", "line-2"]
    quotas = [flavor["resources"][0]["nominalQuota"] for flavor in group["flavors"]]
    assert quotas == ["4500m", "0m", "0m"]
    assert {one["spec"]["cohortName"] for one in found if one["kind"] == "ClusterQueue"} == {"kwiken"}
    assert middle["spec"]["queueingStrategy"] == "BestEffortFIFO"  # a head that waits blocks nobody


def test_the_labels_of_nodes_are_said() -> None:
    text = kueue_queues(lines(), where="queues.json")
    assert "kubectl label node node-1-0" in text
    assert "(and 10 more)" in " ".join(text.replace("\n#", " ").split())


def test_kueue_takes_the_queues() -> None:
    schemas = definitions()
    for one in resources(lines(10)):
        assert not faults(one, schemas[one["kind"]], "queue", {"queue.metadata"})


def test_the_check_sees_faults() -> None:
    schemas = definitions()
    queue = resources(lines())[1]
    queue["spec"]["queueingStrategy"] = "Fair"
    queue["spec"]["colour"] = 1
    del queue["spec"]["resourceGroups"][0]["coveredResources"]
    assert len(faults(queue, schemas["ClusterQueue"], "queue", {"queue.metadata"})) == 3


def test_what_kubernetes_does_not_take_is_refused() -> None:
    with pytest.raises(InputError, match=r"lines\[0\]\.name: 'Line 0' is no name"):
        kueue_queues(lines(name="Line {}"), where="q.json")
    with pytest.raises(InputError, match="at most 64 flavors, not 65"):
        kueue_queues(lines(65), where="q.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "is no document of lines"),
        ("[", "broken JSON"),
        ('{"version": 2, "source": "", "lines": []}', "version must be 1"),
        ('{"version": 1, "source": "", "lines": []}', "lines"),
        ('{"version": 1, "source": "", "lines": [{"name": "a"}]}', "missing"),
    ],
)
def test_other_documents_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        LinesDocument.from_json(text, where="q.json")


def test_names_that_come_twice_are_refused() -> None:
    text = lines().to_json()
    assert LinesDocument.from_json(text, where="q.json") == lines()
    with pytest.raises(InputError, match="line 'line-0' is named twice"):
        LinesDocument.from_json(text.replace("line-1", "line-0"), where="q.json")
    with pytest.raises(InputError, match="job 'job-0' is named twice"):
        LinesDocument.from_json(text.replace("job-1", "job-0"), where="q.json")
    with pytest.raises(InputError, match="above must fall"):
        LinesDocument.from_json(text.replace("33.3", "83.3"), where="q.json")
