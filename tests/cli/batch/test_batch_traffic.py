"""`kwiken batch plan --traffic`: services' traffic on the uplinks; `predict --at`: input of the same hour."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwiken.cli.verbs import kwiken
from kwiken.traffic.document import LearnedWindow, PriorWeights, TrafficModel
from kwiken.traffic.flows import TrafficEndpoint, TrafficUnit
from kwiken.traffic.windows import DayWindow, WindowDays
from tests.support.data.batch.clusters import two_racks
from tests.support.project.commands import refused

TABLE = "".join(f"job{n}\t{n * 20}\t20\t{n * 300_000_000}\t{n * 900_000_000}\t{n * 1000}\n" for n in range(8))
CLUSTER = two_racks("nic_gbps = 1")
GBPS = 1e9 / 8


def run(*words: str) -> Result:
    return CliRunner().invoke(kwiken, ["batch", *words])


def traffic(gbit_per_s: tuple[float, float], unit: TrafficUnit = TrafficUnit.BYTES, far: str = "b-1") -> str:
    """Model of two services on two racks, with another rate in each half of the day."""
    model = TrafficModel(
        version=2,
        unit=unit,
        bin_s=60.0,
        from_s=0.0,
        until_s=86_400.0,
        endpoints=[TrafficEndpoint("web", "web", node="a-1"), TrafficEndpoint("store", "store", node=far)],
        source=[0],
        target=[1],
        seen=[1.0],
        prior=PriorWeights(service=0.0, instance=0.0),
        windows=[
            LearnedWindow(
                window=DayWindow(WindowDays.ALL, 12.0 * place, 12.0 * place + 12),
                seconds=3600.0,
                amount=3600 * rate * GBPS,
                shares=[1.0],
            )
            for place, rate in enumerate(gbit_per_s)
        ],
    )
    return model.to_json()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, Path]:
    table, cluster = tmp_path / "jobs.tsv", tmp_path / "cluster.toml"
    table.write_text(TABLE)
    cluster.write_text(CLUSTER)
    return str(table), str(cluster), tmp_path / "traffic.json"


def test_traffic_of_the_busiest_window_is_taken_off_the_uplinks(files: tuple[str, str, Path]) -> None:
    table, cluster, model = files
    model.write_text(traffic((0.1, 0.3)))
    found = run("plan", table, "--cluster", cluster, "--traffic", str(model), "--json")
    assert found.exit_code == 0, found.output
    assert "uplinks of 0.3 Gbit/s" in found.stderr
    assert "services take up to 0.3 Gbit/s of a rack's uplink" in found.stderr
    alone = run("plan", table, "--cluster", cluster, "--json")
    assert "uplinks of 0.6 Gbit/s" in alone.stderr
    assert json.loads(found.stdout)["simulated"] != json.loads(alone.stdout)["simulated"]


def test_bad_traffic_is_refused(files: tuple[str, str, Path]) -> None:
    table, cluster, model = files
    plan = ("plan", table, "--cluster", cluster, "--traffic", str(model))
    model.write_text(traffic((0.1, 0.3), TrafficUnit.CALLS))
    refused(run(*plan), "counts calls, not bytes")
    model.write_text(traffic((0.1, 0.7)))
    refused(run(*plan), "of the uplink of rack 'east', which has 0.6")
    model.write_text(traffic((0.1, 0.2), far="elsewhere"))
    refused(run(*plan), "no two of its endpoints are on nodes of the cluster")
    assert "Missing option '--cluster'" in run("plan", table, "--traffic", str(model)).stderr


def test_input_is_forecast_from_runs_at_the_same_hour() -> None:
    logs = str(Path(__file__).resolve().parents[3] / "examples/batch")
    words = ("predict", logs, "--executors", "8", "--json")
    found = run(*words, "--at", "2023-11-15T22:00")
    assert found.exit_code == 0, found.output
    assert "the mean of earlier runs at that hour" in found.stderr
    assert json.loads(found.stdout)["predictions"] == json.loads(run(*words).stdout)["predictions"]
    refused(run(*words, "--at", "2023-11-15T04:00"), "no earlier run at this time of day")
    assert "is no time" in run(*words, "--at", "soon").stderr
    assert "choose one" in run(*words, "--at", "2023-11-15T22:00", "--input", "2x").stderr
