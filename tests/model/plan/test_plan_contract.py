"""JSON of plans, version 1: the example of the contract is read; invalid documents are refused with the field."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import (
    Budgets,
    CatchUpPolicy,
    Costs,
    Expected,
    Intervals,
    Ladder,
    PartialPolicy,
    Plan,
    SpanMatch,
    StagePlan,
)
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage

EXAMPLE = """
{"version": 1, "service": "search", "created": "RFC 3339", "profile": "sha256:...",
 "budgets": {"reissue": 0.05, "utility_loss": 0.001, "catch_up": 0.0},
 "cost": {"model": "typical", "stages": {"lookup": 0.62}},
 "stages": {
   "lookup": {
     "match": {"service": "search-lookup", "operation": "lookup", "occurrence": 1},
     "reissue": {"after_ms": 12.5, "probability": 1.0, "copies": 1, "fraction": 0.071},
     "partial": {"cutoff_ms": 180.0, "wait_ms": 24.0, "progress": 0.98, "loss": 0.001},
     "catch_up": {"after_ms": 95.0, "threads": 3, "priority": true}}},
 "expected": {"before": {"p50_ms": 0, "p90_ms": 0, "p95_ms": 0, "p99_ms": 0, "p999_ms": 0}, "after": {},
              "spent": {"reissue": 0, "utility_loss": 0, "catch_up": 0}, "interval": 0.9},
 "ledger": {"horizon_s": 600, "peak_factor": 3, "floor_per_s": 0.5}}
"""


def changed(path: str, value: Any) -> str:
    """The example with one value set, or removed by `...`."""
    plan: Any = json.loads(EXAMPLE)
    *way, last = path.split(".")
    here = plan
    for key in way:
        here = here[key]
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return json.dumps(plan)


class TestExample:
    def test_a_plan_is_read_completely(self) -> None:
        plan = Plan.from_json(EXAMPLE)
        lookup = plan.stages["lookup"]
        assert plan.budgets == Budgets(reissue=0.05, utility_loss=0.001)
        assert plan.cost == Costs(model="typical", stages={"lookup": 0.62})
        assert lookup.match == SpanMatch(service="search-lookup", operation="lookup")
        assert lookup.reissue == Reissue(after_ms=12.5, fraction=0.071)
        assert lookup.partial == PartialPolicy(cutoff_ms=180, wait_ms=24, progress=0.98, loss=0.001)
        assert lookup.catch_up == CatchUpPolicy(after_ms=95, threads=3, priority=True, reissue=False)
        assert plan.expected is not None
        assert plan.expected.after == Ladder()
        assert plan.expected.interval == 0.9
        assert plan.ledger == LedgerTerms(horizon_s=600.0, peak_factor=3.0, floor_per_s=0.5)

    def test_a_plan_that_states_no_terms_has_the_defaults(self) -> None:
        assert Plan.from_json(changed("ledger", ...)).ledger == LedgerTerms()

    def test_a_plan_survives_a_round_trip(self) -> None:
        plan = Plan.from_json(EXAMPLE)
        assert Plan.from_json(plan.to_json()) == plan
        assert Plan.from_json(EXAMPLE.encode()) == plan

    def test_what_is_absent_is_not_written(self) -> None:
        plan = Plan.from_json(changed("stages.lookup.reissue", ...))
        assert plan.stages["lookup"].reissue is None
        written = json.loads(plan.to_json())
        assert set(written["stages"]["lookup"]) == {"match", "partial", "catch_up"}
        original = json.loads(EXAMPLE)
        assert written.keys() == original.keys()
        for name in ("budgets", "cost"):
            assert written[name] == original[name]

    def test_a_plan_needs_no_expectation(self) -> None:
        assert Plan.from_json(changed("expected", ...)).expected is None

    def test_the_digest_is_of_the_content_not_of_its_order(self) -> None:
        plan = json.loads(EXAMPLE)
        plan["stages"]["rank"] = {}
        plan["cost"]["stages"]["rank"] = 0.1
        turned = copy.deepcopy(plan)
        turned["stages"] = dict(reversed(turned["stages"].items()))
        turned["cost"]["stages"] = dict(reversed(turned["cost"]["stages"].items()))
        one, other = (Plan.from_json(json.dumps(dict(reversed(p.items())))) for p in (plan, turned))
        assert one.digest == other.digest
        assert one.digest != Plan.from_json(EXAMPLE).digest
        assert len(one.digest) == 12


BAD: list[tuple[str, Any, str]] = [
    ("version", 2, "p.json: version must be 1, not 2"),
    ("version", 0, "version must be 1, not 0"),
    ("version", "1", "version must be 1, not '1'"),
    ("version", 1.0, "version must be 1, not 1.0"),
    ("version", True, "version must be 1, not True"),
    ("version", None, "version must be 1, not None"),
    ("version", ..., "missing required field `version`"),
    ("service", ..., "missing required field `service`"),
    ("service", 5, "service: Expected `str`"),
    ("colour", "red", "unknown field `colour`"),
    ("budgets.colour", 1, "budgets: unknown field `colour`"),
    ("cost.colour", 1, "cost: unknown field `colour`"),
    ("expected.colour", 1, "expected: unknown field `colour`"),
    ("expected.after.p42_ms", 1, "expected.after: unknown field `p42_ms`"),
    ("stages.lookup.colour", 1, "p.json: stage 'lookup': unknown field `colour`"),
    ("stages.lookup.match.colour", 1, "stage 'lookup': match: unknown field `colour`"),
    ("stages.lookup.reissue.colour", 1, "stage 'lookup': reissue: unknown field `colour`"),
    ("stages.lookup.partial.colour", 1, "stage 'lookup': partial: unknown field `colour`"),
    ("stages.lookup.catch_up.colour", 1, "stage 'lookup': catch_up: unknown field `colour`"),
    ("budgets.reissue", -1, "budgets: reissue must be a share from 0 to 1, not -1"),
    ("budgets.reissue", 2, "budgets: reissue must be a share from 0 to 1, not 2"),
    ("budgets.reissue", "0.05", "budgets.reissue: Expected `float`"),
    ("budgets.reissue", True, "budgets.reissue: Expected `float`"),
    ("budgets.reissue", None, "budgets.reissue: Expected `float`"),
    ("budgets.reissue", math.nan, "NaN is not a number"),
    ("budgets.reissue", math.inf, "Infinity is not a number"),
    ("budgets.utility_loss", -1e-9, "utility_loss must be a share"),
    ("budgets.catch_up", 1.000001, "catch_up must be a share"),
    ("budgets", [], "budgets: Expected `object`"),
    ("ledger.horizon_s", 1, "horizon_s must be from 10 to 604800"),
    ("ledger.peak_factor", 0.5, "peak_factor must be from 1 to 100"),
    ("ledger.floor_per_s", -1, "floor_per_s must be from 0 to 1000"),
    ("ledger.floor", 3, "unknown field"),
    ("cost.stages.lookup", -0.1, "cost of stage 'lookup' must be a finite number >= 0"),
    ("cost.stages.lookup", 1.1, "sum to at most 1, not 1.1"),
    ("cost.stages.rank", 0.5, "sum to at most 1, not 1.12"),
    ("cost.stages.lookup", "much", "cost of stage 'lookup': Expected `float`"),
    ("cost.stages", {}, "'lookup' is reissued or caught up but has no cost"),
    ("cost.stages", ..., "cost: .*missing required field `stages`"),
    ("stages", [], "stages: Expected `object`"),
    ("stages.lookup", 5, "stage 'lookup': Expected `object`"),
    ("stages.lookup.match.occurrence", 0, "stage 'lookup': match: occurrence counts from 1"),
    ("stages.lookup.match.occurrence", 1.5, "stage 'lookup': match.occurrence: Expected `int`"),
    ("stages.lookup.match.service", ..., "stage 'lookup': match: .*missing required field `service`"),
    ("stages.lookup.reissue.after_ms", -1, "stage 'lookup': reissue: after_ms must be"),
    ("stages.lookup.reissue.after_ms", 1e300, "stage 'lookup': reissue: after_ms must be"),
    ("stages.lookup.reissue.after_ms", ..., "missing required field `after_ms`"),
    ("stages.lookup.reissue.probability", 0, "probability must be in"),
    ("stages.lookup.reissue.probability", 1.5, "probability must be in"),
    ("stages.lookup.reissue.copies", 0, "copies must be from 1 to 16, not 0"),
    ("stages.lookup.reissue.copies", 1000, "copies must be from 1 to 16, not 1000"),
    ("stages.lookup.reissue.copies", 1.5, "reissue.copies: Expected `int`"),
    ("stages.lookup.reissue.fraction", 1.5, "fraction must be in"),
    ("stages.lookup.partial.cutoff_ms", -1, "partial: cutoff_ms must be"),
    ("stages.lookup.partial.wait_ms", -1, "partial: wait_ms must be"),
    ("stages.lookup.partial.progress", 1.1, "partial: progress must be a share"),
    ("stages.lookup.partial.loss", -0.1, "partial: loss must be a share"),
    ("stages.lookup.catch_up.after_ms", -1, "catch_up: after_ms must be"),
    ("stages.lookup.catch_up.threads", 0, "catch_up: threads must be from 1"),
    ("stages.lookup.catch_up.threads", 10**6, "catch_up: threads must be from 1"),
    ("stages.lookup.catch_up.reissue", "yes", "catch_up.reissue: Expected `bool`"),
    ("stages.lookup.catch_up.priority", 1, "catch_up.priority: Expected `bool`"),
    ("expected.before.p99_ms", -1, "expected.before: p99_ms must be a finite number >= 0"),
    ("expected.interval", 0, "expected: interval must be a probability"),
    ("expected.interval", 1.1, "expected: interval must be a probability"),
    ("expected.spent.reissue", -0.5, "expected.spent: reissue must be a share"),
]


class TestRefusals:
    @pytest.mark.parametrize(("path", "value", "message"), BAD)
    def test_bad_values_name_the_field(self, path: str, value: Any, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            Plan.from_json(changed(path, value), where="p.json")
        assert str(caught.value).startswith("p.json")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "p.json: is empty"),
            ("[]", "p.json: Expected `object`"),
            ("null", "p.json: Expected `object`"),
            ("{", "p.json:1: broken JSON"),
            (EXAMPLE[:200], "p.json:4: broken JSON"),
            (EXAMPLE.replace("0.05", "0.05,,"), "p.json:3: broken JSON"),
            (
                EXAMPLE.replace('"reissue": 0.05', '"reissue": 0.05, "reissue": 0.9'),
                "'reissue' is given twice",
            ),
            (EXAMPLE.replace("0.05", "1e999"), "1e999 is out of range"),
            (EXAMPLE.replace("0.05", "9" * 400), "out of range"),
            (EXAMPLE + "x", "broken JSON: Extra data"),
            (b"\x80\x02}q\x00.", "p.json:1: is not UTF-8"),
            ("[" * 200_000, "nested too deep"),
            (" " * (17 << 20), "larger than"),
        ],
    )
    def test_what_is_no_plan(self, text: str | bytes, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Plan.from_json(text, where="p.json")

    @pytest.mark.parametrize("cut", range(5, len(EXAMPLE) - 3, 23))
    def test_a_plan_cut_anywhere_is_refused(self, cut: int) -> None:
        with pytest.raises(InputError, match=r"p\.json:\d+: broken JSON"):
            Plan.from_json(EXAMPLE[:cut], where="p.json")

    @given(st.data())
    def test_any_damage_is_read_or_refused_as_ours(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(EXAMPLE) - 1))
        patch = data.draw(st.text(st.characters(max_codepoint=127), max_size=4))
        try:
            plan = Plan.from_json(EXAMPLE[:place] + patch + EXAMPLE[place + len(patch) :])
        except InputError:
            return
        assert Plan.from_json(plan.to_json()) == plan

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Budgets(reissue=math.nan),
            lambda: Budgets(utility_loss=math.inf),
            lambda: Budgets(catch_up=-0.1),
            lambda: Costs(model="typical", stages={"a": math.nan}),
            lambda: Costs(model="typical", stages={"a": math.inf}),
            lambda: Costs(model="typical", stages={"a": 0.6, "b": 0.6}),
            lambda: Ladder(p50_ms=math.nan),
            lambda: Ladder(p999_ms=math.inf),
            lambda: PartialPolicy(cutoff_ms=math.nan, wait_ms=None, progress=1, loss=0),
            lambda: PartialPolicy(cutoff_ms=None, wait_ms=None, progress=math.nan, loss=0),
            lambda: CatchUpPolicy(after_ms=math.inf),
            lambda: SpanMatch(service="a", operation="b", occurrence=0),
            lambda: Expected(before=Ladder(), after=Ladder(), spent=Budgets(), interval=math.nan),
        ],
    )
    def test_python_is_held_to_the_same(self, make: Callable[[], Any]) -> None:
        with pytest.raises(ValueError, match=r"must|counts"):
            make()


SHARES = st.floats(0, 1)
MILLISECONDS = st.floats(0, 1e6)
NAMES = st.text(min_size=1, max_size=12)
LADDERS = st.builds(Ladder, p50_ms=MILLISECONDS, p90_ms=MILLISECONDS, p99_ms=MILLISECONDS)
BUDGETS = st.builds(Budgets, reissue=SHARES, utility_loss=SHARES, catch_up=SHARES)
BOUNDS = st.dictionaries(NAMES, st.tuples(MILLISECONDS, MILLISECONDS), max_size=2)
REISSUES = st.builds(
    Reissue,
    after_ms=MILLISECONDS,
    probability=st.floats(0.001, 1),
    copies=st.integers(1, 16),
    fraction=SHARES,
)
STAGE_PLANS = st.builds(
    StagePlan,
    match=st.none()
    | st.builds(
        SpanMatch, service=st.text(max_size=9), operation=st.text(max_size=9), occurrence=st.integers(1, 99)
    ),
    reissue=st.none() | REISSUES,
    partial=st.none()
    | st.builds(
        PartialPolicy,
        cutoff_ms=st.none() | MILLISECONDS,
        wait_ms=st.none() | MILLISECONDS,
        progress=SHARES,
        loss=SHARES,
    ),
    catch_up=st.none()
    | st.builds(
        CatchUpPolicy,
        after_ms=MILLISECONDS,
        threads=st.integers(1, 64),
        priority=st.booleans(),
        reissue=st.booleans(),
    ),
)


@given(
    stages=st.dictionaries(NAMES, STAGE_PLANS, max_size=4),
    budgets=BUDGETS,
    expected=st.none()
    | st.builds(
        Expected,
        before=LADDERS,
        after=LADDERS,
        spent=BUDGETS,
        bounds=st.builds(Intervals, before=BOUNDS, spent=BOUNDS),
    ),
    text=st.text(max_size=9),
)
def test_every_plan_survives_a_round_trip(
    stages: dict[str, StagePlan], budgets: Budgets, expected: Expected | None, text: str
) -> None:
    plan = Plan(
        version=1,
        service=text,
        created=text,
        profile=text,
        budgets=budgets,
        cost=Costs(model=text, stages={name: 1 / (len(stages) + 1) for name in stages}),
        stages=stages,
        expected=expected,
    )
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert again.digest == plan.digest


class TestFit:
    """Whether a plan fits a service."""

    SEARCH = Service.of(
        "search", [Stage(name="lookup", idempotent=True, replicas=2), Stage(name="rank", after=("lookup",))]
    )

    def test_the_example_fits(self) -> None:
        Plan.from_json(EXAMPLE).check(self.SEARCH)

    def test_another_service_is_refused(self) -> None:
        with pytest.raises(InputError, match="service: the plan is for service 'search', not 'other'"):
            Plan.from_json(EXAMPLE).check(Service("other"))

    def test_an_unknown_stage_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match="no stage 'lookup'; it has: rank"):
            Plan.from_json(EXAMPLE).check(Service.of("search", [Stage(name="rank")]))

    def test_a_stage_that_may_not_run_twice_is_refused(self) -> None:
        with pytest.raises(DefinitionError, match=r"stage 'lookup': .*not idempotent"):
            Plan.from_json(EXAMPLE).check(Service.of("search", [Stage(name="lookup", replicas=2)]))

    def test_a_stage_that_gets_nothing_may_be_unknown(self) -> None:
        plan = Plan.from_json(changed("stages", {"search:GET / (own time)": {}}))
        plan.check(self.SEARCH)


def test_a_plan_with_more_stages_than_the_service_is_refused_before_they_are_read() -> None:
    document = json.loads(EXAMPLE)
    service = Service.of("search", [Stage(name="lookup", idempotent=True)])
    for extra, message in ((1, "has 2 stages, and the service 1"), (1000, "a service at most 1000")):
        document["stages"] |= {f"more-{number}": {} for number in range(extra)}
        with pytest.raises(InputError, match=message):
            Plan.from_json(json.dumps(document), where="plan").check(service)
