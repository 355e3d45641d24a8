"""Names of operations: words of reads and words of writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kwiken.model.plan.plan import SAFE_METHODS
from kwiken.model.reads.queries import query_verb, without_comments
from kwiken.model.reads.stores import known_read

WRITING_METHODS: Final = frozenset(("PUT", "DELETE", "PATCH"))
# fmt: off
# Verbs that are hardly ever nouns: wherever one stands in a name, the call may write.
_CHANGES: Final = frozenset(
    {
        "acquire", "add", "append", "assign", "cancel", "clear", "create", "decrement", "delete",
        "drop", "enqueue", "execute", "hdel", "hincrby", "hmset", "hset", "increment", "insert",
        "lpop", "lpush", "merge", "modify", "mset", "mutation", "notify", "persist", "publish", "put",
        "remove", "replace", "reserve", "rpop", "rpush", "sadd", "save", "send", "setex", "setnx",
        "srem", "submit", "swap", "truncate", "unlock", "update", "upsert", "withdraw", "write",
        "zadd", "zrem"
    }
)
# Verbs that change something only in the name of a call: a span below may state them of a cache or a buffer.
_MORE_CHANGES: Final = frozenset(
    {
        "ack", "acknowledge", "activate", "allocate", "approve", "deactivate", "decrease", "dequeue",
        "claim", "disable", "enable", "evict", "invalidate", "lease", "lock", "mutate", "reject",
        "pop", "push", "rename", "revoke", "subtract", "toggle"
    }
)
# Verbs that are nouns as well, which are actions where they are joined: findByIdAndArchive.
_ACTIONS: Final = _MORE_CHANGES | frozenset(
    {
        "accept", "apply", "archive", "ban", "block", "bump", "change", "close", "complete",
        "consume", "decline", "dismiss", "dispatch", "edit", "finish", "flush", "grant", "invite",
        "issue", "log", "move", "open", "patch", "post", "process", "record", "refresh", "restore",
        "retry", "rotate", "run", "schedule", "settle", "start", "stop", "subscribe", "sync", "touch",
        "trigger", "vote"
    }
)
WRITE_WORDS: Final = _CHANGES | frozenset(
    {
        "book", "buy", "charge", "checkout", "claim", "collect", "confirm", "decr", "del", "deposit",
        "empty", "expire", "incr", "incrby", "lease", "lock", "login", "logout", "mark", "pay",
        "place", "pop", "produce", "purchase", "push", "refund", "register", "release", "reset",
        "set", "ship", "store", "transfer", "upload"
    }
)
# Writes in the name of a call itself. In a span below a call they say nothing: reads are committed too.
COMMIT_WORDS: Final = frozenset(("commit",))
READ_WORDS: Final = frozenset(
    {
        "check", "count", "describe", "exists", "fetch", "find", "get", "hget", "hgetall", "hmget", "list",
        "lookup", "mget", "query", "read", "scan", "search", "select", "show", "view", "zrange"
    }
)
_MANY: Final = frozenset(("batch", "multi"))  # BatchGetItem
# Words that join a word for reading with another action: GetOrCreate, CheckAndSet, FindThenLock.
_JOINING: Final = frozenset(("and", "or", "then"))
# What follows "or" where nothing is found, and does nothing: FindOrFail, GetOrDefault.
_HARMLESS: Final = frozenset(("default", "else", "error", "fail", "nil", "none", "null", "raise", "throw"))
_NO_CHECKS: Final = frozenset(("in", "out"))  # CheckIn, CheckOut
_OBJECTS: Final = frozenset(("book", "place", "store"))  # GetBook, GetPlace, GetStore
# What makes something that was not there before: GetNextId, GetNewToken.
_FRESH: Final = frozenset(("fresh", "new", "next"))
# Segments of paths, or their first words, by which a link changes something though it is a GET.
_LINKS: Final = frozenset(
    {
        "cancel", "create", "delete", "execute", "insert", "logout", "remove", "submit",
        "unsubscribe", "withdraw"
    }
)
_NOUNS: Final = frozenset(("claim", "lease", "lock"))
_WHOLE_LINKS: Final = (_LINKS | _CHANGES | _MORE_CHANGES | frozenset(("reset",))) - _NOUNS
# `addToCart`, but not `add-ons`.
_CAMEL: Final = re.compile(r"^[a-z]+[A-Z]")
_STORES: Final = frozenset(
    {
        "cache", "cassandra", "client", "dao", "database", "db", "dynamo", "elastic", "elasticsearch", "etcd",
        "hbase", "jdbc", "mapper", "memcached", "mongo", "mongodb", "mysql", "pg", "postgres", "redis",
        "repository", "sql", "store"
    }
)
# What a client of a store does besides its queries.
_NO_WORK: Final = frozenset(
    {
        "begin", "close", "commit", "connect", "connection", "dns", "ping", "prepare", "rollback",
        "savepoint", "tcp", "tls"
    }
)
# What follows in names of queries, as MyBatis has them.
_SELECTED: Final = frozenset(("all", "by", "count", "list", "maps", "one", "page"))
_COUNTED: Final = frozenset(("all", "by", "distinct", "of"))
# fmt: on
# `HTTP POST`, `POST`, `POST /cart`, as tracers name spans of HTTP calls; `post /cart` in Zipkin.
_HTTP: Final = re.compile(
    r"^(?:HTTP )?(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH)(?:[: ]|\Z)"
    r"|^(?:http )?(get|head|post|put|delete|options|patch) (?=/)"
)
# What takes the next rows of a cursor, or a message off its queue.
_TAKES: Final = re.compile(r"^FETCH(?: |\Z)|^basic\.get\Z")
# Several commands that one span stands for: `GET SET EXPIRE`.
_COMMANDS: Final = re.compile(r"^[A-Z]{2,}(?: [A-Z]{2,})+\Z")
# `/package.Service/Method`, as some tracers name gRPC calls; over HTTP each of them is a POST.
_GRPC_PATH: Final = re.compile(r"^(?:POST )?/(?=[^/]*\.[^/]*/[^/]+\Z)")
_GRPC_POST: Final = re.compile(r"^(?:HTTP )?POST:? (?=/[\w.]*\.[A-Z]\w*/[A-Z]\w*\Z)")
_GRPC_NAME: Final = re.compile(r"^/?[\w.]*\.[A-Z]\w*/[A-Z]\w*\Z")
_GRAPHQL_QUERY: Final = re.compile(r"^query\b(?!\s*:)")
_LETTER: Final = re.compile(r"[^\W\d_]")
_VARIABLE: Final = re.compile(r"^[{:<*]")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def http_method(operation: str) -> str | None:
    """HTTP method that the name of a span states; None if it states none.

    Commands of a store (`GET SET EXPIRE`) and gRPC methods, all of which are posted, state none.

    Args:
        operation: name of a span, such as `HTTP POST` or `GET /cart`.
    """
    found = _HTTP.match(operation)
    if found is None or _COMMANDS.match(operation.removeprefix("HTTP ")) or _GRPC_POST.match(operation):
        return None
    return found[1] or found[2].upper()


def says_write(operation: str, *, commits: bool = False) -> bool:
    """Whether the name of an operation says that it writes.

    A method decides where the name states one, unless a GET is of a path such as `/cart/add`. Else a call
    reads if its last part begins with a word for reading (`findByName`, `SELECT orders`). Otherwise it
    writes if any part has a word for writing (`OrderRepository.save`, `mongo_insert`, `/cart/add`).

    Args:
        commits: whether to count the commit of a transaction.
    """
    method = http_method(operation)
    if method in WRITING_METHODS or method in SAFE_METHODS:
        return method in WRITING_METHODS or path_changes(operation)
    verb = query_verb(operation)
    if verb.startswith("SELECT"):
        return ";" in verb
    known = None if verb else known_read(operation)
    if known is not None and not _COMMANDS.match(operation):
        return not known
    parts = [[verb.lower()]] if verb else _parts(operation)
    if _COMMANDS.match(operation):
        return any(word in WRITE_WORDS for part in parts for word in part)
    if not parts or _reads(parts[-1]):
        return False
    words = WRITE_WORDS | COMMIT_WORDS if commits else WRITE_WORDS
    return any(word in words for part in parts for word in part)


def says_read(operation: str) -> bool:
    """Whether the name of an operation, other than that of an HTTP call, says that it reads.

    There are seven cases:

    1. The name is a path or states an HTTP method: the method decides, not the name.
    2. It is a query in SQL: it reads if it selects, locks nothing and calls no unknown function.
    3. It is several commands of a store: all of them must read.
    4. It is an operation of a store in the table of `STORES`: the table decides.
    5. The last part does not begin with a word for reading, or has letters that are not English: no.
    6. The word for reading is joined with another action (`GetOrCreate`, `ReadModifyWrite`, `CheckIn`,
       `GetSet`), makes something new (`GetNextId`), or is a query of which nothing is known (`pg.query`): no.
    7. Otherwise yes.
    """
    route = _GRPC_POST.sub("", without_comments(operation))
    verb = query_verb(route)
    if verb:
        return verb == "SELECT"
    if _COMMANDS.match(route):
        return all(known_read(command) or command.lower() in READ_WORDS for command in route.split(" "))
    if http_method(route) is not None or (route.startswith("/") and not _GRPC_PATH.match(route)):
        return False
    known = known_read(route)
    if known is not None or any(not letter.isascii() for letter in _LETTER.findall(route)):
        return bool(known)
    parts = _parts(route)
    if not parts or (parts[-1] == ["query"] and route.endswith("query")) or _TAKES.match(route):
        return False
    return _reads(parts[-1])


def reads_a_store(operation: str) -> bool:
    """Whether a name says that it reads, and a word in it names a store: `OrderRepository.findById`."""
    return says_read(operation) and any(word in _STORES for part in _parts(operation) for word in part)


def asks_graphql(operation: str) -> bool:
    """Whether a name is that of a query in GraphQL, which reads though it is posted."""
    return _GRAPHQL_QUERY.match(operation) is not None and says_read(operation)


def names_grpc(operation: str) -> bool:
    """Whether a name is a gRPC method with its package: `package.Service/Method`, as a path or posted."""
    return _GRPC_POST.match(operation) is not None or _GRPC_NAME.match(operation) is not None


def path_changes(operation: str) -> bool:
    """Whether a segment of a path is a verb that changes something: `GET /orders/{id}/cancel`."""
    path = _HTTP.sub("", operation)
    if "/" not in path or _GRPC_PATH.match(path):
        return False
    return any(_segment_changes(segment) for segment in path.split("/"))


def _segment_changes(segment: str) -> bool:
    """Whether a segment of a path is a verb that changes something: `cancel`, `{id}:cancel`, `addToCart`."""
    fixed = segment.rpartition(":")[2] if _VARIABLE.match(segment) else segment
    if _VARIABLE.match(fixed) or fixed.endswith(("}", ">")):
        return False
    words = [word.lower() for word in _WORD.findall(fixed)]
    if not words:
        return False
    known = _WHOLE_LINKS if len(words) == 1 or _CAMEL.match(fixed) else _LINKS
    return words[0] in known


def states_no_work(operation: str) -> bool:
    """Whether a call of a store, by its name, neither reads nor writes: it connects, or begins or ends."""
    words = re.split("[ ._:]", operation.lower())
    return not _NO_WORK.isdisjoint((words[0], words[-1]))


def _reads(words: Sequence[str]) -> bool:
    """Whether words begin with one for reading that is not joined with another action."""
    if len(words) > 1 and words[0] in _MANY:
        words = words[1:]
    if not words or words[0] not in READ_WORDS:
        return False
    rest = words[1:]
    follower = rest[0] if rest else ""
    unlike = (
        (words[0] == "check" and follower in _NO_CHECKS)
        or (words[0] == "select" and bool(rest) and follower not in _SELECTED)
        or (words[0] == "count" and bool(rest) and not _counts(rest))
        or (follower in _FRESH and rest[1:2] != ["page"])
        or follower == "set"
        or (len(rest) == 1 and follower in WRITE_WORDS - _OBJECTS)
        or any(word in _CHANGES or word in _MORE_CHANGES or _is_changing(word) for word in rest)
    )
    return not unlike and not _joined(words)


def _counts(rest: Sequence[str]) -> bool:
    """Whether words behind `count` say what is counted: CountUsers, countByName, but not CountVisit."""
    return rest[0] in _COUNTED or any(_is_plural(word) for word in rest)


def _joined(words: Sequence[str]) -> bool:
    """Whether another action is joined to the one that reads.

    Behind `by` or `with` stand conditions (`findByNameAndStatus`); only words for writing are actions there.
    """
    given = False
    for place, word in enumerate(words[:-1]):
        given |= word in {"by", "with", "where"}
        after = words[place + 1]
        if word not in _JOINING or after in READ_WORDS or after in _HARMLESS:
            continue
        if after in WRITE_WORDS or after in _ACTIONS or not (given or _is_plural(after)):
            return True
    return False


def _is_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _is_changing(word: str) -> bool:
    """Whether a word is the `-ing` of a verb that changes something: ReadUpdating, ListDeleting."""
    stem = word.removesuffix("ing")
    return stem != word and bool({stem, f"{stem}e", stem[:-1]} & _CHANGES)


def _parts(operation: str) -> list[list[str]]:
    """Lower-case words of each part of a name: a segment of a path, or the text between dots or slashes."""
    route = _GRPC_POST.sub("", without_comments(operation))
    route = _GRPC_PATH.sub("", _HTTP.sub("", route)) if not _COMMANDS.match(route) else route
    if route.startswith("/"):
        parts = [part for part in route.split("/") if part and not _VARIABLE.match(part)]
    else:
        words = route.replace("/", ".").split(" ")
        # The action is the first word of `SELECT shop.orders`, and the last part of `OrderRepository.save`.
        verb = len(words) > 1 and words[0].isupper() and not _COMMANDS.match(route)
        parts = [words[0]] if verb else re.split("[./]", route)
        parts = words if _COMMANDS.match(route) else parts
        parts = [part for part in parts if part]
    return [[word.lower() for word in _WORD.findall(part)] for part in parts]
