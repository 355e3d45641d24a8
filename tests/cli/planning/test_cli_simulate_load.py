"""`kwiken simulate --load` and `kwiken plan --load`: queues on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.tail.queueing.load import guard as guard_module
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.load.simulate import simulate_load
from tests.support.models.profiles import small_profile
from tests.support.models.queue_profiles import queue_profile, rate_of
from tests.support.project.commands import refused, run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queues")
    (folder / "profile.json").write_text(profile_to_json(queue_profile(rate_of(0.5), requests=6000)))
    (folder / "calm.json").write_text(profile_to_json(queue_profile(rate_of(0.02), requests=1000)))
    (folder / "blind.json").write_text(profile_to_json(small_profile()))
    result = run("plan", str(folder / "profile.json"), "-o", str(folder / "plan.json"), "--no-guard")
    assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "CALLS_PER_COMPARISON", 10_000)
    monkeypatch.setattr(guard_module, "REQUESTS_PER_COMPARISON", 2000)


def queues(folder: Path, text: str) -> str:
    """Path of a file of queues with this text."""
    (folder / "queues.toml").write_text(text)
    return str(folder / "queues.toml")


def data_of(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


class TestSimulate:
    def test_the_command_prints_the_librarys_figures(self, files: Path) -> None:
        profile, plan = str(files / "profile.json"), str(files / "plan.json")
        data = data_of(
            "simulate", profile, "--plan", plan, "--load", "1.3", "--requests", "3000", "--seed", "4"
        )
        model = load_model(profile_from_json((files / "profile.json").read_text()), seed=4)
        known = Plan.from_json((files / "plan.json").read_text())
        found = simulate_load(model, known, factor=1.3, requests=3000, seed=4)
        assert data["before"]["p99_ms"] == found.before.p99_ms
        assert data["after"]["p99_ms"] == found.after.p99_ms
        assert data["spent"] == {"reissue": found.reissue, "utility_loss": 0.0, "catch_up": 0.0}
        assert data["load"] == 1.3
        assert data["rate_per_s"] == pytest.approx(rate_of(0.65), rel=0.05)
        rank = data["stages"]["rank"]
        assert rank["replicas"] == 4
        assert rank["utilisation"] == pytest.approx(0.65, rel=0.07)
        assert rank["utilisation_after"] > rank["utilisation"]
        assert set(rank) == {
            "spent",
            "fraction",
            "utilisation",
            "utilisation_after",
            "replicas",
            "reissue_hurts_above",
        }
        assert "reissue_hurts_above_load" in data

    def test_the_table_shows_the_effect_of_load(self, files: Path) -> None:
        result = run(
            "simulate",
            str(files / "profile.json"),
            "--plan",
            str(files / "plan.json"),
            "--load",
            "1.2",
            "--requests",
            "2000",
        )
        assert result.exit_code == 0
        assert "1.2 times the profile's load" in result.stdout
        for words in ("busy before", "hurts above", "of cost spent, 5.00% allowed", "reissue hurts"):
            assert words in result.stdout

    def test_without_load_the_command_replays(self, files: Path) -> None:
        data = data_of("simulate", str(files / "profile.json"), "--requests", "2000")
        assert "load" not in data
        assert data["before"] == data["after"]

    def test_without_a_plan_nothing_is_spent(self, files: Path) -> None:
        data = data_of("simulate", str(files / "profile.json"), "--load", "1.5", "--requests", "2000")
        assert data["before"] == data["after"]
        assert data["spent"]["reissue"] == 0
        assert data["reissue_hurts_above_load"] is None
        result = run("simulate", str(files / "profile.json"), "--load", "1.5", "--requests", "2000")
        assert "no plan given" in result.stdout

    def test_what_the_profile_lacks_is_given(self, files: Path, tmp_path: Path) -> None:
        blind = str(files / "blind.json")
        refused(run("simulate", blind, "--load", "1"), "no stage has a measured busy time")
        refused(
            run("simulate", blind, "--load", "1", "--queues", queues(tmp_path, "utilisation.spell = 0.2")),
            "queues.toml: the number of replicas of stage .* is not known",
        )
        known = queues(tmp_path, "utilisation.spell = 0.1\nreplicas.spell = 2")
        data = data_of("simulate", blind, "--load", "2", "--queues", known)
        assert data["stages"]["spell"]["utilisation"] == pytest.approx(0.2, rel=0.1)
        assert data["stages"]["lookup"]["replicas"] is None
        (blind_to,) = [note for note in data["notes"] if note["kind"] == "load_has_no_effect"]
        assert "lookup" in blind_to["stages"]
        assert blind_to["text"].startswith("load has no effect on stages")

    def test_more_replicas_are_less_busy(self, files: Path, tmp_path: Path) -> None:
        data = data_of(
            "simulate",
            str(files / "profile.json"),
            "--load",
            "1",
            "--queues",
            queues(tmp_path, "replicas.rank = 8"),
            "--requests",
            "2000",
        )
        assert data["stages"]["rank"]["utilisation"] == pytest.approx(0.25, rel=0.1)
        assert data["stages"]["fetch"]["utilisation"] == pytest.approx(0.5, rel=0.1)

    @pytest.mark.parametrize(
        ("options", "pattern"),
        [
            (["--load", "0"], "0 is out of range; .* at least 0.001"),
            (["--load", "inf"], "--load"),
            (["--load", "1e-300"], "1e-300 is out of range; .* at least 0.001 and at most 1000"),
            (["--load", "1e300"], "1e300 is out of range"),
            (["--load", "5"], r"would be busy 2\d\d% of the time"),
            (["--load", "1", "--independent"], "--independent: does not go with --load"),
            (["--queues", "queues.toml"], "--queues: needs --load"),
            (["--load", "1", "--queues", "missing.toml"], "missing.toml: there is no such file"),
        ],
    )
    def test_refusals(self, files: Path, options: list[str], pattern: str) -> None:
        refused(run("simulate", str(files / "profile.json"), *options), pattern)

    @pytest.mark.parametrize(
        ("text", "pattern"),
        [
            ("", "is empty"),
            ("rate_per_s =", "queues.toml: broken TOML: "),
            ("rate = 5", "queues.toml: .*unknown field `rate`"),
            ("replicas = 4", "queues.toml: replicas: Expected `object`"),
            ("replicas.rank = 0", "queues.toml: replicas: stage 'rank': must be a whole number from 1"),
            ("replicas.rank = 2.5", r"queues.toml: replicas.*Expected `int`"),
            ("replicas.rank = 100000", "queues.toml: replicas: stage 'rank': must be a whole number from 1"),
            ("replicas.x = 2", "queues.toml: replicas: stage 'x' is not in the profile; it has: "),
            ("utilisation.rank = 1", "queues.toml: utilisation: stage 'rank': must be from 0 to below 1"),
            ("utilisation.rank = nan", "queues.toml: utilisation: stage 'rank': must be from 0 to below 1"),
            ("rate_per_s = 0", "queues.toml: rate_per_s must be a number above 0"),
            ("rate_per_s = inf", "queues.toml: rate_per_s must be a number above 0"),
            ("rate_per_s = 1e9", "queues.toml: rate_per_s must be from 1e-06 to 1e"),
            (
                'dispatch = "best"',
                "queues.toml: dispatch must be one of random, envoy, two, aged, least, not 'best'",
            ),
            ('cancel = "all"', "queues.toml: cancel must be one of none, queued, running, not 'all'"),
        ],
    )
    @pytest.mark.parametrize("verb", [("simulate", "--load", "1"), ("plan",)])
    def test_a_wrong_file_of_queues(
        self, files: Path, tmp_path: Path, verb: tuple[str, ...], text: str, pattern: str
    ) -> None:
        name, *options = verb
        refused(run(name, str(files / "profile.json"), *options, "--queues", queues(tmp_path, text)), pattern)


class TestPlan:
    def test_a_busy_service_is_planned_with_its_load(self, files: Path, tmp_path: Path) -> None:
        data = data_of("plan", str(files / "profile.json"))
        assert data["load"]["factor"] == 1
        assert data["load"]["settled"]
        assert data["load"]["guards"]["rank"]["utilisation"] == pytest.approx(0.5, rel=0.05)
        (planned,) = [note for note in data["notes"] if note["kind"] == "planned_at_load"]
        assert planned["utilisation"] == pytest.approx(0.5, rel=0.05)
        assert planned["text"].startswith("planned for")

    def test_a_load_is_planned_for(self, files: Path, tmp_path: Path) -> None:
        out = tmp_path / "plan.json"
        result = run("plan", str(files / "profile.json"), "--load", "1.5", "-o", str(out))
        assert result.exit_code == 0
        assert "1.5 times the profile's" in result.stderr
        plan = Plan.from_json(out.read_text())
        assert plan.profile == profile_from_json((files / "profile.json").read_text()).digest
        now = Plan.from_json((files / "plan.json").read_text())
        assert plan.expected is not None
        assert now.expected is not None
        assert plan.expected.before.p99_ms > 1.15 * now.expected.before.p99_ms

    def test_load_is_not_mentioned_where_load_does_not_matter(self, files: Path) -> None:
        for file in ("calm.json", "blind.json"):
            assert "load" not in data_of("plan", str(files / file))

    def test_queue_options_that_a_plan_at_low_load_ignores_are_named(
        self, files: Path, tmp_path: Path
    ) -> None:
        calm = str(files / "calm.json")
        named = queues(tmp_path, 'cancel = "none"')
        assert "dispatch and cancel of --queues have no effect" in run("plan", calm, "--queues", named).stderr
        assert "no effect here" not in run("plan", calm).stderr

    def test_no_guard_leaves_load_out(self, files: Path) -> None:
        assert "load" not in data_of("plan", str(files / "profile.json"), "--no-guard")

    @pytest.mark.parametrize(
        ("options", "pattern"),
        [
            (["--no-guard", "--load", "1"], "--no-guard: does not go with --load"),
            (["--no-guard", "--queues", "queues.toml"], "--queues: does not go with --no-guard"),
        ],
    )
    def test_what_would_be_passed_over_is_refused(
        self, files: Path, options: list[str], pattern: str
    ) -> None:
        refused(run("plan", str(files / "calm.json"), *options), pattern)

    def test_a_load_that_cannot_be_modelled_is_refused(self, files: Path) -> None:
        refused(run("plan", str(files / "blind.json"), "--load", "2"), "no stage has a measured busy time")


def test_a_profile_busier_than_can_be_says_what_to_give(files: Path, tmp_path: Path) -> None:
    profile = json.loads((files / "profile.json").read_text())
    for stage in profile["stages"]:
        if stage["name"] == "rank":
            stage["replicas"] = 1
    (tmp_path / "busy.json").write_text(json.dumps(profile))
    busy = str(tmp_path / "busy.json")
    refused(run("plan", busy), "stage 'rank' would have been busy .* with 1 replica, .*--no-guard")
    refused(
        run("plan", busy, "--load", "1"),
        "give its `replicas`, `utilisation` or the `rate_per_s` as they were$",
    )
    assert run("plan", busy, "--no-guard").exit_code == 0
