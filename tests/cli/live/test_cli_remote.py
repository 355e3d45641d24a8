"""`kwiken status`, `apply` and `report` of a cluster that is not this machine's: by URL and token alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.project.commands import refused, run
from tests.support.runtime.server_processes import free_port
from tests.support.runtime.stacks import ask, running_cluster
from tests.support.services.http import plan_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_a_cluster_elsewhere_is_shown_planned_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_cluster(tmp_path / "state", "--gateways", "2") as url:
        token = tmp_path / "token"
        token.write_bytes((tmp_path / "state" / "echo.token").read_bytes())
        monkeypatch.chdir(tmp_path)  # where no cluster is known
        ask(url)
        words = ("--url", url, "--token-file", str(token))
        refused(run("report", *words), "no plan is in force there")
        plan = tmp_path / "plan.json"
        plan.write_text(plan_for().to_json())
        assert run("apply", str(plan), *words).exit_code == 0
        result = run("status", *words)
        assert result.exit_code == 0, result.stderr
        for part in ("echo at http://", "gateway-0", "gateway-1", "first ", "plan "):
            assert part in result.stdout
        for _ in range(100):  # the gateway that was not asked reads the plan from the file of both
            [cluster] = json.loads(run("status", "echo", *words, "--json").stdout)["clusters"]
            if all(each["plan"] is not None for each in cluster["runtime"]["gateways"]):
                break
            time.sleep(0.1)
        assert [each["plan"] is None for each in cluster["runtime"]["gateways"]] == [False, False]
        assert cluster["runtime"]["requests"] == 1
        assert (
            run("status", *words, "--page")
            .stdout.strip()
            .endswith(f"/kwiken#token={token.read_text().strip()}")
        )
        refused(run("status", "other", *words), "serves 'echo', not 'other'")
        report = run("report", *words, "-o", "report.html")
        assert report.exit_code == 0, report.stderr
        assert "<html" in (tmp_path / "report.html").read_text()
        token.write_text("wrong")
        refused(
            run("status", *words),
            "the Authorization header must be: Bearer TOKEN; is the token right. Set KWIKEN_TOKEN",
        )
        refused(
            run("report", *words),
            "the Authorization header must be: Bearer TOKEN; is the token right. Set KWIKEN_TOKEN",
        )


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KWIKEN_TOKEN", raising=False)
    url = f"http://127.0.0.1:{free_port()}"
    for verb in ("status", "report"):
        refused(run(verb, "--url", url), "needs a token: give --token-file, or set KWIKEN_TOKEN")
        refused(run(verb, "--token-file", "t"), "--token-file goes with --url|give a folder or files")
    monkeypatch.setenv("KWIKEN_TOKEN", "t")
    for verb in ("status", "report"):
        refused(
            run(verb, "--url", url),
            "the gateway does not answer: the connection was refused; is the gateway up",
        )
    del tmp_path


def test_an_upkeep_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIKEN_TOKEN", "t")
    files = [
        word for name in ("nodes", "workloads", "profiles") for word in (f"--{name}", str(tmp_path / name))
    ]
    words = ("upkeep", "tests.support.services.single:service", *files, "--url", "http://127.0.0.1:1")
    refused(run(*words), "give --kubernetes and --nodes-from-cluster")
    whole = (*words, "--kubernetes", "--nodes-from-cluster")
    refused(run(*whole, "--api-ca", "x"), "--api-token-file and --api-ca go with --api")
    refused(run(*whole), "this process is in no pod of Kubernetes; give --api URL")
    refused(run(*whole, "--api", f"http://127.0.0.1:{free_port()}"), "GET /api/v1/nodes: no answer")
