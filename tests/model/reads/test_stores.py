"""Reads and writes of stores: every row of the table, statements of SQL, and what the documents say."""

from __future__ import annotations

import pytest

from kwiken.model.profile.idempotence import Evidence, why_write
from kwiken.model.reads.names import http_method
from kwiken.model.reads.stores import STORES
from kwiken.otel.conventions.facts import CLIENT, CONSUMER, PRODUCER, UNSET, facts_of
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field_data import field_file
from tests.support.project.stores_page import PAGE, page

UNKNOWN = Evidence(wrote="", read=False)
SQL_READS = (
    "SELECT * FROM t WHERE id = ?",
    "select count(*) from orders",
    "WITH a AS (SELECT 1 FROM b) SELECT * FROM a",
    "SELECT CURRVAL('s')",
    "SELECT last_insert_id()",
    "SELECT version()",
    "SELECT nextvalue, next FROM t WHERE value = 1",
    "SELECT 'next value for ids' FROM t",
    "SELECT * FROM sequences",
)
SQL_WRITES = (
    "SELECT NEXT VALUE FOR ids",
    "select next value for hibernate_sequence",
    "SELECT NEXT   VALUE\nFOR dbo.ids",
    "SELECT ids.NEXTVAL FROM dual",
    "select orders_seq.nextval",
    'SELECT "S"."ORDERS_SEQ".NEXTVAL FROM DUAL',
    "SELECT ids.[nextval] FROM dual",
    "SELECT NEXTVAL FOR ids FROM SYSIBM.SYSDUMMY1",
    "SELECT PREVIOUS VALUE FOR ids, NEXT VALUE FOR ids",
    "VALUES NEXT VALUE FOR ids",
    "select nextval('ids')",
    "SELECT setval('s', 1)",
    "SELECT GEN_ID(g, 1) FROM RDB$DATABASE",
    "call next value for ids",
    "select pay_out($1)",
    "SELECT pg_advisory_lock(1)",
    "SELECT GET_LOCK('a', 10)",
    "SELECT * FROM t FOR UPDATE SKIP LOCKED",
    "SELECT * FROM t WITH (UPDLOCK, READPAST)",
    "SELECT * INTO t2 FROM t1",
    "EXPLAIN ANALYZE DELETE FROM t",
    "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
    "SELECT * FROM pgmq.read('q', 30, 1)",
    "COPY t FROM STDIN",
    "SELECT pg_notify('a', 'b')",
    *("INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "MERGE INTO t USING s ON 1 = 1"),
    *("REPLACE INTO t VALUES (1)", "TRUNCATE TABLE t", "CALL p()", "EXEC p", "DROP TABLE t"),
)
# How clients' spans of each store state the operation.
STATED: dict[str, dict[str, str]] = {
    "Redis and Valkey": {"db.system.name": "redis", "db.operation.name": "{}", "db.query.text": "{} ?"},
    "Memcached": {"db.system": "memcached", "db.operation": "{}"},
    "MongoDB": {"db.system": "mongodb", "db.operation": "{}", "db.mongodb.collection": "orders"},
    "Elasticsearch and OpenSearch": {
        "db.system.name": "elasticsearch",
        "db.operation.name": "{}",
        "http.request.method": "POST",
    },
    "DynamoDB": {
        "rpc.system": "aws-api",
        "rpc.service": "DynamoDB",
        "rpc.method": "{}",
        "db.system": "dynamodb",
        "http.request.method": "POST",
    },
    "Amazon S3": {"rpc.system": "aws-api", "rpc.service": "S3", "rpc.method": "{}"},
    "Other services of AWS": {"rpc.system": "aws-api", "rpc.service": "AWS", "rpc.method": "{}"},
}


def copied(name: str, attributes: dict[str, str]) -> bool:
    """Whether copies of a call may be sent, of which the client's span alone is known."""
    facts = facts_of(CLIENT, UNSET, name, attributes)
    if facts.kind in {CONSUMER, PRODUCER}:
        return False
    assert facts.callee is not None
    operation = facts.callee[1].name
    return not why_write(operation, http_method(operation), UNKNOWN)


def stated(store: str, name: str) -> dict[str, str]:
    return {key: text.format(name) for key, text in STATED.get(store, {}).items()}


@pytest.mark.parametrize("store", STORES)
def test_every_operation_of_a_row_is_taken_for_what_the_row_says(store: str) -> None:
    prefix = {"DynamoDB": "DynamoDB.", "Amazon S3": "S3.", "Google Cloud": "google.cloud.v1."}.get(store, "")
    for reads, names in ((True, STORES[store].reads), (False, STORES[store].writes)):
        for name in names:
            assert copied(f"{prefix}{name}", stated(store, name)) == reads, name
            assert copied(name, {}) <= reads, f"a name alone is never more sure: {name}"


@pytest.mark.parametrize("statement", SQL_READS)
def test_statements_that_read(statement: str) -> None:
    assert copied("query shop", {"db.system": "postgresql", "db.statement": statement})


@pytest.mark.parametrize("name", ["SELECT shop", "query shop"])
@pytest.mark.parametrize("statement", SQL_WRITES)
def test_statements_that_change_something_are_never_copied(statement: str, name: str) -> None:
    assert not copied(name, {"db.system": "postgresql", "db.statement": statement})


def test_an_operation_has_one_row() -> None:
    for store in STORES.values():
        assert not set(store.reads) & set(store.writes)


def test_names_of_other_services_are_not_taken_for_those_of_stores() -> None:
    for name in ("Payments/Verify", "Vault.Decrypt", "Signer/Verify", "TIMER tick", "KEYSTORE rotate"):
        assert not copied(name, {}), name


def test_the_page_holds_the_table() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.support.project.stores_page"


def test_the_case_of_stores() -> None:
    profile = fit_profile([field_file("G11")])
    copyable = {stage.name for stage in profile.stages if stage.reissuable}
    assert copyable == {"elasticsearch:search", "postgresql5:SELECT orders"}
