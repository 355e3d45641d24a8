"""`kwiken traffic` and `kwiken place --traffic`: the example, what is printed and written, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwiken.traffic.document import TrafficModel
from tests.support.data.public_files import public_file
from tests.support.project.commands import ROOT, refused, run

EXAMPLE = ROOT / "examples" / "traffic"
NODES, WORKLOADS, FLOWS = (str(EXAMPLE / name) for name in ("nodes.toml", "workloads.toml", "flows.jsonl"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traffic") / "traffic.json"
    assert run("traffic", "fit", FLOWS, "--nodes", NODES, "-o", str(path)).exit_code == 0
    return str(path)


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("profiles") / "profiles.json"
    assert run("classify", str(EXAMPLE / "measurements.toml"), "-o", str(path)).exit_code == 0
    return str(path)


def spans(*calls: tuple[str, str, str]) -> str:
    """Jaeger JSON of one trace a call: caller, callee, zone of both."""
    traces = []
    for number, (caller, callee, zone) in enumerate(calls, 1):
        processes = {
            key: {
                "serviceName": service,
                "tags": [
                    {"key": "k8s.pod.name", "value": f"{service}-1"},
                    {"key": "k8s.node.name", "value": f"node-{zone}"},
                    {"key": "cloud.availability_zone", "value": zone},
                ],
            }
            for key, service in (("p1", caller), ("p2", callee))
        }
        trace = f"{number:032x}"
        at = 1_700_000_000_000_000 + 1_000_000 * number
        found = [
            {
                "traceID": trace,
                "spanID": "01",
                "operationName": "get",
                "startTime": at,
                "duration": 900,
                "processID": "p1",
            },
            {
                "traceID": trace,
                "spanID": "02",
                "operationName": "serve",
                "startTime": at + 100,
                "duration": 500,
                "processID": "p2",
                "references": [{"refType": "CHILD_OF", "traceID": trace, "spanID": "01"}],
            },
        ]
        traces.append({"traceID": trace, "spans": found, "processes": processes})
    return json.dumps({"data": traces})


def test_spans_state_instances_nodes_and_zones(tmp_path: Path) -> None:
    traces, out = tmp_path / "traces.json", tmp_path / "traffic.json"
    traces.write_text(spans(("cart", "stock", "a"), ("cart", "stock", "a"), ("web", "cart", "b")))
    result = run("traffic", "fit", str(traces), "--bin", "1m", "-o", str(out), "--json")
    assert result.exit_code == 0, result.stderr
    found = TrafficModel.from_json(out.read_text(), where="t")
    assert next((one.service, one.node, one.zone) for one in found.endpoints) == ("cart", "node-a", "a")
    assert sorted(found.seen) == [1.0, 2.0]
    levels = {each["level"]: each for each in json.loads(result.stdout)["levels"]}
    assert levels["zone"]["places"] == 2
    assert {(p["from"], p["to"]) for p in levels["service"]["pairs"]} == {("cart", "stock"), ("web", "cart")}


def test_a_model_is_shown_and_judged(model: str) -> None:
    assert "busiest pairs" in run("traffic", "show", model).stdout
    judged = run("traffic", "judge", FLOWS, model, "--json")
    assert judged.exit_code == 0, judged.stderr
    levels = {each["level"]: each for each in json.loads(judged.stdout)["levels"]}
    assert levels["service"]["mean"]["all_pairs"] == 0.0  # the same traffic
    refused(run("traffic", "generate", model), "'generate' was removed; use `kwiken load`")


def test_fewer_calls_cross_zones_at_no_more_cost(model: str, profiles: str, tmp_path: Path) -> None:
    out = tmp_path / "placement.json"
    result = run(
        "place", NODES, WORKLOADS, "--profiles", profiles, "--traffic", model, "-o", str(out), "--json"
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)["traffic"]
    assert told["fewer_between_zones"] >= 0.3
    assert told["with"]["cost_per_hour"] <= told["without"]["cost_per_hour"] * (1 + 1e-6)
    assert all(one["status"] == "met" for one in json.loads(out.read_text())["workloads"])
    explained = run("place", NODES, WORKLOADS, "--profiles", profiles, "--traffic", model, "--explain")
    assert "what crosses zones still" in explained.stdout


def test_zones_are_those_of_nodes_where_none_is_named(model: str, profiles: str, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(
        "\n".join(line for line in Path(NODES).read_text().splitlines() if not line.startswith("zone"))
    )
    result = run("place", str(nodes), WORKLOADS, "--profiles", profiles, "--traffic", model)
    assert result.exit_code == 0, result.stderr
    assert "no node has a zone" in result.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{", "broken JSON"),
        ('{"version": 2}', "missing"),
        ('{"version": 1}', "version must be 2"),
        ("[]", "object"),
    ],
)
def test_a_bad_model_is_one_line(text: str, why: str, profiles: str, tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    path.write_text(text)
    for command in (
        ("traffic", "show", str(path)),
        ("traffic", "judge", FLOWS, str(path)),
    ):
        refused(run(*command), why)
    refused(run("place", NODES, WORKLOADS, "--profiles", profiles, "--traffic", str(path)), why)


def test_bad_traffic_is_one_line(model: str, profiles: str, tmp_path: Path) -> None:
    alone = tmp_path / "alone.json"
    alone.write_text(spans(("cart", "cart", "a")))
    refused(run("traffic", "fit", str(alone)), "no span calls another service")
    refused(run("traffic", "fit", str(tmp_path / "none.json")), "there is no such file")
    refused(run("traffic", "fit", FLOWS, str(alone)), "files of one kind")
    refused(run("traffic", "fit", FLOWS, "--bin", "0s"), "is not a time")
    traces = tmp_path / "traces.json"
    traces.write_text(spans(("mars", "venus", "a")))
    refused(run("traffic", "fit", str(traces), "--addresses", FLOWS), "goes with flow logs")
    refused(
        run("traffic", "fit", str(traces), "--nodes", NODES), "no endpoint of the traffic stands on a node"
    )
    other = tmp_path / "other.json"
    assert run("traffic", "fit", str(traces), "-o", str(other)).exit_code == 0
    refused(
        run("place", NODES, WORKLOADS, "--profiles", profiles, "--traffic", str(other)),
        "no traffic between two of the workloads",
    )


@pytest.mark.parametrize(("day", "other"), [("29", "30"), ("30", "29")])
def test_on_a_real_day_the_map_errs_no_more_than_the_mean(day: str, other: str, tmp_path: Path) -> None:
    days, out = public_file("train-ticket"), tmp_path / "traffic.json"
    assert run("traffic", "fit", str(days / f"2023-01-{day}.json.gz"), "-o", str(out)).exit_code == 0
    judged = run("traffic", "judge", str(days / f"2023-01-{other}.json.gz"), str(out), "--json")
    for level in json.loads(judged.stdout)["levels"]:
        for part in ("all_pairs", "busiest"):
            assert level["model"][part] <= level["mean"][part]


def changed(model: str, tmp_path: Path, **fields: object) -> str:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(json.loads(Path(model).read_text()) | fields))
    return str(path)


@pytest.mark.parametrize(
    "fields", [{"from_s": 1e308, "until_s": 1.1e308}, {"bin_s": 1e-300}, {"until_s": 1e18}]
)
def test_times_that_no_calendar_has_are_refused(model: str, tmp_path: Path, fields: dict[str, float]) -> None:
    refused(run("traffic", "show", changed(model, tmp_path, **fields)), "changed.json: (from|until|bin)_s: ")


def test_windows_without_time_have_no_rate(model: str, tmp_path: Path) -> None:
    windows = json.loads(Path(model).read_text())["windows"]
    idle = changed(model, tmp_path, windows=[each | {"seconds": 0.0} for each in windows])
    refused(run("traffic", "show", idle), r"windows\[0\].seconds must be above 0, since amount is")


def test_a_log_in_milliseconds_is_told(tmp_path: Path) -> None:
    log = tmp_path / "vpc.log"
    line = "2 1 e 10.0.0.1 10.0.0.2 1 2 6 1 100 1700000000000 1700000001 ACCEPT OK\n"
    log.write_text(line)
    refused(run("traffic", "fit", str(log)), "start must be in seconds since 1970")
