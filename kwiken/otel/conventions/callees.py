"""Callee that a client's span names: its service, and what was asked of it.

Many callees write no spans: databases, services of others, functions. The client's span says whom it called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from kwiken.otel.conventions.routes import (
    ROUTE_KEYS,
    Route,
    folded_path,
    is_generic,
    method_of,
    rpc_of,
    stated_route,
)

MAX_CACHED_TEXT: Final = 1000  # characters
MAX_QUERY: Final = 100  # characters of a query that is no SQL
UNNAMED: Final = "unnamed service"
_URL_KEYS: Final = ("url.full", "http.url")
_HOST_KEYS: Final = (
    "server.address",
    "net.peer.name",
    "http.host",
    "peer.hostname",
    "net.sock.peer.name",
    "out.host",
)
_CLUSTER_KEYS: Final = ("upstream_cluster.name", "upstream_cluster")
_DATABASE_KEYS: Final = ("db.system.name", "db.system", "db.type")
SQL_KEYS: Final = ("db.query.text", "db.statement")
_DOES_KEYS: Final = ("db.operation.name", "db.operation")
_TABLE_KEYS: Final = ("db.collection.name", "db.sql.table", "db.mongodb.collection", "db.cassandra.table")
_OTHER_KEYS: Final = ("faas.invoked_name", "rpc.service", "messaging.system", "peer.address", "rpc.system")
CALLEE_KEYS: Final = (
    "peer.service",
    *_URL_KEYS,
    *_HOST_KEYS,
    *_CLUSTER_KEYS,
    *_DATABASE_KEYS,
    *SQL_KEYS,
    *_DOES_KEYS,
    *_TABLE_KEYS,
    *_OTHER_KEYS,
    *ROUTE_KEYS,
)
# Addresses that say how one replica was reached, not which service answered.
_ONE_REPLICA: Final = re.compile(r"^(?:localhost|[0-9.]+|\[?[0-9a-f]*:[0-9a-f:.]*\]?)\Z", re.IGNORECASE)
_PORT: Final = re.compile(r":[0-9]{1,5}\Z")
_RPC_NAME: Final = re.compile(r"^/?([\w.]+)/\w+\Z")
_TABLE: Final = re.compile(r"\b(?:from|into|update|table)\s+[\"'`\[]?([\w.]+)", re.IGNORECASE)
_LOCKS: Final = re.compile(r"\b(?:for\s+(?:update|share)|into)\b", re.IGNORECASE)
_SQL: Final = re.compile(r"^\W*(select|insert|update|delete|merge|with|call)\b", re.IGNORECASE)


def callee_of(name: str, attributes: Mapping[str, object]) -> tuple[str, Route]:
    """Service that a client's span calls, and the operation there."""
    return _service(name, attributes), _operation(name, attributes)


def _service(name: str, attributes: Mapping[str, object]) -> str:
    """Service, by the first that is there: name, host, a proxy's cluster, kind of database, RPC."""
    named = _first(attributes, ("peer.service",))
    if named:
        return named
    hosts = [*(_first(attributes, (key,)) for key in _HOST_KEYS), _url_host(attributes)]
    for host in hosts:
        bare = _PORT.sub("", host)
        if bare and not _ONE_REPLICA.match(bare):
            return bare
    # Istio names a cluster `outbound|80||pay.shop.svc.cluster.local`.
    cluster = _first(attributes, _CLUSTER_KEYS).rpartition("|")[2]
    rpc = _RPC_NAME.match(name)
    return (
        cluster
        or _first(attributes, _DATABASE_KEYS)
        or _first(attributes, _OTHER_KEYS)
        or (rpc[1] if rpc is not None else "")
        or next((host for host in hosts if host), "")
        or UNNAMED
    )


def _operation(name: str, attributes: Mapping[str, object]) -> Route:
    if not attributes:
        return Route(name)
    if _first(attributes, _DATABASE_KEYS) or _SQL.match(name):
        return Route(_query(name, attributes))
    method = method_of(attributes)
    route, rpc = stated_route(attributes), rpc_of(attributes)
    if route:
        return Route(f"{method} {route}".strip())
    if rpc:
        return Route(name if name.endswith(rpc.rpartition("/")[2]) else rpc)
    path = folded_path(attributes) if is_generic(name) else ""
    return Route(f"{method} {path}".strip(), name) if path else Route(name)


def _query(name: str, attributes: Mapping[str, object]) -> str:
    """Verb and table of a query, without its values; the name of the span where no verb is stated."""
    text = _first(attributes, SQL_KEYS)
    text = text if _SQL.match(text) else name
    found = _SQL.match(text)
    verb = _first(attributes, _DOES_KEYS) or (found[1].upper() if found is not None else "")
    if not verb:
        return name
    table = _first(attributes, _TABLE_KEYS)
    if not table and found is not None:
        there = _TABLE.search(text)
        table = there[1] if there is not None else ""
    if verb.upper() == "SELECT" and _LOCKS.search(text):
        verb = "SELECT FOR UPDATE"
    short = f"{verb} {table}".strip()
    return name if name.upper().startswith(verb.upper()) and len(name) <= len(short) else short


def folded_query(text: str) -> str:
    """Query without its values: its verb, its first table, and whether it locks rows or fills a table."""
    return _cached_query(text) if len(text) <= MAX_CACHED_TEXT else _folded_query(text)


def _folded_query(text: str) -> str:
    found = _SQL.match(text)
    if found is None:
        return text[:MAX_QUERY]
    table = _TABLE.search(text)
    locks = found[1].upper() == "SELECT" and _LOCKS.search(text) is not None
    return f"{found[1].upper()} FROM {table[1] if table is not None else ''}{' FOR UPDATE' if locks else ''}"


_cached_query = lru_cache(maxsize=8192)(_folded_query)


def _url_host(attributes: Mapping[str, object]) -> str:
    try:
        return urlsplit(_first(attributes, _URL_KEYS)).hostname or ""
    except ValueError:
        return ""


def _first(attributes: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Value of the first of these attributes that is there; empty for none."""
    for key in keys:
        value = attributes.get(key)
        if value not in (None, ""):
            return str(value)
    return ""
