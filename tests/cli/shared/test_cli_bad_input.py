"""Bad input of every kind: one clear line that names it, exit code 2, no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwiken.cli.shared.options import load_service
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_to_json
from tests.support.models.profiles import small_profile
from tests.support.project.commands import refused, run

Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good profile and a good plan for it."""
    folder = tmp_path_factory.mktemp("good")
    profile = profile_to_json(small_profile())
    (folder / "profile.json").write_text(profile)
    result = run("plan", str(folder / "profile.json"), "-o", str(folder / "plan.json"))
    assert result.exit_code == 0, result.stderr
    return folder


def put(path: str, value: Any) -> Change:
    """Sets one field of a JSON document; `...` removes it."""

    def change(document: Any) -> Any:
        *way, last = path.split(".")
        here = document
        for key in way:
            here = here[int(key) if isinstance(here, list) else key]
        if value is ...:
            del here[last]
        else:
            here[int(last) if isinstance(here, list) else last] = value
        return document

    return change


BYTES: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("blank", b" \n \n", "is empty"),
    ("binary", b"\x89PNG\r\n\x1a\n\x00\x00", "is binary, not text"),
    ("compressed", b"\x1f\x8b\x08\x00", "is binary, not text"),
    ("latin-1", b'{"service": "gr\xfc\xdfe"}', ":1: is not UTF-8"),
    ("text", b"hello world\n", "JSON"),
    ("a number", b"5", "Expected `object`"),
    ("a list", b"[]", "Expected `object`"),
    ("another's", b'{"dependencies": {"left-pad": "1"}}', "(unknown|missing required) field"),
    ("very deep", b"[" * 200_000, "(nested|depth|recursion|Expected `object`)"),
]

PROFILES: list[tuple[str, Change, str]] = [
    ("another version", put("version", 2), "version must be 1, not 2"),
    ("an unknown field", put("colour", "red"), "unknown field `colour`"),
    ("an unknown field of a stage", put("stages.1.colour", 1), "unknown field `colour`"),
    ("a missing field", put("latency_ms", ...), "missing required field `latency_ms`"),
    ("no stages", put("stages", []), "stages must be from 1"),
    ("a negative duration", put("stages.1.calls_ms.0.3", -5.0), "stage 'lookup': calls_ms.*request 3.*-5"),
    ("a negative latency", put("latency_ms.7", -1), "latency_ms, request 7"),
    ("a duration of ages", put("latency_ms.7", 1e300), "latency_ms, request 7"),
    ("a word for a number", put("latency_ms.7", "soon"), "Expected `float`"),
    ("too few calls", put("stages.0.calls_ms.0", [1.0]), "stage 'spell': calls_ms.*1 requests"),
    ("a ghost as parent", put("stages.1.after", ["ghost"]), "'ghost'"),
    ("a cycle", put("stages.0.after", ["lookup"]), "cycle"),
    ("a parent twice", put("stages.1.after", ["spell", "spell"]), "stage 'lookup'.*twice"),
    ("a name twice", put("stages.2.name", "lookup"), "twice"),
    ("a negative count", put("counts", {"traces": -1}), "counts"),
]

PLANS: list[tuple[str, Change, str]] = [
    ("another version", put("version", 2), "version must be 1, not 2"),
    ("no version", put("version", ...), "missing required field `version`"),
    ("an unknown field", put("colour", "red"), "unknown field `colour`"),
    ("an unknown field of a stage", put("stages.lookup.when", 5), "stage 'lookup': unknown field `when`"),
    ("an unknown stage", put("stages.ghost", {"reissue": None}), "stage 'ghost' is not in the profile"),
    ("a budget of -1", put("budgets.reissue", -1), "reissue must be a share from 0 to 1, not -1"),
    ("a budget of 2", put("budgets.reissue", 2), "reissue must be a share from 0 to 1, not 2"),
    ("a budget of NaN", put("budgets.reissue", float("nan")), "NaN is not a number"),
    ("an infinite budget", put("budgets.catch_up", float("inf")), "Infinity is not a number"),
    ("a delay of NaN", put("stages.lookup.reissue", {"after_ms": float("nan")}), "NaN is not a number"),
    ("a negative delay", put("stages.lookup.reissue", {"after_ms": -1}), "stage 'lookup': reissue: after_ms"),
    (
        "too many copies",
        put("stages.lookup.reissue", {"after_ms": 1, "copies": 99}),
        "copies must be from 1 to 16",
    ),
    ("another service's", put("service", "shop"), "is a plan for service 'shop'"),
]


class TestFiles:
    @pytest.mark.parametrize(
        ("data", "pattern"), [case[1:] for case in BYTES], ids=[case[0] for case in BYTES]
    )
    def test_profiles_that_are_none(self, tmp_path: Path, data: bytes, pattern: str) -> None:
        path = tmp_path / "profile.json"
        path.write_bytes(data)
        for verb in ("plan", "simulate", "explain"):
            refused(run(verb, str(path)), rf"{path}.*{pattern}")

    @pytest.mark.parametrize(
        ("data", "pattern"), [case[1:] for case in BYTES], ids=[case[0] for case in BYTES]
    )
    def test_plans_that_are_none(self, good: Path, tmp_path: Path, data: bytes, pattern: str) -> None:
        path = tmp_path / "plan.json"
        path.write_bytes(data)
        refused(run("simulate", str(good / "profile.json"), "--plan", str(path)), rf"{path}.*{pattern}")

    def test_a_profile_for_a_plan_and_a_plan_for_a_profile(self, good: Path) -> None:
        profile, plan = str(good / "profile.json"), str(good / "plan.json")
        refused(run("plan", plan), f"{plan}: is a plan, and a profile is needed")
        refused(run("simulate", profile, "--plan", profile), f"{profile}: is a profile, and a plan is needed")

    def test_a_truncated_profile(self, good: Path, tmp_path: Path) -> None:
        whole = (good / "profile.json").read_text()
        for share in (0.01, 0.3, 0.5, 0.9, 0.999):
            path = tmp_path / "profile.json"
            path.write_text(whole[: int(len(whole) * share)])
            refused(run("plan", str(path)), f"{path}.*(truncated|malformed|broken)")

    def test_huge_files_are_refused_unread(self, good: Path, tmp_path: Path) -> None:
        path = tmp_path / "huge.json"
        with path.open("wb") as file:
            file.truncate(1 << 40)
        refused(run("plan", str(path)), f"{path}: is larger than 1024 MiB")
        refused(
            run("simulate", str(good / "profile.json"), "--plan", str(path)), f"{path}: is larger than 16 MiB"
        )
        refused(run("plan", str(good / "profile.json"), "--cost", str(path)), f"{path}: is larger than 4 MiB")

    @pytest.mark.parametrize("verb", ["plan", "simulate", "explain"])
    def test_what_is_not_there(self, verb: str, tmp_path: Path) -> None:
        refused(run(verb, str(tmp_path / "no.json")), r"no\.json: there is no such file")
        refused(run(verb, str(tmp_path)), "is a folder")
        refused(run(verb, str(tmp_path / "a" / "b")), "no such file")

    @pytest.mark.parametrize(("change", "pattern"), [c[1:] for c in PROFILES], ids=[c[0] for c in PROFILES])
    def test_profiles_with_one_thing_wrong(
        self, good: Path, tmp_path: Path, change: Change, pattern: str
    ) -> None:
        document = change(json.loads((good / "profile.json").read_text()))
        path = tmp_path / "profile.json"
        path.write_text(json.dumps(document))
        refused(run("plan", str(path)), rf"{path}.*{pattern}")

    @pytest.mark.parametrize(("change", "pattern"), [c[1:] for c in PLANS], ids=[c[0] for c in PLANS])
    def test_plans_with_one_thing_wrong(
        self, good: Path, tmp_path: Path, change: Change, pattern: str
    ) -> None:
        document = change(json.loads((good / "plan.json").read_text()))
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(document))
        refused(run("simulate", str(good / "profile.json"), "--plan", str(path)), pattern)

    def test_too_few_requests(self, tmp_path: Path) -> None:
        path = tmp_path / "profile.json"
        path.write_text(profile_to_json(small_profile(3)))
        refused(run("plan", str(path)), f"{path}: a plan needs at least 10 requests, and the profile has 3")

    @pytest.mark.parametrize("more", [[], ["--load", "1", "--queues"]])
    def test_partial_answers_of_a_stage_that_is_no_fan_out(
        self, good: Path, tmp_path: Path, more: list[str]
    ) -> None:
        rule = {"cutoff_ms": 50.0, "wait_ms": None, "progress": 0.5, "loss": 0.1}
        document = put("stages.spell.partial", rule)(json.loads((good / "plan.json").read_text()))
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(document))
        known = tmp_path / "queues.toml"
        known.write_text("utilisation.lookup = 0.1\nreplicas.lookup = 4\n")
        queues = [str(known)] if more else []
        result = run("simulate", str(good / "profile.json"), "--plan", str(path), *more, *queues)
        refused(result, f"{path}: stage 'spell': .* fan-out.* one shard.*fan-outs: lookup$")

    @pytest.mark.parametrize("verb", ["simulate", "explain"])
    def test_a_profile_without_requests_is_named(self, verb: str, tmp_path: Path) -> None:
        path = tmp_path / "profile.json"
        path.write_text(profile_to_json(small_profile(0)))
        refused(run(verb, str(path)), f"{path}: the profile has no requests$")

    def test_a_plan_from_stdin_for_stages_that_are_not_there(self, good: Path) -> None:
        document = put("stages.ghost", {"reissue": None})(json.loads((good / "plan.json").read_text()))
        told = json.dumps(document)
        result = run("simulate", str(good / "profile.json"), "--plan", "-", stdin=told)
        assert "<stdin>: the plan's stage 'ghost'" in result.stderr

    def test_a_file_may_be_called_like_a_parameter(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("rate").write_text("[]")
        refused(run("plan", "rate"), "^kwiken: rate: ")


class TestOptions:
    @pytest.mark.parametrize("value", ["-1", "2", "nan", "inf", "-inf", "1e999", "", "five", "5%"])
    @pytest.mark.parametrize("name", ["--reissue", "--utility-loss", "--catch-up"])
    def test_budgets_that_are_no_shares(self, good: Path, name: str, value: str) -> None:
        result = run("plan", str(good / "profile.json"), f"{name}={value}")
        refused(result, f"Invalid value for '{name}'.*at least 0 and at most 1")

    @pytest.mark.parametrize(
        ("args", "pattern"),
        [
            (["--utility-loss", "0.1", "--partial", "spell"], "--partial: stage 'spell' has one shard"),
            (
                ["--utility-loss", "0.1", "--partial", "nosuch"],
                "--partial: stage 'nosuch' is not in the profile",
            ),
            (["--utility-loss", "0.1", "--utility-weight", "lookup"], "'lookup' must be STAGE=WEIGHT"),
            (["--utility-loss", "0.1", "--utility-weight", "lookup=0"], "'lookup=0' must be STAGE=WEIGHT"),
            (
                ["--utility-loss", "0.1", "--utility-weight", "spell=1"],
                "--utility-weight: lacks a weight for stage 'lookup'",
            ),
            (
                ["--utility-loss", "0.1", "--utility-weight", "lookup=1", "--utility-weight", "lookup=2"],
                "stage 'lookup' is given twice",
            ),
            (["--partial", "lookup"], "--partial: means nothing without a budget of utility"),
            (["--utility-weight", "lookup=1"], "--utility-weight: means nothing without a budget of utility"),
            (["--objective", "p99"], "'p99' is not one of 'tail', 'variance'"),
            (["--spread", "wide"], "'wide' is not one of 'sumvar'"),
            (["--seed", "-1"], "Invalid value for '--seed'"),
            (["--seed", "1.5"], "Invalid value for '--seed'"),
            (["--cost", "free"], "--cost: must be one of typical, busy, calls, mean, or a file"),
            (["--cost", "busy"], "--cost: busy time was not measured for: spell"),
            (["--cost", ""], "--cost: must be one of typical, busy, calls, mean, or a file"),
            (["--cost", "/dev/null"], "/dev/null: is not a regular file"),
            (["--cost", "/"], "/: is a folder"),
            (["-o", "/no/such/folder/plan.json"], "/no/such/folder/plan.json: its folder does not exist"),
            (["-o", "/"], "/: is a folder"),
            (["-o", "/proc/plan.json"], "/proc/plan.json: "),
        ],
    )
    def test_plan(self, good: Path, args: list[str], pattern: str) -> None:
        refused(run("plan", str(good / "profile.json"), *args), pattern)

    @pytest.mark.parametrize(
        ("costs", "pattern"),
        [
            ("[1, 2]", "must hold a JSON object"),
            ('{"spell": 1,', ":1: broken JSON"),
            ('{"spell": 1, "spell": 2}', "'spell' is given twice"),
            ('{"ghost": 1}', "'ghost' is not in the profile"),
            ('{"spell": 1}', "lacks stage '(lookup|audit)'"),
            ('{"spell": -1, "lookup": 1, "audit": 1}', "stage 'spell'.*not -1"),
            ('{"spell": 0, "lookup": 1, "audit": 1}', "stage 'spell': a cost is a number above 0.*not 0"),
            ('{"spell": "1", "lookup": 1, "audit": 1}', "stage 'spell'.*not '1'"),
            ('{"spell": NaN, "lookup": 1, "audit": 1}', "NaN is not a number"),
            ('{"spell": true, "lookup": 1, "audit": 1}', "stage 'spell'.*not True"),
            ('{"spell": ' + "9" * 400 + ', "lookup": 1, "audit": 1}', "stage 'spell'"),
        ],
    )
    def test_files_of_costs(self, good: Path, tmp_path: Path, costs: str, pattern: str) -> None:
        path = tmp_path / "costs.json"
        path.write_text(costs)
        refused(run("plan", str(good / "profile.json"), "--cost", str(path)), pattern)

    @pytest.mark.parametrize(
        ("args", "pattern"),
        [
            (["--requests", "0"], "Invalid value for '--requests'"),
            (["--requests", "10000001"], "Invalid value for '--requests'"),
            (["--requests", "many"], "Invalid value for '--requests'"),
            (["--load", "2"], "--queues: no stage has a measured busy time"),
            (["--load", "0"], "Invalid value for '--load'.*at least 0.001"),
            (["--load", "nan"], "Invalid value for '--load'"),
        ],
    )
    def test_simulate(self, good: Path, args: list[str], pattern: str) -> None:
        refused(run("simulate", str(good / "profile.json"), *args), pattern)


class TestServices:
    """Services and clusters that are not there; nothing is started for any of these."""

    @pytest.mark.parametrize(
        "args",
        [["serve"], ["stage", "--stage", "first"], ["up", "--port", "0"]],
        ids=["serve", "stage", "up"],
    )
    @pytest.mark.parametrize(
        ("target", "pattern"),
        [
            ("nowhere.at_all:service", "module nowhere.at_all: there is no such module"),
            ("tests.support:ghost", "module tests.support: has no 'ghost'"),
            ("tests.support.project.commands:run", "is a function, not a Service"),
            ("tests.support.project.commands", "must be MODULE:SERVICE"),
        ],
    )
    def test_unknown_services(self, tmp_path: Path, args: list[str], target: str, pattern: str) -> None:
        state = ["--state", str(tmp_path)] if args[0] == "up" else []
        refused(run(args[0], target, *args[1:], *state), pattern)

    @pytest.mark.parametrize(
        ("change", "pattern"),
        [
            (put("service", "shop"), "the plan is for service 'shop'"),
            (put("created", "today"), "service 'echo' has no stage 'spell'"),
        ],
    )
    def test_a_plan_that_up_cannot_follow_is_named(
        self, good: Path, tmp_path: Path, change: Change, pattern: str
    ) -> None:
        service = "tests.support.services.http:service"
        name = load_service(service).name
        document = change(put("service", name)(json.loads((good / "plan.json").read_text())))
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(document))
        refused(
            run("up", service, "--state", str(tmp_path / "s"), "--plan", str(path)), f"{path}: .*{pattern}"
        )

    @pytest.mark.parametrize(
        ("args", "pattern"),
        [
            (
                ["stage", "tests.support.services.http:service", "--stage", "ghost"],
                "no stage 'ghost'; it has: ",
            ),
            (["stage", "tests.support.services.http:service"], "Missing option '--stage'"),
            (["serve", "tests.support.services.http:service"], "no replica of"),
            (["serve", "tests.support.services.http:service", "--port", "70000"], "'--port'"),
            (["serve", "tests.support.services.http:service", "--grace", "nan"], "'--grace'"),
            (["status", "--state", "/nowhere"], "no service is up"),
            (["load", "http://localhost:1", "--rate", "nan", "--duration", "1"], "rate"),
            (["load", "http://localhost:1", "--rate", "-1", "--duration", "1"], "rate"),
            (["load", "ftp://localhost", "--rate", "1", "--duration", "1"], "ftp"),
            (["load", "http://localhost:1", "--rate", "1", "--duration", "0"], "duration"),
            (
                ["load", "http://localhost:1", "--rate", "1", "--duration", "1", "--arrivals", "/nowhere"],
                "/nowhere",
            ),
            (["demo", "--seconds", "1"], "seconds: must be from 8"),
            (["demo", "--seconds", "nan"], "'--seconds'"),
            (["demo", "--rate", "0"], "'--rate'"),
            (["demo", "--budget", "2"], "'--budget'"),
            (["demo", "--out", "/dev/null"], "/dev/null"),
            (["report", "/nowhere"], "/nowhere: "),
            (["report"], "give a folder or files, or --url"),
            (["explain", "/nowhere.json"], "/nowhere.json: there is no such file"),
            (["reproduce", "kwiken"], "'reproduce' was removed; use `python -m papers NAME`"),
            (["fleet", "local-low"], "'fleet' was removed; use `python -m papers.worlds SCENARIO`"),
            (["storage", "replay", "m", "f"], "'replay' was removed; use `kwiken storage generate MODEL"),
            (["plan", "/nowhere", "-o", "-", "--json"], "-o - and --json both write to stdout; choose one"),
        ],
    )
    def test_other_verbs(self, args: list[str], pattern: str) -> None:
        refused(run(*args), pattern)


def test_a_refused_plan_leaves_the_old_file(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    out.write_text((good / "plan.json").read_text())
    refused(
        run("plan", str(good / "profile.json"), "--cost", "busy", "-o", str(out)),
        "busy time was not measured",
    )
    assert Plan.from_json(out.read_text()) == Plan.from_json((good / "plan.json").read_text())
