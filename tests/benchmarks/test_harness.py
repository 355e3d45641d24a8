"""Benchmark harness: interleaved timing, ratios by round, targets, and the page of results."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from benchmarks import __main__ as program, formats
from benchmarks.formats import as_json, as_page, as_table, cells, circumstances, figure
from benchmarks.harness import (
    MIN_TIMED_S,
    Row,
    alone,
    in_turn,
    median_interval,
    paired,
    side_by_side,
    timed,
)


@pytest.fixture(autouse=True)
def few_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of the machine is measured; how long that takes is not asked here."""
    monkeypatch.setattr(formats, "ADDITIONS", 10_000)


class Ticker:
    """A clock that only work moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.order: list[str] = []
        monkeypatch.setattr("benchmarks.harness.time", SimpleNamespace(perf_counter=lambda: self.now))

    def work(self, name: str, *seconds: float) -> object:
        waits = list(seconds)

        def once() -> None:
            self.order.append(name)
            self.now += waits.pop(0) if len(waits) > 1 else waits[0]

        return once


@pytest.fixture
def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    return Ticker(monkeypatch)


def test_variants_alternate_and_the_first_round_is_dropped(ticker: Ticker) -> None:
    rows = in_turn(
        "x",
        ticker.work("a", 100.0, 1.0),  # type: ignore[arg-type]
        [("b", ticker.work("b", 2.0)), ("c", ticker.work("c", 3.0))],  # type: ignore[list-item]
        rounds=3,
        unit="ms",
        scale=1e3,
    )
    assert ticker.order == ["a", "b", "c"] * 4
    assert [(row.alternative, row.ours, row.theirs, row.ratio) for row in rows] == [
        ("b", 1000.0, 2000.0, 2.0),
        ("c", 1000.0, 3000.0, 3.0),
    ]


def test_ratios_are_taken_round_by_round(ticker: Ticker) -> None:
    """The machine is ten times slower in the last round: the ratio does not mind."""
    row = side_by_side(
        "x",
        ticker.work("a", 1.0, 1.0, 1.0, 10.0),  # type: ignore[arg-type]
        ("b", ticker.work("b", 1.0, 2.0, 3.0, 40.0)),  # type: ignore[arg-type]
        rounds=3,
        unit="s",
        scale=1.0,
    )
    assert row.ratio == 3.0
    assert row.spread == (2.0, 4.0)


def test_short_work_is_timed_several_times_in_a_row(ticker: Ticker) -> None:
    calls = []

    def work() -> None:
        calls.append(ticker.now)
        ticker.now += 0.5 if len(calls) == 1 else 0.001

    assert timed(work) == 0.5
    assert timed(work) == pytest.approx(0.001)
    assert len(calls) == 2 + round(MIN_TIMED_S / 0.001)


def test_alone(ticker: Ticker) -> None:
    row = alone("x", ticker.work("a", 9.0, 1.0, 5.0, 2.0), rounds=3, unit="s", scale=1.0, target=1.5)  # type: ignore[arg-type]
    assert (row.ours, row.spread, row.met) == (2.0, (1.0, 5.0), False)


@pytest.mark.parametrize(
    ("ours", "target", "met", "judged"),
    [
        (1.0, 2.0, None, True),
        (2.0, 2.0, None, True),
        (3.0, 2.0, None, False),
        (3.0, None, None, None),
        (3.0, 2.0, True, True),
    ],
)
def test_target(ours: float, target: float | None, met: bool | None, judged: bool | None) -> None:
    assert Row(name="x", ours=ours, unit="", target=target, met=met).met is judged


RESULTS = {
    "one": [
        Row(
            name="race",
            ours=6.54321,
            unit="us",
            target=12,
            alternative="floor",
            theirs=8,
            ratio=1.25,
            spread=(1, 2),
        )
    ],
    "two": [Row(name="load", ours=123456.0, unit="spans/s", target=200000.0, met=False)],
}


FACTS = {
    "date": "2026-01-30",
    "commit": "0123abcd",
    "python": "3.11.7",
    "system": "Linux x86_64",
    "cores": 2,
    "additions_s": 0.25,
}


def test_table_and_pages_hold_every_figure() -> None:
    table = as_table(RESULTS)
    pages = [as_page(name, rows, quick=False, facts=FACTS) for name, rows in RESULTS.items()]
    assert [line.split()[0] for line in table.splitlines()] == ["what", "race", "load"]
    for text in ("6.54 us", "12 us", "met", "floor", "1.25", "1 to 2", "123,456 spans/s", "MISSED"):
        assert text in table
        assert sum(text in page for page in pages) >= 1


def test_a_page_says_how_when_and_where_it_was_measured() -> None:
    page = as_page("one", RESULTS["one"], quick=True, facts=FACTS)
    assert page.startswith("# one\n")
    for text in ("python -m benchmarks --only one", "2026-01-30", "0123abcd", "2 cores", "0.25 s", "quick"):
        assert text in page
    assert "quick" not in as_page("one", RESULTS["one"], quick=False, facts=FACTS)


def test_circumstances_are_those_of_this_machine() -> None:
    facts = circumstances()
    assert facts.keys() == FACTS.keys()
    assert facts["additions_s"] > 0
    assert facts["cores"] >= 1
    assert facts["date"] >= "2024-01-01"


def test_json_holds_every_field() -> None:
    read = json.loads(as_json("one", RESULTS["one"], quick=True, facts=FACTS))
    assert read["quick"] is True
    assert read["benchmark"] == "one"
    assert FACTS.items() <= read.items()
    assert read["rows"][0] == {
        "name": "race",
        "ours": 6.54321,
        "unit": "us",
        "target": 12,
        "met": True,
        "alternative": "floor",
        "theirs": 8,
        "ratio": 1.25,
        "spread": [1, 2],
        "least": None,
    }


def test_a_ratio_to_reach_stands_beside_the_target() -> None:
    row = paired("race", "floor", [(2.0, 1.0), (2.0, 1.0)], unit="us", least=0.8)
    (line,) = cells({"one": [row]})
    assert line[2:4] == ("1.25 us (ratio 0.8)", "MISSED")


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (999.4, "999"), (1000.0, "1,000"), (0.0, "0")]
)
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


def fake(monkeypatch: pytest.MonkeyPatch, name: str, run: object) -> None:
    module = ModuleType(f"benchmarks.fake.bench_{name}")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_the_program_runs_and_writes_all_and_reports_failures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {name: f"benchmarks.fake.bench_{name}" for name in ("broken", "fine")}
    monkeypatch.setattr(program, "modules", lambda: found)
    fake(monkeypatch, "broken", lambda quick: 1 / 0)
    fake(monkeypatch, "fine", lambda quick: [Row(name=f"quick={quick}", ours=1.0, unit="s")])
    out = tmp_path / "deep" / "out"
    assert program.main(["--quick", "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert "quick=True" in printed.out
    assert "ZeroDivisionError" in printed.err
    assert {file.name for file in out.iterdir()} == {"fine.json", "fine.md"}
    assert [row["name"] for row in json.loads((out / "fine.json").read_text())["rows"]] == ["quick=True"]
    assert "quick=True" in (out / "fine.md").read_text()
    assert program.main(["--only", "fine"]) == 0


def test_unknown_benchmark_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["--only", "nonsense"])
    assert caught.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_the_list_says_what_each_benchmark_measures(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--list"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == program.names()


def test_every_benchmark_is_found() -> None:
    files = Path(program.__file__).parent.rglob("bench_*.py")
    assert program.names() == sorted(path.stem.removeprefix("bench_") for path in files)
    assert {"race", "dag"} <= set(program.names())


@pytest.mark.parametrize("name", ["race", "dag"])
def test_runtime_benchmarks_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick", "--only", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4
    assert all("us" in line for line in lines[1:])


def test_the_interval_of_the_median_holds_it_in_nineteen_of_twenty_samples() -> None:
    rng = random.Random(3)
    held = 0
    for _ in range(1000):
        low, high = median_interval([rng.expovariate(1.0) for _ in range(41)])
        held += low <= math.log(2) <= high
    assert 0.95 <= held / 1000 <= 0.99


def test_the_interval_of_few_figures_is_their_range() -> None:
    assert median_interval([3.0, 1.0]) == (1.0, 3.0)
    assert median_interval([2.0]) == (2.0, 2.0)
