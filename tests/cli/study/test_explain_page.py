"""`kwiken explain --html`: one page without a network, slowest requests as the profile has them, odd names."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kwiken.apps.report.sections.slowest import MAX_REQUESTS, slow_requests_of
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import Profile, StageProfile
from tests.support.project.commands import refused, run

EDGES = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("c",)}
HOSTILE = '</script><b onclick="x">&\'"\u202e'


def profile_of(seed: int, *, requests: int = 60, skipped: float = 0.2, cut: float = 0.1) -> Profile:
    """Profile of a DAG with fan-outs, with calls that are missing and calls that were cancelled."""
    rng = np.random.default_rng(seed)
    stages = []
    for name, after in EDGES.items():
        calls = rng.lognormal(1.0, 1.0, (requests, int(rng.integers(1, 4))))
        calls[rng.random(calls.shape) < skipped] = np.nan
        asked = np.where(np.isnan(calls), -1, rng.integers(-1, 2, calls.shape))
        stages.append(
            StageProfile(
                name=name,
                after=after,
                match=SpanMatch(service="s", operation=name),
                calls_ms=calls,
                censored=~np.isnan(calls) & (rng.random(calls.shape) < cut),
                asked=asked,
                replica_names=("one", "two"),
            )
        )
    profile = Profile(
        service="shop",
        stages=tuple(stages),
        latency_ms=np.zeros(requests),
        started_s=1e9 + np.arange(float(requests)),
    )
    latency = [max(ended(profile, row).values()) for row in range(requests)]
    return replace(profile, latency_ms=np.asarray(latency))


def ended(profile: Profile, row: int) -> dict[str, float]:
    """By stage: its end in one request, walked through by hand."""
    ends: dict[str, float] = {}
    for stage in profile.stages:
        own = max((float(call) for call in stage.calls_ms[row] if not np.isnan(call)), default=0.0)
        ends[stage.name] = own + max((ends[parent] for parent in stage.after), default=0.0)
    return ends


@pytest.mark.parametrize("seed", range(8))
def test_slowest_requests_are_those_of_the_profile(seed: int) -> None:
    profile = profile_of(seed)
    shown = slow_requests_of(profile)
    assert len(shown) == MAX_REQUESTS
    assert [request.total_ms for _, request in shown] == sorted(profile.latency_ms)[::-1][:MAX_REQUESTS]
    for row, request in shown:
        ends = ended(profile, row)
        tracks = {track.name: track for track in request.tracks}
        assert set(tracks) == {stage.name for stage in profile.stages if stage.visited[row]}
        for name, track in tracks.items():
            stage = profile.stage(name)
            assert track.end == pytest.approx(ends[name])
            assert {bar.shard for bar in track.bars} == set(np.flatnonzero(~np.isnan(stage.calls_ms[row])))
            for bar in track.bars:
                assert bar.end - bar.start == pytest.approx(stage.calls_ms[row, bar.shard])
                assert (bar.outcome == "cancelled") == stage.censored[row, bar.shard]
                asked = stage.asked[row, bar.shard] if stage.asked is not None else -1
                assert bar.replica == ("" if asked < 0 else stage.replica_names[asked])
        # A critical path has no gap and no overlap: its stages, one after another, last until the end.
        path = [track for track in request.tracks if track.critical]
        assert sum(track.end - track.start for track in path) == pytest.approx(max(ends.values()))
        assert sum(bar.critical for track in path for bar in track.bars) == len(path)


def written(tmp_path: Path, profile: Profile, *words: str) -> str:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile))
    result = run("explain", str(file), "--html", str(tmp_path / "page.html"), *words)
    assert result.exit_code == 0, result.stderr
    assert "written to" in result.stderr
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_page_needs_no_network_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    page = written(tmp_path, profile_of(1, skipped=0.0, requests=400))
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'Content-Security-Policy"\s+content="([^"]*)"', page)
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?://|\bsrc=|@import|url\((?!#)", page)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "Why slow requests are slow",
        "Slowest requests",
        "Planned extra work",
        "Where the budget goes",
        "Latency-response curves by stage",
        "Requests of the profile",
    ]
    assert page.count("<details") == MAX_REQUESTS
    picked = [html.unescape(name) for name in re.findall(r'<button type="button" data-stage="(.*?)"', page)]
    assert picked == ["", *EDGES]
    about = [json.loads(html.unescape(names)) for names in re.findall(r'data-stages="(.*?)"', page)]
    assert set().union(*about) <= set(EDGES)
    assert all(names for names in about)


def test_names_cannot_leave_their_place(tmp_path: Path) -> None:
    plain = profile_of(2, requests=40)
    names = {name: f"{name}{HOSTILE}" for name in EDGES}
    stages = tuple(
        replace(stage, name=names[stage.name], after=tuple(names[name] for name in stage.after))
        for stage in plain.stages
    )
    page = written(tmp_path, replace(plain, stages=stages, service=f"shop{HOSTILE}"))
    assert page.count("<script") == page.count("</script") == 1
    assert "<b onclick" not in page
    assert "\u202e" not in page
    # Buttons, rows of tables and what is hidden name a stage alike, or the script would not find them.
    picked = set(re.findall(r'<button type="button" data-stage="([^"]+)"', page))
    about = {
        html.escape(name)
        for found in re.findall(r'data-stages="(.*?)"', page)
        for name in json.loads(html.unescape(found))
    }
    assert {html.unescape(name) for name in about} <= {html.unescape(name) for name in picked}
    assert len(picked) == len(EDGES)


@pytest.mark.parametrize("requests", [1, 3])
def test_few_requests_are_shown_without_a_plan(tmp_path: Path, requests: int) -> None:
    page = written(tmp_path, profile_of(3, requests=requests, skipped=0.0, cut=0.0))
    assert page.count("<details") == requests
    assert "Planned extra work" not in page


def test_a_request_that_called_no_stage_is_shown(tmp_path: Path) -> None:
    plain = profile_of(4, requests=40)
    for stage in plain.stages:
        stage.calls_ms[7] = np.nan
        stage.censored[7] = False
    latency = plain.latency_ms.copy()
    latency[7] = 1e4
    page = written(tmp_path, replace(plain, latency_ms=latency))
    assert "UTC: no stage was called</summary>" in page


def test_a_page_is_refused_before_work_is_done(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile_of(1)))
    refused(run("explain", str(file), "--html", "p.html", "--json"), "--html and --json are two forms")
    refused(run("explain", str(file), "--html", str(tmp_path / "no" / "p.html")), "no/p.html: ")
