"""Route of a span, from its attributes, else from its name.

Names such as `GET` or `HTTP POST` say nothing of what was asked; `http.route` and its like do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kwiken.model.reads.names import http_method, names_grpc
from kwiken.otel.conventions.messaging import DESTINATION_KEYS, destination_of

METHOD_KEYS: Final = ("http.request.method", "http.method")
_ROUTE_KEYS: Final = ("http.route", "url.template")
PATH_KEYS: Final = ("http.target", "http.path", "url.path", "uri", "http.uri", "url.full", "http.url")
_RPC_KEYS: Final = ("rpc.service", "rpc.method")
ACTION_KEYS: Final = ("jsonrpc.method", "rpc.jsonrpc.method", "soap.action", "soap.operation")
DATABASE_KEYS: Final = ("db.system.name", "db.system", "db.type")
UNKNOWN_METHOD: Final = "_OTHER"  # of a call whose method the server does not have
_GRAPHQL_KEYS: Final = ("graphql.operation.type", "graphql.operation.name")
_OPERATION_KEYS: Final = ("messaging.operation", "messaging.operation.type", "messaging.operation.name")
ROUTE_KEYS: Final = (
    *METHOD_KEYS,
    *_ROUTE_KEYS,
    *PATH_KEYS,
    *_RPC_KEYS,
    *ACTION_KEYS,
    *_GRAPHQL_KEYS,
    *_OPERATION_KEYS,
    *DESTINATION_KEYS,
)
MAX_PATH: Final = 200  # characters of a concrete path
_METHOD: Final = re.compile(r"^[A-Z]{3,10}\Z")
# Names that many operations share: a method alone, a wildcard, or what a framework calls every request.
_GENERIC: Final = re.compile(
    r"^(?:HTTP )?(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|QUERY|HTTP|_OTHER)\Z"
    r"|^(?:http|web|server|servlet|aspnet_core|express|rack|wsgi|asgi|django|flask|fastapi)?"
    r"[._ -]?(?:request|handle|handler|server|http|router)?\Z"
    r"|^(?:ingress|egress|middleware|nginx|(?:Microsoft\.AspNetCore\.Hosting|System\.Net\.Http)\.\w+)\Z|\*",
    re.IGNORECASE,
)
# What stands before the path in the name of a span: `GET /item/17`, `http://shop/item/17`.
_BEFORE_PATH: Final = re.compile(r"^(?:HTTP )?(?:[A-Z]{3,8}:? )?(?:https?://[^/\s]+)?(?=/)", re.IGNORECASE)
# Values that stand behind a segment of a path: `/cart;jsessionid=17`.
_MATRIX: Final = re.compile(r";[^/]*")
# A segment of a path that begins with a number, is an address or an identifier, and no version such as `v1`.
_ID: Final = re.compile(
    r"(?<=/)(?![vV][0-9]{1,3}(?:/|\Z))(?:-?[0-9]+(?:[.,:~-][^/]*)?|[^/@]+@[^/]+"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,}"
    r"|(?=(?:[^/0-9]*[0-9]){3})[A-Za-z0-9_=-]{8,}|[A-Za-z]{1,4}[-_]?[0-9]{2,})(?=/|\Z)"
)


class Route(NamedTuple):
    """Name of an operation.

    Attributes:
        instead: name of the span, where the name of the operation was made from a concrete path, whose
            segments may be identifiers; empty where it was not.
    """

    name: str
    instead: str = ""


def route_of(name: str, attributes: Mapping[str, object], *, takes: bool) -> Route:
    """Name of the operation of a span that answers.

    There are six cases:

    1. A GraphQL operation has a name: its type and name.
    2. The span states a route (`http.route`, `url.template`) without a wildcard: the method and the route.
    3. The span states the service and method of an RPC: these.
    4. A consumer states its queue or topic: what it does, and that.
    5. The name of the span is one that many operations share, and the span states the path that was asked
       for: the method, which may be the name, and the path, with `{id}` for numbers and identifiers.
    6. Otherwise the name of the span. So it is in cases 1 to 4 if the name already holds what they say.

    Args:
        takes: whether the span works off a message.
    """
    if not attributes:
        return Route(_with_method(name, http_method(name) or ""))
    method = method_of(attributes)
    graphql = graphql_of(name, attributes)
    route = stated_route(attributes)
    rpc = rpc_of(attributes)
    destination = destination_of(attributes) if takes else ""
    if graphql:
        return Route(graphql)
    if route:
        # The name may hold a longer route, where the router of an application is mounted below a path.
        whole = name.endswith(route) and (route != "/" or name in {"/", f"{method} /"})
        return Route(_with_method(name, method) if whole else f"{method} {route}".strip())
    if rpc:
        return Route(name if name.endswith(rpc.rpartition("/")[2]) and len(name) > len(method) else rpc)
    if destination:
        does = next((_text(attributes, key) for key in _OPERATION_KEYS if _text(attributes, key)), "process")
        return Route(name if destination in name else f"{destination} {does}")
    return of_path(name, attributes)


def of_path(name: str, attributes: Mapping[str, object]) -> Route:
    """Method and path that were asked for, where the name tells no operations apart; else the name."""
    path = folded_path(attributes) if is_generic(name) else ""
    method = method_of(attributes) or http_method(name.upper()) or ""
    return Route(f"{method} {path}".strip(), name) if path else Route(_with_method(name, method))


def _with_method(name: str, method: str) -> str:
    """Name in the form of the stable conventions: `/page` of old ones is `GET /page`."""
    bare = name.removeprefix("HTTP ").removeprefix(method).lstrip()
    known = method and bare.startswith("/") and not names_grpc(bare.lstrip("/")) and not names_grpc(bare)
    return f"{method} {bare}" if known else name


def graphql_of(name: str, attributes: Mapping[str, object]) -> str:
    """Type and name of a GraphQL operation, such as `query GetCart`; empty where the span states none.

    The name of the span is taken where it begins with the type and holds the name.
    """
    kind, operation = (_text(attributes, key) for key in _GRAPHQL_KEYS)
    if not kind and not operation:
        return ""
    if name.startswith(kind or operation) and operation in name:
        return name if operation else f"{kind} (anonymous)"
    return f"{kind} {operation or '(anonymous)'}".strip()


def is_generic(name: str) -> bool:
    """Whether the name of a span is one that many operations share."""
    return _GENERIC.search(name) is not None


def method_of(attributes: Mapping[str, object]) -> str:
    """HTTP method that a span states, in capitals; empty for none."""
    stated = next((_text(attributes, key) for key in METHOD_KEYS if attributes.get(key)), "").upper()
    return stated if _METHOD.match(stated) else ""


def method_that_counts(attributes: Mapping[str, object]) -> str:
    """HTTP method that says whether a call reads; empty for a POST that only carries an RPC or a query.

    All calls of gRPC, Thrift and AWS over HTTP are posted, and searches of a database: their names say more.
    """
    method = method_of(attributes)
    carries = rpc_of(attributes) or any(attributes.get(key) for key in DATABASE_KEYS)
    return "" if method == "POST" and carries else method


def stated_route(attributes: Mapping[str, object]) -> str:
    """Route that a span states; empty for none, or for a wildcard."""
    for key in _ROUTE_KEYS:
        route = _text(attributes, key)
        if "/" in route and "*" not in route:
            return route if route.startswith("/") else f"/{route}"
    return ""


def rpc_of(attributes: Mapping[str, object]) -> str:
    """`SERVICE/METHOD` of a remote procedure call; empty where the span states no method."""
    service, method = (_text(attributes, key) for key in _RPC_KEYS)
    if method == UNKNOWN_METHOD:
        return ""
    if not method:
        actions = (_text(attributes, key).strip('"').rpartition("/")[2] for key in ACTION_KEYS)
        method = next(filter(None, actions), "")
    if not method or "/" in method:
        return method.lstrip("/")
    return f"{service}/{method}" if service else method


def folded_path(attributes: Mapping[str, object]) -> str:
    """Path that was asked for, with `{id}` for numbers and identifiers, without its query; empty for none."""
    stated = next((_text(attributes, key) for key in PATH_KEYS if attributes.get(key)), "")
    if not stated:
        return ""
    try:
        path = urlsplit(folded_url(stated)).path or "/"
    except ValueError:
        return ""
    return path if path.startswith("/") else ""


def folded_name(name: str) -> str:
    """Name of a span, with `{id}` for numbers and identifiers in a path that it holds, without its query."""
    found = _BEFORE_PATH.match(name)
    if found is None or names_grpc(name):
        return name
    path, space, rest = name[found.end() :].partition(" ")
    return f"{found[0]}{folded_url(path)}{space}{rest}"


def folded_url(url: str) -> str:
    """URL or path without its query, with `{id}` for numbers and identifiers in its path."""
    url = _MATRIX.sub("", url.partition("?")[0])[:MAX_PATH]
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _ID.sub("{id}", url)
    host, slash, path = rest.partition("/")
    return scheme + mark + host + _ID.sub("{id}", slash + path)


def _text(attributes: Mapping[str, object], key: str) -> str:
    value = attributes.get(key)
    return "" if value is None else str(value).strip()
