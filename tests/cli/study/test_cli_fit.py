"""`kwiken fit`: files of traces become a readable profile that `plan` and `simulate` accept."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kwiken.model.profile.codec import profile_from_json
from kwiken.otel.write.convert import otlp_lines
from kwiken.otel.write.records import Sample
from tests.support.data.public_files import public_file
from tests.support.otel.span_trees import T0, jaeger_json, layered_dag, record
from tests.support.otel.traces import jaeger, many, span
from tests.support.project.commands import refused, run
from tests.support.runtime.gateway_traces import cart_request, shop_request, spans_of

SOCIAL = "jaeger/socialnetwork-compose-post.json"


@pytest.fixture
def traces(tmp_path: Path) -> str:
    path = tmp_path / "traces.json"
    path.write_text(many(40))
    return str(path)


def data_of(*args: str) -> Any:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


class TestFit:
    def test_the_stages_and_what_follows_what(self, traces: str) -> None:
        data = data_of("fit", traces)
        after = {stage["name"]: stage["after"] for stage in data["stages"]}
        own = "shop:buy (own time)"
        assert after == {
            own: [],
            "shop:price": [own],
            "shop:stock": ["shop:price"],
            "shop:mail": ["shop:price"],
        }
        stages = {stage["name"]: stage for stage in data["stages"]}
        assert not stages[own]["reissuable"]
        assert stages["shop:stock"]["p50_ms"] == pytest.approx(2)
        assert stages["shop:price"]["p99_ms"] == pytest.approx(9)
        assert stages["shop:price"]["match"] == {"service": "shop", "operation": "price"}
        assert data["requests"] == data["counts"]["requests"] == 40

    def test_few_requests_and_an_unknown_attribute_are_noted(self, traces: str) -> None:
        told = run("fit", traces, "--kind-by", "tenannt").stderr
        assert "only 40 requests: their slowest tell little" in told
        assert "warning few requests" not in told
        assert "no span has the attribute that --kind-by names" in told
        refused(run("fit", traces, "--kind-by", ""), "--kind-by is empty; give an attribute's name, or root")

    def test_cancelled_calls_are_noted(self, tmp_path: Path) -> None:
        rng = random.Random(3)
        dag = layered_dag(rng, 2)
        records = [record(rng, dag, start=T0 + i * 10**9, copies=0.5) for i in range(40)]
        path = tmp_path / "own.jsonl"
        path.write_bytes(b"".join(otlp_lines("shop", records)))
        cut = sum(stage["censored"] for stage in data_of("fit", str(path))["stages"])
        assert cut > 1
        told = " ".join(run("fit", str(path)).stderr.split())
        assert f"{cut} calls were cut short: the times shown for them are lower bounds" in told

    def test_the_table_says_the_same(self, traces: str) -> None:
        result = run("fit", traces)
        assert result.exit_code == 0
        assert "│" not in result.stderr, "tables are results"
        rows = {
            line.split()[1]: line
            for line in result.stdout.splitlines()
            if "shop:" in line and "." in line.split()[0]
        }
        assert "│     1 │ 100.0% │" in rows["shop:price"]
        assert "│     2 │ 100.0% │" in rows["shop:mail"]
        assert "40 requests of shop" in result.stdout
        assert "traces 40" in result.stderr
        assert "not written" in result.stderr

    def test_how_many_sampled_requests_stand_for_all(self, tmp_path: Path) -> None:
        rng = random.Random(3)
        dag = layered_dag(rng, 2)
        records = [record(rng, dag, start=T0 + i * 10**9) for i in range(100)]
        for number, one in enumerate(records):
            one.sample = Sample("slow", 1.0) if number % 2 else Sample("drawn", 0.25)
        path = tmp_path / "own.jsonl"
        path.write_bytes(b"".join(otlp_lines("shop", records)))
        told = " ".join(run("fit", str(path)).stdout.split())
        assert "250 requests of shop, estimated from 100 that were sampled" in told

    def test_the_drawing(self, traces: str) -> None:
        result = run("fit", traces, "--mermaid")
        assert result.stdout.startswith("flowchart LR\n")
        assert "shop:price<br/>p50" in result.stdout
        assert result.stdout.count("-->") == 3

    def test_a_folder_is_its_files(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(many(20))
        (tmp_path / "notes.txt").write_text("not traces")
        assert data_of("fit", str(tmp_path))["requests"] == 20

    def test_the_whole_way_to_a_simulated_plan(self, traces: str, tmp_path: Path) -> None:
        profile, plan = str(tmp_path / "profile.out"), str(tmp_path / "plan.out")
        assert run("fit", traces, "--copyable", "*", "-o", profile).exit_code == 0
        assert profile_from_json(Path(profile).read_text()).requests == 40
        assert run("plan", profile, "-o", plan, "--reissue", "0.2").exit_code == 0
        data = data_of("simulate", profile, "--plan", plan)
        assert data["after"]["p95_ms"] < data["before"]["p95_ms"]
        assert 0 < data["spent"]["reissue"] <= 0.21

    def test_through_pipes(self, traces: str) -> None:
        profile = run("fit", traces, "-o", "-")
        assert profile.exit_code == 0
        assert "Latency of whole requests" in profile.stderr, "stdout has the profile alone"
        plan = run("plan", "-", "-o", "-", stdin=profile.stdout)
        assert json.loads(plan.stdout)["service"] == "shop"

    def test_other_roots_are_named_and_each_can_be_learned(self, tmp_path: Path) -> None:
        spans = json.loads(many(40))["data"]
        for n in range(5):
            root = span(1, 0, n * 100_000, 4_000, "sell: all/now")
            spans += jaeger(root, span(2, 1, n * 100_000, 3_000, "price"), trace=f"f{n}")["data"]
        path, folder = tmp_path / "two.json", tmp_path / "profiles"
        path.write_text(json.dumps({"data": spans}))
        told = run("fit", str(path))
        assert "learned: shop:buy; choose another kind by --kind NAME" in told.stderr
        assert "shop:sell: all/now" in told.stdout
        assert data_of("fit", str(path))["roots"] == {"shop:buy": 40, "shop:sell: all/now": 5}
        data = data_of("fit", str(path), "--all", "-o", str(folder))
        assert [(part["kind"], part["requests"]) for part in data["profiles"]] == [
            ("shop:buy", 40),
            ("shop:sell: all/now", 5),
        ]
        files = [Path(part["file"]) for part in data["profiles"]]
        assert [file.name for file in files] == ["shop_buy.json", "shop_sell_all_now.json"]
        assert [profile_from_json(file.read_text()).requests for file in files] == [40, 5]
        assert "choose another" not in run("fit", str(path), "--all").stderr

    def test_kinds_and_drift_are_reported(self, tmp_path: Path) -> None:
        found = []
        for n in range(400):
            at, slow = n * 100_000, 5_000 if n >= 200 and n % 5 == 0 else 0
            root = span(1, 0, at, 9_000 + slow, "buy")
            root["tags"].append({"key": "tenant", "type": "string", "value": "gold" if n % 4 == 0 else "tin"})
            calls = [
                span(2, 1, at, 4_000 + slow + n % 97, "price"),
                span(3, 1, at + 4_200 + slow, 900, "mail"),
            ]
            found += jaeger(root, *calls, trace=f"{n + 1:x}")["data"]
        path, profile = tmp_path / "a.json", str(tmp_path / "profile.json")
        path.write_text(json.dumps({"data": found}))
        data = data_of("fit", str(path), "--kind-by", "tenant", "--copyable", "shop:price", "-o", profile)
        assert data["kinds"] == {"tin": 300, "gold": 100}
        (changed,) = data["drift"]
        assert changed["stage"] == "shop:price"
        assert changed["late_later"] > changed["late_earlier"]
        shown = run("fit", str(path), "--kind-by", "tenant").stderr
        assert "kinds of requests: tin 300, gold 100" in shown
        assert "changed while it was traced: shop:price: " in shown
        recent = data_of("fit", str(path), "--half-life", "5s")
        assert recent["requests"] + recent["counts"]["requests_decayed"] == 400
        planned = data_of("plan", profile, "--reissue", "0.05", "--cost", "calls")
        assert [each["class"] for each in planned["classes"]] == ["tin", "gold"]
        assert sum(each["spent_share"] for each in planned["classes"]) == pytest.approx(1)
        assert planned["drift"][0]["stage"] == "shop:price"
        curve = planned["curves"]["shop:price"]
        assert 0 <= curve["certainty"] <= 1
        assert all(
            low <= value <= high
            for low, value, high in zip(
                curve["low_ms2"], curve["variance_ms2"], curve["high_ms2"], strict=True
            )
        )
        low, high = planned["stages"]["shop:price"]["gain_between_ms2"]
        assert low <= planned["stages"]["shop:price"]["gain_ms2"] <= high
        told = run("plan", profile, "--reissue", "0.05", "--cost", "calls")
        assert "By kind of request" in told.stdout
        assert "note: the service changed while it was traced (shop:price: " in told.stderr

    def test_depth_splits_a_stage(self, tmp_path: Path) -> None:
        found = []
        for n in range(40):
            at = n * 100_000
            spans = [
                span(1, 0, at, 9_000, "buy"),
                span(2, 1, at, 4_000, "price"),
                span(3, 1, at + 5_000, 900, "mail"),
            ]
            spans += [span(4, 2, at + 100, 1_000, "card"), span(5, 2, at + 2_000, 1_000, "book")]
            found += jaeger(*spans, trace=f"{n + 1:x}")["data"]
        path = tmp_path / "deep.json"
        path.write_text(json.dumps({"data": found}))
        stages = {s["name"]: s for s in data_of("fit", str(path), "--depth", "2")["stages"]}
        assert stages["shop:card"]["after"] == ["shop:price (own time)"]
        assert stages["shop:mail"]["after"] == ["shop:book"]
        assert stages["shop:price (own time)"]["p50_ms"] == pytest.approx(2)
        assert not stages["shop:price (own time)"]["reissuable"]

    def test_the_social_network(self, tmp_path: Path) -> None:
        profile, plan = str(tmp_path / "profile.json"), str(tmp_path / "plan.json")
        data = data_of("fit", str(public_file(SOCIAL)), "-o", profile)
        short = {stage["match"]["operation"].removesuffix("_server"): stage for stage in data["stages"]}
        named = {stage["name"]: name for name, stage in short.items()}
        after = {name: {named[parent] for parent in stage["after"]} for name, stage in short.items()}
        composed = {"compose_text", "compose_unique_id", "compose_media", "compose_creator"}
        assert after["store_post"] == composed
        assert after["write_user_timeline"] == {"store_post"}
        assert after["write_home_timeline"] == {"write_user_timeline"}
        assert data["requests"] == 20
        assert run("plan", profile, "-o", plan).exit_code == 0
        simulated = data_of("simulate", profile, "--plan", plan)
        assert simulated["spent"]["reissue"] <= 0.05

    def test_writes_that_must_not_run_twice(self, tmp_path: Path) -> None:
        profile, plan = str(tmp_path / "profile.json"), str(tmp_path / "plan.json")
        given = ("--copyable", "*:compose_*", "--once", "*:store_*", "--once", "*:write_*")
        stages = {
            s["name"]: s["reissuable"]
            for s in data_of("fit", str(public_file(SOCIAL)), "-o", profile, *given)["stages"]
        }
        assert not any(may for name, may in stages.items() if ":store_" in name or ":write_" in name)
        assert any(stages.values())
        assert run("plan", profile, "-o", plan).exit_code == 0
        copied = {name for name, s in json.loads(Path(plan).read_text())["stages"].items() if "reissue" in s}
        assert copied <= {name for name, may in stages.items() if may}

    def test_identifiers_in_names_are_told_and_long_lists_are_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every request has a root operation of its own."""
        document = json.loads(jaeger_json(spans_of([shop_request(n) for n in range(30)])))
        for number, trace in enumerate(document["data"]):
            for one in trace["spans"]:
                if not one["references"]:
                    one["operationName"] = f"GET /page/{chr(97 + number // 6)}{chr(97 + number % 6)}"
        path = tmp_path / "ids.json"
        path.write_text(json.dumps(document))
        monkeypatch.setattr("kwiken.cli.study.fit.MAX_ROWS_LISTED", 25)
        shown = run("fit", str(path), "--list")
        assert shown.stdout.count("and 5 more; --json has all") == 2
        assert shown.stdout.count("GET /page/") == 25
        told = "note: most of the 30 kinds have a single request, as where names of spans hold identifiers"
        for command in (["fit", str(path), "--list"], ["fit", str(path)], ["advise", str(path)]):
            assert told in run(*command).stderr
        path.write_text(jaeger_json(spans_of([shop_request(n) for n in range(30)])))
        assert "identifiers" not in run("fit", str(path), "--list").stderr

    def test_a_shop_behind_a_gateway_from_its_kinds_to_another_day(self, tmp_path: Path) -> None:
        requests = [shop_request(n) if n % 3 else cart_request(n) for n in range(120)]
        path, profile, plan = tmp_path / "day.json", str(tmp_path / "p.json"), str(tmp_path / "plan.json")
        path.write_text(jaeger_json(spans_of(requests)))
        shown = run("fit", str(path), "--list").stdout
        assert "edge-service:/*" in shown
        assert all(name in shown for name in ("shop-service:shop/page", "cart-service:cart/add"))
        listed = data_of("fit", str(path), "--list")
        assert [(kind["name"], kind["requests"]) for kind in listed["requests_by_kind"]] == [
            ("shop-service:shop/page", 80),
            ("cart-service:cart/add", 40),
        ]
        told = run("fit", str(path), "-o", profile).stderr
        assert "learned: shop-service:shop/page; choose another kind by --kind NAME" in told
        assert "taken for reads, so copies may be sent: price-service:prices, stock-service:search" in told
        assert "taken for writes, so no copies are sent: visit-service:visits (INSERT visits)" in told
        assert all(len(line) <= 100 for line in told.splitlines() if "│" in line or "┃" in line)
        assert data_of("fit", str(path), "--kind", "add")["kind"] == "cart-service:/api/v1/cart/add"
        later = tmp_path / "later.json"
        later.write_text(jaeger_json(spans_of([cart_request(n) for n in range(90)] + requests[:60])))
        assert data_of("fit", str(later))["kind"].startswith("cart-service")
        alike = data_of("fit", str(later), "--like", profile)
        assert alike["kind"] == "shop-service:/api/v1/shop/page"
        allowed = data_of("fit", str(path), "--copyable", "visit-service:*")["stages"]
        assert all(stage["reissuable"] for stage in allowed[1:])
        assert run("plan", profile, "-o", plan, "--reissue", "0.3").exit_code == 0
        copied = {name for name, s in json.loads(Path(plan).read_text())["stages"].items() if "reissue" in s}
        assert "stock-service:search" in copied
        assert "visit-service:visits" not in copied
        kept = str(tmp_path / "kept.json")
        assert run("plan", profile, "-o", kept, "--reissue", "0.3", "--once", "stock-*").exit_code == 0
        once = {name for name, s in json.loads(Path(kept).read_text())["stages"].items() if "reissue" in s}
        assert not {name for name in once if name.startswith("stock")}
        simulated = run("simulate", profile, "--plan", kept)
        assert simulated.exit_code == 0
        assert "another profile" not in simulated.stderr, "the plan still is for this profile"
        refused(run("plan", profile, "--copyable", "nobody"), "no stage is named 'nobody'")

    def test_a_plan_in_place_of_a_profile_is_recognised_and_the_reverse(
        self, traces: str, tmp_path: Path
    ) -> None:
        profile, plan = str(tmp_path / "p.json"), str(tmp_path / "plan.json")
        assert run("fit", traces, "-o", profile).exit_code == 0
        assert run("plan", profile, "-o", plan).exit_code == 0
        for verb in (["explain"], ["plan"], ["simulate", "--plan", plan]):
            refused(run(*verb, plan), "plan.json: is a plan, and a profile is needed")
        refused(run("fit", traces, "--like", plan), "plan.json: is a plan, and a profile is needed")
        for verb in (["simulate", profile, "--plan"], ["explain", profile, "--plan"]):
            refused(run(*verb, profile), "p.json: is a profile, and a plan is needed")
        refused(run("export", profile, "--to", "grpc"), "p.json: is a profile, and a plan is needed")
        refused(run("plan", traces), "traces.json: holds traces, and a profile is needed")

    def test_a_stage_to_keep_single_is_there(self, traces: str) -> None:
        refused(run("fit", traces, "--once", "nobody"), "no stage is named 'nobody'; there are: ")


ROOT = span(1, 0, 0, 5_000, "buy")
BAD: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("blank", b"\n \n", "is empty"),
    ("binary", b"\x00\x01\x02", "is binary, such as OTLP in protobuf"),
    ("text", b"hello", "is neither OTLP JSON"),
    ("a page", b"<html></html>", "is neither OTLP JSON"),
    ("a number", b"5", "is neither OTLP JSON"),
    ("a list", b"[1, 2]", "is neither OTLP JSON"),
    ("another's", b'{"name": "left-pad", "version": "1.0.0"}', "is neither OTLP JSON"),
    ("very deep", b"[" * 100_000, "is nested too deep"),
    ("truncated", json.dumps(jaeger(ROOT)).encode()[:150], ":1: .*truncated"),
    ("truncated in line 2", b'{"resourceSpans": []}\n{"resourceSpans": [', ":2: .*truncated"),
    ("no traces", b'{"data": []}', "no span to learn from"),
    ("an error of Jaeger's", b'{"data": null, "errors": [{"msg": "not found"}]}', "answered with an error"),
    ("a span that is its parent", json.dumps(jaeger(span(1, 1, 0, 5, "a"))).encode(), "1 cyclic"),
    (
        "spans in a ring",
        json.dumps(jaeger(span(1, 2, 0, 9, "a"), span(2, 1, 0, 5, "b"))).encode(),
        "2 cyclic",
    ),
    ("no root", json.dumps(jaeger(span(2, 9, 0, 5, "a"), span(3, 9, 9, 5, "b"))).encode(), "2 orphaned"),
    ("a negative duration", json.dumps(jaeger(span(1, 0, 0, -5, "a"))).encode(), "1 end before they begin"),
    ("a duration in words", json.dumps(jaeger(span(1, 0, 0, "long", "a"))).encode(), ":1: .*duration"),
    ("a duration of NaN", json.dumps(jaeger(span(1, 0, 0, float("nan"), "a"))).encode(), ":1: .*malformed"),
    (
        "times of no clock",
        json.dumps(jaeger(span(1, 0, 10**30, 5, "a"))).encode(),
        "(before 2116|out of range)",
    ),
    ("no calls", json.dumps(jaeger(ROOT)).encode(), "there are no stages"),
]


class TestBadTraces:
    @pytest.mark.parametrize(("data", "pattern"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
    def test_files_that_are_no_use(self, tmp_path: Path, data: bytes, pattern: str) -> None:
        path = tmp_path / "traces.json"
        path.write_bytes(data)
        refused(run("fit", str(path)), f"{path}.*({pattern})")

    def test_a_huge_file_of_nothing_is_refused_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "huge.json"
        with path.open("wb") as file:
            file.truncate(1 << 40)
        refused(run("fit", str(path)), rf"{path}: is binary")

    def test_one_bad_trace_among_good_ones_is_counted(self, tmp_path: Path) -> None:
        (tmp_path / "good.json").write_text(many(10))
        (tmp_path / "ring.json").write_text(json.dumps(jaeger(span(1, 1, 0, 5, "a"), trace="ffff")))
        assert data_of("fit", str(tmp_path))["counts"]["spans_cyclic"] == 1

    @pytest.mark.parametrize(
        ("args", "pattern"),
        [
            (["/nowhere/traces.json"], "/nowhere/traces.json: .*[Nn]o such file"),
            (["jaeger://"], "jaeger://: names no host"),
            (["jaeger://127.0.0.1:99999/shop"], "Port out of range"),
            (["jaeger://127.0.0.1:1/shop"], "Jaeger does not answer"),
            ([], "Missing argument 'TRACES...'"),
        ],
    )
    def test_what_is_not_there(self, args: list[str], pattern: str) -> None:
        refused(run("fit", *args), pattern)

    def test_a_folder_without_traces(self, tmp_path: Path) -> None:
        refused(run("fit", str(tmp_path)), f"{tmp_path}: holds no files")

    @pytest.mark.parametrize(
        ("args", "pattern"),
        [
            (["--root", "sell"], "no span is of operation 'sell'; roots are: shop:buy"),
            (["--service", "bank"], "no span is of service 'bank'"),
            (["-o", "/nowhere/profile.json"], "/nowhere/profile.json: its folder does not exist"),
            (["-o", "-", "--json"], "-o - and --json both write to stdout; choose one"),
            (["--mermaid", "--json"], "--mermaid and --json both write to stdout; choose one"),
            (["--mermaid", "-o", "-"], "-o - and --mermaid both write to stdout; choose one"),
            (["--since", "1"], "No such option"),
            (["--depth", "0"], "0 is not in the range"),
            (["--half-life", "soon"], "'soon' is not a time; write 90s, 30m, 1h or 2d"),
            (["--half-life", "0s"], "'0s' is not a time"),
            (["--all", "--kind", "buy"], "--all learns every kind, so --kind has no effect"),
            (["--list", "--kind", "buy"], "--list learns no profile, so --kind has no effect"),
            (["--list", "--all"], "--list learns no profile, so --all has no effect"),
            (["--kind", "sell"], "no kind of requests is named 'sell'; nearest: shop:buy"),
            (["--ignore", "nothing"], "--ignore: no operation matches 'nothing'"),
            (["--like", "/nowhere"], "/nowhere: there is no such file"),
            (["--all", "-o", "-"], "-o must be a folder"),
            (["--all", "-o", "/dev/null/x"], "/dev/null/x: "),
        ],
    )
    def test_options(self, traces: str, args: list[str], pattern: str) -> None:
        refused(run("fit", traces, *args), pattern)
