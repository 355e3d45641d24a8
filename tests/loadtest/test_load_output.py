"""Messages of `kwiken load` around its report, without sending requests."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kwiken.base.machine.processor_use import ProcessorUse
from kwiken.cli.live.load import _progress
from kwiken.cli.verbs import kwiken
from kwiken.loadtest import run as load_run
from kwiken.loadtest.inputs.settings import LoadSettings, prepare
from kwiken.loadtest.results.outcome import RequestOutcome
from kwiken.loadtest.results.report import ReportCollector
from kwiken.loadtest.results.result import LoadResult, Progress
from tests.support.loadtest.load_commands import Load, Serve

USAGE = ("load", "http://127.0.0.1:9", "--rate", "10", "--duration", "10")


def result(*outcomes: RequestOutcome, **changed: Any) -> LoadResult:
    collector = ReportCollector()
    for outcome in outcomes:
        collector.add(outcome)
    plain = LoadResult(
        ready=prepare(LoadSettings(url="http://127.0.0.1:9", rate=10, duration_s=10)),
        report=collector.report(duration_s=10, warmup_s=0, late_ms=5),
        answered=sum(outcome.status > 0 for outcome in outcomes),
        interrupted=None,
        records_failure=None,
    )
    return replace(plain, **changed)


def answered(lag: float = 0.1) -> RequestOutcome:
    return RequestOutcome(1.0, lag, 10.0, 200, None, "1" * 32, 1)


def said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], run: LoadResult, *more: str
) -> tuple[int, str, str]:
    asked: list[LoadSettings] = []

    def run_load(settings: LoadSettings, **_: object) -> LoadResult:
        asked.append(settings)
        return run

    monkeypatch.setattr(load_run, "run_load", run_load)
    with pytest.raises(SystemExit) as exited:
        kwiken.main([*USAGE, *more])
    assert [settings.rate for settings in asked] == [10]
    captured = capfd.readouterr()
    assert isinstance(exited.value.code, int)
    return exited.value.code, captured.out, captured.err


def test_a_good_run_says_nothing_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(monkeypatch, capfd, result(answered(), answered()))
    assert (code, err) == (0, "")
    assert "10 s at http://127.0.0.1:9/v1/request" in out


def test_a_generator_that_fell_behind_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = result(*(answered() for _ in range(90)), *(answered(20.0) for _ in range(10)))
    code, out, err = said(monkeypatch, capfd, run, "--json")
    assert code == 0
    assert "late for 10 of 100 requests" in err
    assert json.loads(out)["requests"]["late"] == 10


def use(own: float, **figures: float) -> ProcessorUse:
    plain: dict[str, Any] = {
        "processors": 2,
        "quota": math.inf,
        "others": 0.0,
        "stolen": 0.0,
        "throttled": 0.0,
    }
    return ProcessorUse(seconds=10.0, own=own, by_process={1: own}, **(plain | figures))


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (use(0.95), "the generator used 95% of the one processor that it can use"),
        (use(0.1, others=1.8), "2 processors were 95% busy, 10% of one by the generator"),
        (use(0.1, stolen=0.5), "the hypervisor took 0.5 of this machine's 2 processors away"),
        (
            use(0.1, throttled=0.4, quota=0.25),
            "the quota of 0.25 processors was used up in 40% of its periods",
        ),
    ],
)
def test_a_bottleneck_on_this_side_is_told_with_its_figures(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], figures: ProcessorUse, words: str
) -> None:
    run = replace(result(answered(), answered()), use=figures)
    code, out, err = said(monkeypatch, capfd, run, "--json")
    assert code == 0
    assert words in err
    machine = json.loads(out)["machine"]
    assert machine["generator"] == figures.own
    assert machine["busy"] == pytest.approx(min(1, (figures.own + figures.others) / 2))
    assert machine["quota"] == (None if math.isinf(figures.quota) else figures.quota)


def test_a_machine_with_idle_processors_is_not_mentioned(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = replace(result(answered(), answered()), use=use(0.5, others=1.0, waiting=0.1))
    assert said(monkeypatch, capfd, run)[2] == ""


def test_a_run_too_short_for_the_counters_says_nothing_of_processors(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = replace(result(answered(), answered()), use=replace(use(0.1, others=1.9), seconds=1.0))
    assert said(monkeypatch, capfd, run)[2] == ""


def test_a_late_generator_says_whether_it_waited_for_a_processor(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = replace(result(answered(), answered(20.0)), use=use(0.1, waiting=2.5))
    err = said(monkeypatch, capfd, run)[2]
    assert "see start lag; it waited for a processor 2.5 times as long as it ran" in err


def test_failures_beside_answers_are_told_with_their_reasons(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lost = RequestOutcome(1.0, 0.1, 10.0, 0, "timeout", "1" * 32, 0)
    code, _, err = said(monkeypatch, capfd, result(answered(), lost))
    assert code == 0
    assert "1 of 2 requests failed (timeout (1)): the target is overloaded or broken" in err


def test_nothing_answered_is_a_failure_that_still_prints_its_report(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = result(
        RequestOutcome(1.0, 0.1, 10.0, 0, "timeout", "1" * 32, 0),
        RequestOutcome(2.0, math.nan, math.nan, 0, "dropped", "", 0),
    )
    code, out, err = said(monkeypatch, capfd, run, "--json")
    assert code == 2
    assert "answered none of 2 requests: timeout (1), dropped (1)" in err
    assert json.loads(out)["requests"]["ok"] == 0


def test_answers_in_the_warm_up_count_as_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said(monkeypatch, capfd, replace(result(), answered=5))[0] == 0


def test_an_interruption_has_the_signals_exit_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said(monkeypatch, capfd, result(answered(), interrupted=15))[0] == 143


def test_progress_is_one_line_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    show = _progress(LoadSettings(url="http://h", duration_s=30))
    counts = Progress()
    for outcome in (answered(), answered(), RequestOutcome(0, 0, 1, 503, "HTTP 503", "", 0)):
        counts.add(outcome)
    counts.seconds, counts.in_flight = 7.4, 3
    show(counts)
    text = screen.getvalue()
    assert text.startswith("\r")
    assert "\n" not in text
    assert "7 of 30 s  ok 2  failed 1  dropped 0  in flight 3" in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_incomplete_records_are_reported(serve: Serve, load: Load) -> None:
    ran = load(serve(), "--rate", "50", "--duration", "0.3", "--records", "/dev/full", "--json")
    assert ran.code == 2
    assert ran.complaints == ["kwiken: /dev/full: is not whole: No space left on device"]
    assert ran.report["requests"]["ok"] > 0


def test_the_self_check_measures() -> None:
    code = (
        "import json\n"
        "from benchmarks.load import generator_accuracy as selfcheck\n"
        "selfcheck.CHECKED_RATES_PER_S = (100, 200)\n"
        "steps = selfcheck.highest_rate(0.3, tell=lambda text: None)['steps']\n"
        "print(json.dumps([selfcheck.floor(0.5), selfcheck.client_cost(20), steps]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    floor, cost, steps = json.loads(done.stdout)
    assert floor["latency"]["p50_ms"] >= floor["start_lag"]["min_ms"] > 0
    assert cost["ours_us"] > 0
    assert cost["locust_us"] > 0
    assert steps[0]["rate"] == 100
    assert steps[0]["intended"] == steps[0]["ok"] + steps[0]["failed"] + steps[0]["dropped"] > 0
