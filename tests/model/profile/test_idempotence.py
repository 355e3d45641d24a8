"""Stages that must not be reissued, marked by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, SpanMatch
from kwiken.model.profile.idempotence import Evidence, kept_copyable, kept_single, taken_for, why_write
from kwiken.model.profile.notes import IdempotenceUnknown
from kwiken.model.profile.profile import OWN_TIME, Profile, StageProfile
from kwiken.model.reads.names import http_method, says_read, says_write
from kwiken.model.reads.queries import query_verb
from kwiken.tail.planning.planner import make_plan, study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.support.models.notes import of_kind


def _profile() -> Profile:
    rng = np.random.default_rng(3)
    names = ("user:read", "post:write", "timeline:write_home")
    stages = tuple(
        StageProfile(
            name=name,
            match=SpanMatch(service=name.split(":", maxsplit=1)[0], operation=name.split(":")[1]),
            calls_ms=rng.lognormal(2, 1, (2000, 1)),
            censored=np.zeros((2000, 1), dtype=bool),
        )
        for name in names
    )
    latency = np.max([stage.latency_ms for stage in stages], axis=0)
    return Profile(service="social", stages=stages, latency_ms=latency, started_s=np.arange(2000.0))


@pytest.mark.parametrize(
    ("patterns", "copied"),
    [
        ((), {"user:read", "post:write", "timeline:write_home"}),
        (("post:write",), {"user:read", "timeline:write_home"}),
        (("*:write*",), {"user:read"}),
        (("*",), set()),
    ],
)
def test_named_stages_get_no_copies(patterns: tuple[str, ...], copied: set[str]) -> None:
    (profile,) = kept_single([_profile()], patterns)
    plan = make_plan(profile, budgets=Budgets(reissue=0.2), created="2026-01-01T00:00:00Z")
    assert {name for name, stage in plan.stages.items() if stage.reissue is not None} == copied
    assert (profile.digest == _profile().digest) == (not patterns)


def test_a_pattern_that_is_no_stage_is_refused() -> None:
    with pytest.raises(InputError, match=r"no stage is named 'writes'; there are: user:read, post"):
        kept_single([_profile()], ("writes",))


def test_a_plan_names_copies_of_stages_not_declared_idempotent() -> None:
    profile = _profile()
    own = [replace(s, match=SpanMatch(service=f"social-{s.name}", operation=s.name)) for s in profile.stages]
    for known, warned in ((profile, True), (replace(profile, stages=tuple(own)), False)):
        study = study_plan(known, PlanSettings(budgets=Budgets(reissue=0.2), created="2026-01-01T00:00:00Z"))
        copied = tuple(s.name for s in known.stages if study.plan.stages[s.name].reissue is not None)
        assert "post:write" in copied
        assert of_kind(study.notes, IdempotenceUnknown) == ([IdempotenceUnknown(copied)] if warned else [])


@pytest.mark.parametrize(
    ("operation", "method"),
    [
        ("HTTP POST", "POST"),
        ("GET", "GET"),
        ("PUT /cart/{id}", "PUT"),
        ("post /orders/list", "POST"),
        ("http get /item/{id}", "GET"),
        ("get cart", None),
        ("GETTER", None),
        ("/cart", None),
    ],
)
def test_the_method_in_the_name_of_a_span(operation: str, method: str | None) -> None:
    assert http_method(operation) == method


@pytest.mark.parametrize(
    ("operation", "writes", "reads"),
    [
        ("INSERT ts.orders", True, False),
        ("SELECT ts.updates", False, True),
        ("OrderRepository.save", True, False),
        ("OrderRepository.findById", False, True),
        ("OrderController.createNewOrder", True, False),
        ("OrderController.getTicketListByDate", False, True),
        ("mongo_insert_client", True, False),
        ("/api/v1/cart/add", True, False),
        ("/api/v1/stationfoodservice/stores", False, False),
        ("/api/{save}/list", False, False),
        ("shop.Cart/AddItem", True, False),
        ("<default> send", True, False),
        ("HTTP DELETE", True, False),
        ("GET /store", False, False),
        ("GET /cart/add", True, False),
        ("HTTP POST", False, False),
        ("HTTP GET", False, False),
        ("Transaction.commit", False, False),
        ("demo.CartService/EmptyCart", True, False),
        ("bank.Accounts/Withdraw", True, False),
        ("/demo.CartService/GetCart", False, True),
        ("GetOrCreate", True, False),
        ("checkAndPut", True, False),
        ("findOneAndUpdate", True, False),
        ("FindThenFrobnicate", False, False),
        ("ListAndCount", False, True),
        ("FetchAndAdd", True, False),
        ("GetSet", True, False),
        ("CheckIn", False, False),
        ("CheckStock", False, True),
        ("getTicketListByDateAndTripId", False, True),
        ("/* trace=1 */ SELECT * FROM orders", False, True),
        ("SELECT * FROM jobs FOR UPDATE", False, False),
        ("query GetCart", False, True),
        ("mutation GetCart", True, False),
        ("Frobnicate", False, False),
        ("", False, False),
    ],
)
def test_what_the_name_of_an_operation_says(operation: str, writes: bool, reads: bool) -> None:
    assert (says_write(operation), says_read(operation)) == (writes, reads)


@pytest.mark.parametrize(
    "operation",
    [
        "GetCart", "get_cart", "get-cart", "shop.cart.get", "/shop.Cart/GetCart", "POST /shop.Cart/GetCart",
        "findByFirstNameAndLastName", "FindOrFail", "GetOrDefault", "GetTermsAndConditions", "BatchGetItem",
        "CountUsers", "countByStatus", "getPendingUpdates", "QueryThenFetch", "selectById", "GetNextPage",
        "DynamoDB.Query", "pg.query:SELECT shop", "GET MGET", "SELECT count(*) FROM orders", "find orders",
        "WITH x AS (SELECT 1 FROM y) SELECT * FROM x",
        "WITH a (x, y) AS (SELECT b, c FROM t) SELECT x FROM a WHERE lower(x) IN ('for update', 'z')",
        "SELECT a.t /* delete from t */ FROM a", "SELECT a FROM t; SELECT b FROM u; COMMIT", "SELECT wallets users",
        "SELECT to_char(date_trunc('day', a), 'YYYY'), json_agg(b) FROM t", "SELECT time_bucket('5m', a) FROM t",
    ],
)  # fmt: skip
def test_names_that_say_that_they_read(operation: str) -> None:
    assert says_read(operation)
    assert not says_write(operation)


@pytest.mark.parametrize(
    "operation",
    [
        # a word for reading joined with another action, or as a part of another word
        "GetAndDelete", "get-and-delete", "get.and.delete", "get_then_delete", "FindOrCreate", "CheckAndSet",
        "GetOrCreateCart", "SearchAndReplace", "findOneAndArchive", "findByIdAndArchive", "GetAndTouch",
        "ReadAndAck", "CheckAndMutateRow", "ReadModifyWrite", "Fetch_add", "FetchAddCounter", "GetAccountWithLock",
        "findByIdForUpdate", "GetSetOfKeys", "getCart, clear it", "Get2Delete", "ReadUpdatingView",
        "Checkout", "CheckOut", "Check_in", "Counter", "CountVisit", "Described", "Getaway", "Listen",
        "ListenForUpdates", "Readjust", "getset", "GETDEL", "GETSET", "selectSeat", "select seat",
        # what is new each time
        "GetNextId", "GetNewToken", "get_fresh_token",
        # other languages
        "obtenerYBorrar", "Get删除", "lesenUndÄndern", "получить",
        # queries of which nothing is known, and such as write, lock or call what may do anything
        "pg.query", "query", "query deleteCart", "with lock", "GET SET EXPIRE",
        "FETCH NEXT FROM c", "FETCH", "ListPushBack", "list_left_push", "ListRightPop", "basic.get",
        "SELECT a FROM t; DROP TABLE t", "SELECT a FROM t; EXEC close_day", "SELECT carts UPDATE stock",
        "SELECT to_archive(5) FROM t", "SELECT timeout_sessions()", "SELECT json_import('x')",
        "SELECT * FROM t FOR NO KEY UPDATE", "SELECT * FROM t LOCK IN SHARE MODE", "SELECT * FROM t WITH (UPDLOCK)",
        "SELECT a INTO b FROM c", "SELECT nextval('ids')", "SELECT pg_advisory_lock(1)", "SELECT 1; DELETE FROM x",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "with x as (update t set a = 1) select 1 from x",
    ],
)  # fmt: skip
def test_names_that_do_not_say_that_they_read(operation: str) -> None:
    assert not says_read(operation)
    assert why_write(operation, None, NOTHING)


@pytest.mark.parametrize(
    ("statement", "verb"),
    [
        ("insert into t values (1)", "INSERT"),
        ("/* app='shop' */ DELETE FROM t", "DELETE"),
        ("-- why\nUPDATE t SET a = 1", "UPDATE"),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "DELETE"),
        ("SELECT truncate(a, 1) FROM t", "SELECT truncate()"),
        ("SELECT charge_card(17)", "SELECT charge_card()"),
        ("SELECT * FROM t WHERE note = 'for update'", "SELECT"),
        ("SELECT a FROM t; ALTER TABLE t ADD b int", "SELECT; ALTER"),
        ("SELECT; ALTER FROM t", "SELECT; ALTER"),
        ("SELECT carts CALL close_day", "SELECT; CALL"),
        ("SELECT 1; DROP TABLE t", "SELECT; DROP"),
        ("SELECT FOR UPDATE", "SELECT FOR UPDATE"),
        ("find orders", ""),
        ("", ""),
    ],
)
def test_the_verb_of_a_query(statement: str, verb: str) -> None:
    assert query_verb(statement) == verb


NOTHING, READS = Evidence(), Evidence(read=True)


@pytest.mark.parametrize(
    ("operation", "method", "seen", "why"),
    [
        ("/orders/{id}", "GET", Evidence(wrote="UPDATE orders"), "UPDATE orders"),
        ("/orders", "PUT", READS, "PUT"),
        ("/cart/add", "POST", READS, "/cart/add"),
        ("/cart/add", "GET", NOTHING, "/cart/add"),
        ("GET /orders/{id}/cancel", "GET", NOTHING, "GET /orders/{id}/cancel"),
        ("GET /add-ons", "GET", NOTHING, ""),
        ("GET /updates", "GET", NOTHING, ""),
        ("GET /addToCart", "GET", NOTHING, "GET /addToCart"),
        ("GET /api/sendMail/{id}", "GET", NOTHING, "GET /api/sendMail/{id}"),
        ("/counter/increment", "GET", NOTHING, "/counter/increment"),
        ("GET /seats/{id}/reserve", "GET", NOTHING, "GET /seats/{id}/reserve"),
        ("GET /orders/{id}:cancel", "GET", NOTHING, "GET /orders/{id}:cancel"),
        ("GET /orders/{id:int}", "GET", NOTHING, ""),
        ("GET /orders/<int:update>", "GET", NOTHING, ""),
        ("GET /reset-tokens", "GET", NOTHING, ""),
        ("GET /lease/{id}", "GET", NOTHING, ""),
        ("query GetCart", "POST", NOTHING, ""),
        ("query deleteCart", "POST", NOTHING, "query deleteCart"),
        ("mutation getCart", None, READS, "mutation getCart"),
        ("Transaction.commit", None, NOTHING, "Transaction.commit"),
        ("/search", "POST", READS, ""),
        ("/search", "POST", NOTHING, "POST"),
        ("/search", "GET", NOTHING, ""),
        ("lookup", None, NOTHING, ""),
        ("price", None, NOTHING, "price"),
        ("price", None, READS, ""),
        ("shop.Prices/Get", "POST", NOTHING, "POST"),
    ],
)
def test_why_a_call_is_taken_for_a_write(
    operation: str, method: str | None, seen: Evidence, why: str
) -> None:
    assert why_write(operation, method, seen) == why


def test_a_write_may_be_said_to_be_copyable() -> None:
    profile = _profile()
    first, second, third = profile.stages
    marked = replace(
        profile,
        stages=(
            replace(first, name=f"social{OWN_TIME}", reissuable=False),
            replace(second, reissuable=False, writes="POST"),
            replace(third, reissuable=False, writes="INSERT"),
        ),
    )
    assert taken_for(marked) == ([], {"post:write": "POST", "timeline:write_home": "INSERT"})
    (allowed,) = kept_copyable([marked], ("post:*",))
    assert taken_for(allowed) == (["post:write"], {"timeline:write_home": "INSERT"})
    (every,) = kept_copyable([marked], ("*",))
    assert not every.stages[0].reissuable, "the own time of a request cannot be copied"
    with pytest.raises(InputError, match="copyable: no stage is named 'read'"):
        kept_copyable([marked], ("read",))
