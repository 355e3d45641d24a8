"""`kwiken advise`: five answers from traces alone, JSON, a page, a plan to export, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from kwiken.apps.report.advice_words import advice_sentences
from kwiken.apps.report.page_of_advice import advice_page
from kwiken.tail.advice.contents import Advice, Doubt
from kwiken.tail.judging.judgement_document import Cut
from tests.support.data.public_files import public_file
from tests.support.otel.replicated import Shop
from tests.support.otel.span_trees import jaeger_json
from tests.support.project.commands import refused, run
from tests.support.runtime.gateway_traces import Request, cart_request, shop_request, spans_of

DAY = "train-ticket/2023-01-29.json.gz"
MAX_WORDS = 45  # of an answer with its question; figures and names count as words
QUESTIONS = (
    "1. Which requests. ",
    "2. What makes their tail. ",
    "3. What the budget buys. ",
    "4. What to change. ",
    "5. What to measure next. ",
)


def written(folder: Path, requests: Sequence[Request], name: str = "traces.json") -> str:
    path = folder / name
    path.write_text(jaeger_json(spans_of(requests)))
    return str(path)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> str:
    """400 requests of a page whose slowest 5% are the stock service's work, and 30 of another kind."""
    requests = [shop_request(number) for number in range(400)] + [
        cart_request(number) for number in range(30)
    ]
    return written(tmp_path_factory.mktemp("advise"), requests)


@pytest.fixture(scope="module")
def text(traces: str) -> str:
    """The answer as it is printed without options."""
    shown = run("advise", traces)
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


@pytest.fixture(scope="module")
def document(traces: str) -> str:
    """The answer as JSON."""
    return run("advise", traces, "--json").stdout


def test_five_answers_come_first_and_name_kind_service_gain_setting_and_next_step(text: str) -> None:
    lines = text.splitlines()
    for line, question in zip(lines, QUESTIONS, strict=False):
        assert line.startswith(question)
    which, tail, gain, change, measure = lines[:5]
    assert "shop/page: 400 requests" in which
    assert "cart/add (30)" in which
    assert "more than the medians of all services and links add up to: stock-service" in tail
    assert "If a copy is as quick as a usual call: a plan of the earlier half cuts p99" in gain
    assert "(no interval)" in gain
    assert "Copy late calls of stock-service:search" in change
    assert "where a second replica can take the copy" in change
    assert "Record 2,000 requests of this kind instead of 400" in measure
    for line in lines[:5]:
        assert len(line.split()) <= MAX_WORDS, line
    assert "Who makes slow requests slow" in text
    assert "Settings to change" in text
    bought = text.partition("What budgets buy")[2].partition("A plan of the earlier half")[0]
    assert "% to " not in bought  # nothing shows that copies are independent, so there is no interval


def test_the_gain_is_worded_by_what_the_interval_says(document: str) -> None:
    found = msgspec.json.decode(document, type=Advice)
    judgement = found.judgement
    assert judgement is not None
    arm = judgement.arm("plan")

    def gain(share: float, low: float, high: float, doubt: Doubt | None = None) -> str:
        after = msgspec.structs.replace(arm.after, p99_ms=judgement.before.p99_ms * (1 - share))
        cuts = {**arm.cuts, "p99_ms": Cut(share=share, low=low, high=high)}
        arms = (msgspec.structs.replace(arm, after=after, cuts=cuts, spent=0.08), *judgement.arms[1:])
        judged = msgspec.structs.replace(judgement, arms=arms)
        return advice_sentences(
            msgspec.structs.replace(found, judgement=judged, doubt=doubt, unshown=()), None
        )[2]

    told = gain(0.3, 0.2, 0.4)
    assert told.startswith("A plan of the earlier half cuts p99 of the later half by 30%, from ")
    assert "(90% interval 20% to 40%, on only 2 requests)" in told
    assert (
        "for 8.0% of extra work (3.0% is the budget; the ledger always grants 3 copies a second); an even spread cuts "
        in told
    )
    assert "raises p99 of the later half" in (worse := gain(-0.3, -0.4, -0.2, Doubt.WORSE))
    assert "do not apply it" in worse
    assert "contains 0" in gain(0.1, -0.1, 0.2, Doubt.ZERO_IN_INTERVAL)
    assert gain(0.0, 0.0, 0.0, Doubt.NO_COPIES).startswith("Nothing that shows: with 3.0%, a plan")
    assert found.settings
    changes = [
        advice_sentences(msgspec.structs.replace(found, doubt=doubt), None)[3]
        for doubt in (None, Doubt.ZERO_IN_INTERVAL, Doubt.NO_COPIES, Doubt.ONE_REPLICA, Doubt.WORSE)
    ]
    assert ["not certain" in each for each in changes] == [False, True, False, False, False]
    assert changes[2] == "No copies: they leave p99 of later requests where it is."
    assert changes[3].startswith("No copies: the calls that could get them do not make the tail")
    assert changes[4] == "Nothing: the plan made p99 of later requests worse."


def test_steps_that_have_no_room_in_the_answer_are_listed_in_full(text: str, document: str) -> None:
    steps = json.loads(document)["steps"]
    lines = text.splitlines()
    listed = lines[lines.index("What to measure next:") + 1 :]
    assert len(listed) == len(steps) > 1
    assert all(line.startswith("- ") and line.endswith(".") for line in listed)
    more = f"{len(steps) - 1} further step{'' if len(steps) == 2 else 's'} at the end"
    assert more in lines[4]


def test_a_plan_that_is_kept_is_exported_by_name(traces: str, text: str, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    assert f"kwiken export {plan} --to envoy" in run("advise", traces, "--plan", plan).stdout
    assert "--plan FILE keeps the plan for kwiken export" in text


def test_the_floor_serves_all_requests_of_which_the_traces_are_a_sample(traces: str) -> None:
    """The shop's requests come slowly, so that the floor grants what the budget does not."""
    whole = json.loads(run("advise", traces, "--budget", "0.02", "--json").stdout)
    sample = json.loads(run("advise", traces, "--budget", "0.02", "--sampled", "0.00001", "--json").stdout)
    denied = [max(arm["denied"] for arm in found["judgement"]["arms"]) for found in (whole, sample)]
    assert denied[0] == 0 < denied[1]
    assert sample["settings"] == whole["settings"]
    refused(run("advise", traces, "--sampled", "0"), "--sampled")


def test_another_kind_is_chosen_and_few_requests_are_told(traces: str, tmp_path: Path) -> None:
    shown = run("advise", traces, "--kind", "cart/add")
    assert shown.exit_code == 0
    assert "cart/add: 30 requests" in shown.stdout
    assert "cannot be told: 30 requests are too few" in shown.stdout
    assert "Nothing: there is no setting to advise" in shown.stdout
    unwritten = tmp_path / "plan.json"
    without = run("advise", traces, "--kind", "cart/add", "--plan", str(unwritten))
    assert (without.exit_code, without.stdout) == (0, shown.stdout)
    assert "there is no plan to write" in without.stderr
    assert not unwritten.exists()


def test_calls_that_may_not_run_twice_get_no_setting(traces: str) -> None:
    shown = run("advise", traces, "--once", "*", "--json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert (found["doubt"], found["settings"], found["judgement"]) == ("nothing_to_copy", [], None)
    told = run("advise", traces, "--once", "*").stdout
    assert "cannot be told: no call that these requests make may be copied" in told
    steps = [
        json.loads(run("advise", traces, *allowed, "--json").stdout)["steps"]
        for allowed in ((), ("--copyable", "visit-service:*"))
    ]
    writes = [[each["stages"] for each in some if each["step"] == "confirm_writes"] for some in steps]
    assert writes[1] == [], "a call that may be copied is no write to confirm"


def test_traces_that_all_start_at_once_cannot_be_divided(tmp_path: Path, traces: str) -> None:
    document = json.loads(Path(traces).read_text())
    for trace in document["data"]:
        first = min(span["startTime"] for span in trace["spans"])
        for span in trace["spans"]:
            span["startTime"] += 1_700_000_000_000_000 - first
    path = tmp_path / "at_once.json"
    path.write_text(json.dumps(document))
    shown = run("advise", str(path))
    assert shown.exit_code == 0, shown.stderr
    assert "all requests carry the same start time" in shown.stdout


def test_json_page_and_plan_carry_the_same_answer(traces: str, tmp_path: Path) -> None:
    page, plan = tmp_path / "advice.html", tmp_path / "plan.json"
    shown = run("advise", traces, "--budget", "0.1", "-o", str(page), "--plan", str(plan), "--json")
    assert shown.exit_code == 0, shown.stderr
    found = msgspec.json.decode(shown.stdout, type=Advice)
    assert found.budget == 0.1
    drawn = page.read_text()
    assert "<svg" in drawn
    assert "://" not in drawn.replace("http://www.w3.org", "")
    for question in QUESTIONS:
        assert question[3:].strip() in drawn
    for each in found.settings:
        assert each.stage in drawn
    kept = json.loads(plan.read_text())
    assert {name for name, stage in kept["stages"].items() if "reissue" in stage} == {
        each.stage for each in found.settings
    }
    assert kept["budgets"]["reissue"] == 0.1
    exported = run("export", str(plan), "--to", "envoy", "--template", str(tmp_path / "map.json"))
    assert exported.exit_code == 0
    to_stdout = run("advise", traces, "-o", "-")
    assert to_stdout.stdout.startswith("<!doctype html>")


def test_classes_of_requests_are_told_by_an_attribute_or_all_kinds_together(
    traces: str, tmp_path: Path
) -> None:
    document = json.loads(Path(traces).read_text())
    for trace in document["data"]:
        slow = max(span["duration"] for span in trace["spans"]) > 150_000
        for span in trace["spans"]:
            span["tags"].append({"key": "tenant", "type": "string", "value": "big" if slow else "usual"})
    told = tmp_path / "tenants.json"
    told.write_text(json.dumps(document))
    shown = run("advise", str(told), "--kind-by", "tenant", "--json", "-o", str(tmp_path / "advice.html"))
    assert shown.exit_code == 0, shown.stderr
    found = msgspec.json.decode(shown.stdout, type=Advice)
    assert [(each.name, each.requests) for each in found.classes] == [("usual", 380), ("big", 20)]
    assert found.classes[1].p50_ms > 2 * found.classes[0].p99_ms
    assert "the slowest of 2 classes: big (20 requests)" in advice_sentences(found, None)[0]
    assert ">usual</" in (tmp_path / "advice.html").read_text()
    together = msgspec.json.decode(run("advise", traces, "--kind-by", "root", "--json").stdout, type=Advice)
    assert together.kind.name == "all kinds"
    assert together.kind.requests == sum(each.requests for each in together.classes) == 430
    assert together.others == ()
    refused(run("advise", traces, "--kind-by", ""), "--kind-by is empty")
    refused(run("advise", traces, "--kind-by", "root", "--kind", "cart/add"), "--kind has no effect")


def test_what_cannot_be_read_is_refused(tmp_path: Path, traces: str) -> None:
    refused(run("advise", str(tmp_path / "none.json")), "none.json: there is no such file")
    empty = tmp_path / "empty.json"
    empty.write_text('{"data": []}')
    refused(run("advise", str(empty)), "empty.json")
    refused(run("advise", traces, "--budget", "0"), "--budget")
    refused(run("advise", traces, "--kind", "crat/add"), "no kind of requests is named 'crat/add'.*cart/add")
    refused(run("advise", traces, "-o", traces), "traces.json")
    refused(run("advise", traces, "--plan", traces), "traces.json")
    refused(run("advise", traces, "-o", "-", "--json"), "stdout")
    refused(run("advise", traces, "-o", "a.html", "--plan", "a.html"), "is the file of -o too")


def test_a_time_is_explained_beside_all_others(tmp_path: Path) -> None:
    requests = [shop_request(number) for number in range(60)]
    document = json.loads(jaeger_json(spans_of(requests)))
    starts = sorted(min(span["startTime"] for span in trace["spans"]) for trace in document["data"])
    since, until = (datetime.fromtimestamp(starts[place] / 1e6, UTC).isoformat() for place in (30, 40))
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(document))
    shown = run("advise", str(path), "--during", f"{since}/{until}", "--json")
    found = msgspec.json.decode(shown.stdout, type=Advice)
    assert found.slow[-1].requests == 10
    assert found.slow[-1].during_s is not None
    assert found.first == found.slow[-1].first
    told = run("advise", str(path), "--during", f"{since}/{until}").stdout
    assert "Requests from 20" in told
    assert "slowest 5%, ms more" not in told
    profile = str(tmp_path / "profile.json")
    assert run("fit", str(path), "-o", profile).exit_code == 0
    assert "(10 requests)" in run("explain", profile, "--during", f"{since}/{until}").stdout
    for wrong in ("", "now", f"{until}/{since}", f"{since}/0s", f"{since}", "2026-01-01T00:00:00/60"):
        refused(run("advise", str(path), "--during", wrong), "is no time; write START/END")
    refused(run("advise", str(path), "--during", "2001-01-01/60s"), "during: no request starts in that time")
    refused(run("advise", str(path), "--during", "2001-01-01/2101-01-01"), "none is left to compare with")


@pytest.mark.slow
def test_the_ticket_shop_is_answered_as_a_reader_finds_by_hand() -> None:
    shown = run("advise", str(public_file(DAY)), "--kind", "preserve", "--json")
    assert shown.exit_code == 0
    found = msgspec.json.decode(shown.stdout, type=Advice)
    assert found.kind.name == "ts-preserve-service:preserve"
    assert found.leading == ("ts-order-service", "ts-seat-service")
    shares = {part.name: part.share for part in found.slow[-1].services}
    assert (round(shares["ts-order-service"], 2), round(shares["ts-seat-service"], 2)) == (0.45, 0.37)


def test_the_headline_is_the_most_useful_answer(document: str, tmp_path: Path) -> None:
    found = msgspec.json.decode(document, type=Advice)
    doubted = msgspec.structs.replace(found, doubt=Doubt.ZERO_IN_INTERVAL)
    uncertain = advice_page(doubted, made="", plan_file=None)
    assert uncertain.title == "shop-service: slow requests take 276 ms longer in stock-service"
    assert uncertain.cards[-1].value == "not certain"
    sure = msgspec.structs.replace(found, doubt=None)
    assert "of extra work at stock-service cuts p99 by " in advice_page(sure, made="", plan_file=None).title
    path = tmp_path / "slow_pod.json"
    shop = Shop(
        requests=240, replicas=(("pricing", 3), ("stock", 2), ("reviews", 2)), slow_pod=("pricing", 1)
    )
    path.write_text(shop.otlp())
    slow = msgspec.json.decode(run("advise", str(path), "--json").stdout, type=Advice)
    title = advice_page(slow, made="", plan_file=None).title
    assert title.startswith("shop: replica pricing-1 answers ")
    assert advice_sentences(slow, None)[1].startswith("Replica pricing-1 answers ")
    assert (slow.steps[0].__class__.__name__, slow.leading[0]) == ("LookIntoReplica", "pricing")
