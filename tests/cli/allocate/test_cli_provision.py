"""`kwiken provision` end to end: tables, documents, the picture, and one line for bad input."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kwiken.allocator.provisioning.document import Provision
from tests.support.data.public_files import public_file
from tests.support.models.price_lists import SPOT_OFFER, price_list
from tests.support.project.commands import refused, run


def write(folder: Path) -> None:
    hours = np.arange(14 * 24)
    cores = 100 + 40 * np.sin(hours / 24 * 2 * np.pi)
    for name, first, last in (("load", 0, 168), ("later", 168, 336)):
        rows = [f"{hour * 3600},{cores[hour]:.4f}" for hour in range(first, last)]
        (folder / f"{name}.csv").write_text("time,cores\n" + "\n".join(rows) + "\n")
    (folder / "prices.toml").write_text(price_list())
    (folder / "spot.toml").write_text(price_list(extra=SPOT_OFFER))
    up = [0 if 60 <= step % 100 < 63 else 1 for step in range(2000)]
    (folder / "zone.json").write_text(json.dumps({"metadata": {"gap_seconds": 60}, "data": up}))


def test_a_decision_is_shown_written_and_judged(tmp_path: Path) -> None:
    write(tmp_path)
    names = {name: str(tmp_path / name) for name in ("load.csv", "later.csv", "prices.toml", "p.json")}
    result = run(
        *("provision", names["load.csv"], "--prices", names["prices.toml"], "--judge", names["later.csv"]),
        *("-o", names["p.json"]),
    )
    assert result.exit_code == 0, result.stderr
    for strategy in ("on demand only", "reserved, peak + 15%", "quantile reserved", "best in hindsight"):
        assert strategy in result.stdout
    assert "cheapest by the weeks that one commits for: 1 or more: " in result.stdout
    assert "by the hour it is prorated" in result.stdout
    decided = Provision.from_json((tmp_path / "p.json").read_text(), where="p.json")
    assert decided.prices_of == "2026-11-01"
    judged = {one.name: one.hourly for one in decided.judged}
    assert judged["decided"] <= 1.03 * judged["best in hindsight"]
    assert judged["decided"] < min(judged["on demand only"], judged["reserved, peak + 15%"])


def test_spot_is_a_third_kind(tmp_path: Path) -> None:
    write(tmp_path)
    result = run(
        *("provision", str(tmp_path / "load.csv"), "--prices", str(tmp_path / "spot.toml")),
        *("--judge", str(tmp_path / "later.csv"), "--tolerant", "0.4", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    judged = {one["name"]: one["hourly"] for one in found["judged"]}
    assert judged["decided, with spot"] < judged["decided"]
    assert 0.9 < found["spot"]["share_up"] <= 1
    assert (
        run("provision", str(tmp_path / "load.csv"), "--prices", str(tmp_path / "spot.toml")).exit_code == 0
    )


def test_requests_cost_what_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "rps.csv").write_text(
        "time,requests_per_s\n" + "".join(f"{60 * at},500\n" for at in range(50))
    )
    prices = str(tmp_path / "prices.toml")
    result = run("provision", str(tmp_path / "rps.csv"), "--prices", prices, "--request-ms", "20", "--json")
    assert json.loads(result.stdout)["decided_on"]["mean"] == pytest.approx(10.0)


def test_the_document_is_exported(tmp_path: Path) -> None:
    write(tmp_path)
    path = str(tmp_path / "p.json")
    run("provision", str(tmp_path / "load.csv"), "--prices", str(tmp_path / "prices.toml"), "-o", path)
    result = run("export", path, "--to", "karpenter")
    assert result.exit_code == 0
    assert "kind: NodePool" in result.stdout
    refused(run("export", str(tmp_path / "load.csv"), "--to", "karpenter"), "broken JSON")
    refused(run("export", path, "--to", "karpenter", "--map", path), "do not go with --to karpenter")


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        (("none.csv", "--prices", "prices.toml"), r"none\.csv: there is no such file"),
        (("load.csv", "--prices", "none.toml"), r"none\.toml: there is no such file"),
        (("prices.toml", "--prices", "prices.toml"), r"prices\.toml:1"),
        (("load.csv", "--prices", "load.csv"), r"load\.csv.*broken TOML"),
        (("load.csv", "--prices", "prices.toml", "--judge", "other.csv"), r"other\.csv: has a step of 60 s"),
        (("load.csv", "--prices", "prices.toml", "--tolerant", "2"), "--tolerant"),
        (("load.csv", "--prices", "prices.toml", "--wait", "soon"), "is not a time"),
        (("load.csv", "--prices", "prices.toml", "--request-ms", "5"), "is in cores"),
        (("load.csv", "--prices", "prices.toml", "--json", "-o", "-"), "both write to stdout"),
        (("load.csv", "--prices", "half.toml"), r"broken\.json: has a text with .*half of a pair"),
        (("load.csv", "--prices", "lost.toml"), r"zone\.json\.gz: there is no such file"),
        (
            ("load.csv", "--prices", "prices.toml", "--profile", "x", "--request-ms", "5"),
            "--request-ms: says the",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: tuple[str, ...], pattern: str) -> None:
    write(tmp_path)
    (tmp_path / "other.csv").write_text("time,cores\n0,1\n60,1\n120,1\n")
    (tmp_path / "half.toml").write_text(price_list(extra=SPOT_OFFER.replace("zone.json", "broken.json")))
    (tmp_path / "broken.json").write_text('{"metadata": {"gap_seconds": "\\ud800"}, "data": [1, 1]}')
    (tmp_path / "lost.toml").write_text(price_list(extra=SPOT_OFFER.replace("zone.json", "zone.json.gz")))
    known = {path.name for path in tmp_path.iterdir()} | {"none.csv", "none.toml"}
    refused(run("provision", *(str(tmp_path / word) if word in known else word for word in words)), pattern)


def pods(first_day: int, days: int) -> list[float]:
    """Cores asked for by the pods of a recorded cluster, hour by hour."""
    with gzip.open(public_file("fleet/openb_pod_list_default.csv.gz"), "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["scheduled_time"]]
    count = 149 * 24
    total = np.zeros(count + 2)
    for row in rows:
        begin, end = (min(float(row[name]) / 3600, count) for name in ("scheduled_time", "deletion_time"))
        cores, first, last = float(row["cpu_milli"]) / 1000, int(begin), int(end)
        total[first : last + 1] += cores
        total[first] -= cores * (begin - first)
        total[last] -= cores * (last + 1 - end)
    found: list[float] = total[24 * first_day : 24 * (first_day + days)].tolist()
    return found


@pytest.mark.parametrize("ratio", [1.6, 2.74])
def test_a_recorded_cluster(tmp_path: Path, ratio: float) -> None:
    write(tmp_path)
    for name, first in (("a", 115), ("b", 132)):
        rows = [f"{3600 * hour},{cores:.6f}" for hour, cores in enumerate(pods(first, 17))]
        (tmp_path / f"{name}.csv").write_text("time,cores\n" + "\n".join(rows) + "\n")
    (tmp_path / "prices.toml").write_text(price_list(ratio))
    result = run(
        *("provision", str(tmp_path / "a.csv"), "--prices", str(tmp_path / "prices.toml")),
        *("--judge", str(tmp_path / "b.csv"), "--json"),
    )
    judged = {one["name"]: one["hourly"] for one in json.loads(result.stdout)["judged"]}
    assert judged["on demand only"] == pytest.approx(501, abs=1.5)
    assert judged["decided"] <= (1.03 if ratio < 2 else 1.07) * judged["best in hindsight"]
