"""A real Prometheus: scrapes a cluster, takes its alerts and its board's queries, and a profile is made from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kwiken.model.profile.codec import profile_from_json
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import MetricKind
from kwiken.otel.metrics.prometheus import prometheus_name
from tests.project.test_metrics_page import documents, expressions
from tests.support.runtime.server_processes import KWIKEN, free_port
from tests.support.runtime.stacks import ask, running_cluster

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "kwiken" / "export" / "deployments"
WAIT_S = 60.0
REQUESTS = 200

pytestmark = pytest.mark.stack


def tool(name: str) -> str:
    """Path of a program of Prometheus; the test is skipped where it is missing."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian's package prometheus has it)")
    return path


def checked(*words: str, stdin: bytes | None = None) -> None:
    done = subprocess.run(words, input=stdin, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_alerts_and_configuration_are_accepted_and_their_cases_hold() -> None:
    promtool = tool("promtool")
    checked(promtool, "check", "rules", str(MONITORING / "alerts.yml"))
    checked(promtool, "check", "config", "--syntax-only", str(ROOT / "otel" / "prometheus.yml"))
    exported = ROOT / "runtime" / "monitoring" / "prometheus" / "prometheus.yml"
    checked(promtool, "check", "config", str(exported))
    checked(promtool, "test", "rules", str(ROOT / "otel" / "alerts_test.yml"))


class Stack(NamedTuple):
    """A cluster and the Prometheus that scrapes it.

    Attributes:
        gateway: URL of the gateway.
        prometheus: host and port of Prometheus.
    """

    gateway: str
    prometheus: str


def get(url: str, accept: str = "") -> bytes:
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Accept": accept}), timeout=30
    ) as answer:
        return bytes(answer.read())


def api(stack: Stack, path: str, **asked: str) -> Any:
    url = f"http://{stack.prometheus}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    answer = json.loads(get(url))
    assert answer["status"] == "success"
    return answer["data"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    program = tool("prometheus")
    folder = tmp_path_factory.mktemp("stack")
    state = folder / ".kwiken"
    with running_cluster(state, "--traces", str(folder / "traces")) as gateway:
        settings = (ROOT / "otel" / "prometheus.yml").read_text(encoding="utf-8")
        for before, after in (
            ("http://127.0.0.1:8080", gateway),
            ("../.kwiken/search.token", str(state / "echo.token")),
            ("15s", "1s"),
            ("[../kwiken/export/deployments/alerts.yml]", f"[{MONITORING / 'alerts.yml'}]"),
        ):
            assert before in settings
            settings = settings.replace(before, after)
        (folder / "prometheus.yml").write_text(settings, encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        words = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--enable-feature=exemplar-storage",
        ]
        with (folder / "prometheus.log").open("wb") as log:
            prometheus = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            made = Stack(gateway, address)
            _until_scraped(made)
            for _ in range(REQUESTS):
                ask(gateway, sleep_ms=5)
            time.sleep(3)  # two more scrapes, so that every request is in an increase
            yield made
        finally:
            prometheus.terminate()
            prometheus.wait(30)


def _until_scraped(stack: Stack) -> None:
    """Wait until the gateway and six replicas were scraped twice."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        try:
            found = api(stack, "query", query="count_over_time(up[1m]) >= 2 and up == 1")["result"]
        except OSError:
            found = []
        if len(found) == 7:
            return
        time.sleep(0.5)
    pytest.fail(f"scraped: {found}")


def test_what_is_shown_passes_promtools_lint(stack: Stack) -> None:
    targets = [target["scrapeUrl"] for target in api(stack, "targets")["activeTargets"]]
    assert len(targets) == 7
    for url in targets:
        checked(tool("promtool"), "check", "metrics", stdin=get(url))


def test_every_metric_arrives_with_its_type(stack: Stack) -> None:
    known = api(stack, "metadata")
    types = {MetricKind.COUNTER: "counter", MetricKind.HISTOGRAM: "histogram", MetricKind.INFO: "info"}
    missing = {catalog.PLAN_AFTER, catalog.PLAN_EXPECTED, catalog.REQUESTS_SHED}
    missing |= {catalog.LINES_LIMIT, catalog.LINE_WAITING, catalog.LINE_WAIT}  # the service has no lines
    missing |= {catalog.LINE_TURNED_AWAY, catalog.LINE_SERVICE}
    missing |= {catalog.CERTIFICATE_VALIDITY}  # the service speaks no TLS
    wrong = {}
    for metric in catalog.ALL:
        if metric in missing:
            continue
        name = prometheus_name(metric)
        kind = types.get(metric.kind, "gauge")
        base = name.removesuffix("_total").removesuffix("_info")
        found = known.get(name) or known.get(base)
        if found is None or found[0]["type"] != kind:
            wrong[name] = found
    assert wrong == {}


def test_alerts_are_loaded_and_none_fires(stack: Stack) -> None:
    (group,) = api(stack, "rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
    assert {rule["state"] for rule in group["rules"]} == {"inactive"}


def test_every_query_of_the_board_is_answered(stack: Stack) -> None:
    queries = list(expressions(dict(documents())["board"]["panels"]))
    assert len(queries) > 10
    empty = []
    for text in queries:
        plain = text.replace("$__rate_interval", "1m").replace("$job", ".*")
        if not api(stack, "query", query=plain)["result"]:
            empty.append(text)
    # Nothing was planned, partial, shed, denied, copied or ejected here.
    unused = ("expected", "shed", "denied", "attempts", "ejected")
    assert all(any(word in text for word in unused) for text in empty), empty


def test_exemplars_lead_to_traces(stack: Stack) -> None:
    found = api(
        stack,
        "query_exemplars",
        query="kw_request_duration_seconds_bucket",
        start=str(time.time() - 600),
        end=str(time.time()),
    )
    traces = {each["labels"]["trace_id"] for series in found for each in series["exemplars"]}
    assert traces
    assert all(len(trace) == 32 for trace in traces)


def test_a_profile_is_made_of_the_histograms(stack: Stack, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    done = subprocess.run(
        [*KWIKEN, "fit", f"prometheus://{stack.prometheus}?lookback=5m", "-o", str(out)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "histograms do not tell which stages and shards were slow" in done.stderr
    profile = profile_from_json(out.read_bytes(), where=str(out))
    assert [stage.name for stage in profile.stages[1:]] == ["first", "middle", "last"]
    middle = profile.stage("middle")
    assert (middle.calls_ms.shape[1], middle.replicas, middle.reissuable) == (2, 3, True)
    assert middle.latency_ms.min() > 4.0  # every call waits for 5 ms
    # Prometheus extrapolates what it scraped to the ends of the window.
    assert abs(profile.counts["requests_in_histograms"] - REQUESTS) <= 0.25 * REQUESTS
