"""Callee of a client's span: the service called, and the operation asked for.

Many callees write no spans: databases, services of others, functions. The client's span says whom it called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from kwiken.model.reads.queries import query_verb
from kwiken.otel.conventions.routes import (
    DATABASE_KEYS,
    ROUTE_KEYS,
    Route,
    graphql_of,
    method_of,
    of_path,
    rpc_of,
    stated_route,
)

MAX_CACHED_TEXT: Final = 1000  # characters
MAX_QUERY: Final = 100  # characters of a query that is no SQL
UNNAMED: Final = "unnamed service"
ISTIO_PARTS: Final = 4  # of a cluster's name: direction, port, subset and host
_URL_KEYS: Final = ("url.full", "http.url")
_HOST_KEYS: Final = (
    "server.address",
    "net.peer.name",
    "http.host",
    "peer.hostname",
    "net.sock.peer.name",
    "out.host",
)
_PORT_KEYS: Final = ("server.port", "net.peer.port", "peer.port", "out.port")
_CLUSTER_KEYS: Final = ("upstream_cluster.name", "upstream_cluster")
SQL_KEYS: Final = ("db.query.text", "db.statement")
_DOES_KEYS: Final = ("db.operation.name", "db.operation")
_TABLE_KEYS: Final = ("db.collection.name", "db.sql.table", "db.mongodb.collection", "db.cassandra.table")
_OTHER_KEYS: Final = ("faas.invoked_name", "rpc.service", "messaging.system", "peer.address", "rpc.system")
_IP_KEYS: Final = ("network.peer.address", "net.sock.peer.addr", "net.peer.ip", "peer.ipv4", "peer.ipv6")
CALLEE_KEYS: Final = (
    "peer.service",
    *_URL_KEYS,
    *_HOST_KEYS,
    *_CLUSTER_KEYS,
    *DATABASE_KEYS,
    *SQL_KEYS,
    *_DOES_KEYS,
    *_TABLE_KEYS,
    *_OTHER_KEYS,
    *_IP_KEYS,
    *ROUTE_KEYS,
)
# Addresses that say how one replica was reached, not which service answered.
_ONE_REPLICA: Final = re.compile(r"^(?:localhost|[0-9.]+|\[?[0-9a-f]*:[0-9a-f:.]*\]?)\Z", re.IGNORECASE)
# `index-0.index.shop`, as Kubernetes names a replica of a stateful set behind the service `index.shop`.
_POD: Final = re.compile(r"^([a-z][a-z0-9-]*)-[0-9]{1,3}\.(?=\1(?:[.-]|\Z))")
_PORT: Final = re.compile(r":[0-9]{1,5}\Z")
_RPC_NAME: Final = re.compile(r"^/?([\w.]+)/\w+\Z")
_BETWEEN: Final = re.compile("[;\\n]")
_COMMAND: Final = re.compile(r"\s*([A-Z][A-Z0-9._]+)(?:\s|\Z)")
_TABLE: Final = re.compile(r"\b(?:from|into|update|table)\s+[\"'`\[]?([\w.]+)", re.IGNORECASE)


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
        bare = _POD.sub("", _PORT.sub("", host))
        if bare and not _ONE_REPLICA.match(bare):
            return bare
    # Istio names a cluster `outbound|80||pay.shop.svc.cluster.local`.
    cluster = _first(attributes, _CLUSTER_KEYS).rpartition("|")[2]
    rpc = _RPC_NAME.match(name)
    return (
        cluster
        or _first(attributes, DATABASE_KEYS)
        or _first(attributes, _OTHER_KEYS)
        or (rpc[1] if rpc is not None else "")
        or next((host for host in hosts if host), "")
        or _first(attributes, _IP_KEYS)
        or UNNAMED
    )


def _operation(name: str, attributes: Mapping[str, object]) -> Route:
    if not attributes:
        return Route(name)
    if _first(attributes, DATABASE_KEYS) or query_verb(name):
        return Route(_query(name, attributes))
    graphql = graphql_of(name, attributes)
    if graphql:
        return Route(graphql)
    method = method_of(attributes)
    route, rpc = stated_route(attributes), rpc_of(attributes)
    if route:
        return Route(f"{method} {route}".strip())
    if rpc:
        return Route(name if name.endswith(rpc.rpartition("/")[2]) else rpc)
    return of_path(name, attributes)


def _query(name: str, attributes: Mapping[str, object]) -> str:
    """Verb and table of a query, without its values; the name of the span where no verb is stated.

    Where a query has several commands of a store, all of them count: `GET SET`.
    """
    text = _first(attributes, SQL_KEYS)
    stated = query_verb(text, stated=True)
    several = [] if stated else _commands(text)
    if len(several) > 1:
        return " ".join(several)
    text, asked = (text, stated) if stated else (name, query_verb(name))
    verb = asked or _first(attributes, _DOES_KEYS)
    if not verb:
        return name
    there = _TABLE.search(text) if asked else None
    table = _first(attributes, _TABLE_KEYS) or (there[1] if there is not None else "")
    short = f"{verb} {table}".strip()
    return name if name.upper().startswith(verb.upper()) and len(name) <= len(short) else short


def folded_query(text: str) -> str:
    """Query without its values: what it does, and its first table."""
    return _cached_query(text) if len(text) <= MAX_CACHED_TEXT else _folded_query(text)


def _folded_query(text: str) -> str:
    verb = query_verb(text, stated=True)
    if not verb:
        several = _commands(text)
        return ";".join(several)[:MAX_QUERY] if len(several) > 1 else text[:MAX_QUERY]
    table = _TABLE.search(text)
    return f"{verb} FROM {table[1] if table is not None else ''}"


def _commands(text: str) -> list[str]:
    """Different commands of a store, a line each or behind semicolons; empty for another text."""
    found = [_COMMAND.match(line) for line in _BETWEEN.split(text) if line.strip()]
    return list(dict.fromkeys(each[1] for each in found if each is not None)) if found and found[0] else []


_cached_query = lru_cache(maxsize=8192)(_folded_query)


def with_address(attributes: Mapping[str, object]) -> Mapping[str, object]:
    """Attributes of a client's span with `server.address` and `server.port`, if any of them says these."""
    host, port = _first(attributes, _HOST_KEYS), _first(attributes, _PORT_KEYS)
    there, its_port = _url_address(attributes)
    if there and host in {"", there}:
        host, port = there, port or its_port
    if not host:  # Istio names a cluster `outbound|8080||pay.shop.svc.cluster.local`
        parts = _first(attributes, _CLUSTER_KEYS).split("|")
        host, port = (parts[-1], parts[1]) if len(parts) == ISTIO_PARTS else (host, port)
    stated = {"server.address": host, "server.port": port}
    return {**attributes, **{key: value for key, value in stated.items() if value}}


def _url_host(attributes: Mapping[str, object]) -> str:
    return _url_address(attributes)[0]


def _url_address(attributes: Mapping[str, object]) -> tuple[str, str]:
    """Host and port of the URL that was asked for; empty for what it does not state."""
    try:
        url = urlsplit(_first(attributes, _URL_KEYS))
        return url.hostname or "", str(url.port or "")
    except ValueError:
        return "", ""


def _first(attributes: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Value of the first of these attributes that is there; empty for none."""
    for key in keys:
        value = attributes.get(key)
        if value not in (None, ""):
            return str(value)
    return ""
