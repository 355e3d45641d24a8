"""Idempotence of stages: which calls only read and may run twice, by method, name and the spans below.

Traces do not state which calls may run twice. A call counts as a read only where something says that the call
reads; every other call counts as a write. The user can overrule both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final

from kwiken.base.errors import InputError
from kwiken.model.plan import SAFE_METHODS
from kwiken.model.profile.notes import IdempotenceUnknown
from kwiken.model.profile.profile import OWN_TIME, Profile, StageProfile

MAX_NAMES_SHOWN = 8
WRITING_METHODS: Final = frozenset(("PUT", "DELETE", "PATCH"))
# fmt: off
WRITE_WORDS: Final = frozenset(
    {
        "acquire", "add", "append", "assign", "book", "buy", "cancel", "charge", "checkout", "claim",
        "clear", "collect", "confirm", "create", "decr", "decrement", "del", "delete", "deposit", "drop",
        "empty", "enqueue", "execute", "expire", "hdel", "hincrby", "hmset", "hset", "incr", "incrby",
        "increment", "insert", "lease", "lock", "login", "logout", "lpop", "lpush", "mark", "merge",
        "modify", "mset", "mutation", "notify", "pay", "persist", "place", "pop", "produce", "publish",
        "purchase", "push", "put", "refund", "register", "release", "remove", "replace", "reserve",
        "reset", "rpop", "rpush", "sadd", "save", "send", "set", "setex", "setnx", "ship", "srem", "store",
        "submit", "swap", "transfer", "truncate", "unlock", "update", "upload", "upsert", "withdraw",
        "write", "zadd", "zrem"
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
# Words that join a word for reading with another action: GetOrCreate, CheckAndSet, FindThenLock.
JOINING_WORDS: Final = frozenset(("and", "or", "then"))
NO_CHECKS: Final = frozenset(("in", "out"))  # CheckIn, CheckOut
# fmt: on
# `HTTP POST`, `POST`, `POST /cart`, as tracers name spans of HTTP calls.
_HTTP: Final = re.compile(r"^(?:HTTP )?(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH)(?:[: ]|\Z)")
# `/package.Service/Method`, as some tracers name gRPC calls.
_GRPC_PATH: Final = re.compile(r"^/(?=[^/]*\.[^/]*/[^/]+\Z)")
_SQL_COMMENT: Final = re.compile(r"^(?:\s|/\*.*?\*/|--[^\n]*\n)+", re.DOTALL)
# A query that locks rows or fills a table is no read.
_SQL_WRITE: Final = re.compile(
    r"\b(?:for\s+(?:update|share)|into|insert|update|delete|merge)\b", re.IGNORECASE
)
_VARIABLE: Final = re.compile(r"^[{:<*]")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the spans below the calls of a stage say.

    Attributes:
        wrote: name of the most frequent operation that writes; empty where none does.
        read: whether a span reads below at least half of the calls, and none writes below any.
    """

    wrote: str = ""
    read: bool = False


def http_method(operation: str) -> str | None:
    """HTTP method that the name of a span states; None if it states none.

    Args:
        operation: name of a span, such as `HTTP POST` or `GET /cart`.
    """
    found = _HTTP.match(operation)
    return found[1] if found is not None else None


def says_write(operation: str, *, commits: bool = False) -> bool:
    """Whether the name of an operation says that it writes.

    It reads if its last part begins with a word for reading (`findByName`, `SELECT orders`). Otherwise it
    writes if any part has a word for writing (`OrderRepository.save`, `mongo_insert`, `/cart/add`).

    Args:
        commits: whether to count the commit of a transaction.
    """
    if http_method(operation) in WRITING_METHODS:
        return True
    parts = _parts(operation)
    if not parts or _reads(parts[-1]):
        return False
    words = WRITE_WORDS | COMMIT_WORDS if commits else WRITE_WORDS
    return any(word in words for part in parts for word in part)


def says_read(operation: str) -> bool:
    """Whether the name of an operation, other than that of an HTTP call, says that it reads.

    There are four cases:

    1. The name is a path or states an HTTP method: the method decides, not the name.
    2. The last part does not begin with a word for reading: no.
    3. The word for reading is joined with another action (`GetOrCreate`, `findOneAndUpdate`, `CheckIn`,
       `GetSet`), or a query locks rows or fills a table (`SELECT ... FOR UPDATE`): no.
    4. Otherwise yes.
    """
    route = _SQL_COMMENT.sub("", operation)
    if http_method(route) is not None or (route.startswith("/") and not _GRPC_PATH.match(route)):
        return False
    if route[:6].upper() == "SELECT" and _SQL_WRITE.search(route):
        return False
    parts = _parts(route)
    return bool(parts) and _reads(parts[-1])


def _reads(words: Sequence[str]) -> bool:
    """Whether words begin with one for reading that is not joined with another action."""
    if not words or words[0] not in READ_WORDS:
        return False
    follower = words[1] if len(words) > 1 else ""
    if words[0] == "check" and follower in NO_CHECKS:
        return False
    if len(words) == 2 and follower in WRITE_WORDS - {"book", "place", "store"}:  # noqa: PLR2004 - GetSet
        return False
    joined = [(place, after) for place, (word, after) in enumerate(pairwise(words)) if word in JOINING_WORDS]
    return not any(
        after in WRITE_WORDS or (place == 1 and after not in READ_WORDS) for place, after in joined
    )


def _parts(operation: str) -> list[list[str]]:
    """Lower-case words of each part of a name: a segment of a path, or the text between dots or slashes."""
    route = _GRPC_PATH.sub("", _HTTP.sub("", _SQL_COMMENT.sub("", operation)))
    if route.startswith("/"):
        parts = [part for part in route.split("/") if part and not _VARIABLE.match(part)]
    else:
        words = route.replace("/", ".").split(" ")
        # The action is the first word of `SELECT shop.orders`, and the last part of `OrderRepository.save`.
        parts = [words[0]] if len(words) > 1 and words[0].isupper() else route.replace("/", ".").split(".")
        parts = [part for part in parts if part]
    return [[word.lower() for word in _WORD.findall(part)] for part in parts]


def why_write(operation: str, method: str | None, seen: Evidence) -> str:
    """Reason to take a call for a write; empty for a call that is taken for a read.

    A call that nothing is known of is a write. There are seven cases:

    1. A span below the call writes, whatever the method of the call: the name of that span.
    2. The method writes (PUT, DELETE, PATCH): the method.
    3. The method reads (GET, HEAD, OPTIONS): the call is taken for a read.
    4. The name says that the call writes: the name.
    5. The name says that the call reads, and the call is no POST: the call is taken for a read.
    6. Spans below read, and none writes: the call is taken for a read.
    7. Otherwise nothing says that the call reads: the method, or the name.

    Args:
        operation: route or name of the callee's span.
        method: HTTP method of the call; None if it is not known.
        seen: what the spans below the calls say.
    """
    if seen.wrote:
        return seen.wrote
    if method in WRITING_METHODS:
        return str(method)
    if method in SAFE_METHODS:
        return ""
    if says_write(operation, commits=True):
        return operation
    if seen.read or (says_read(operation) and method != "POST"):
        return ""
    return method or operation


def kept_single(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """Profiles in which the stages that match a pattern may not be reissued.

    Args:
        patterns: names of stages, or shell patterns such as `*:write_*`.

    Raises:
        InputError: for a pattern that matches no stage of any profile.
    """
    _check_known(profiles, patterns, "once")
    return tuple(_marked(profile, patterns, reissuable=False) for profile in profiles)


def kept_copyable(profiles: Sequence[Profile], patterns: Collection[str]) -> tuple[Profile, ...]:
    """Profiles in which the stages that match a pattern may be reissued, though they were taken for writes.

    Args:
        patterns: names of stages, or shell patterns such as `*:search`.

    Raises:
        InputError: for a pattern that matches no stage of any profile.
    """
    _check_known(profiles, patterns, "copyable")
    return tuple(_marked(profile, patterns, reissuable=True) for profile in profiles)


def _check_known(profiles: Sequence[Profile], patterns: Collection[str], where: str) -> None:
    names = [stage.name for profile in profiles for stage in profile.stages if not _is_own_time(stage)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(names[:MAX_NAMES_SHOWN]) + (", ..." if len(names) > MAX_NAMES_SHOWN else "")
            raise InputError(f"no stage is named {pattern!r}; there are: {known}", where=where)


def _is_own_time(stage: StageProfile) -> bool:
    return stage.name.endswith(OWN_TIME)


def _marked(profile: Profile, patterns: Collection[str], *, reissuable: bool) -> Profile:
    def meant(stage: StageProfile) -> bool:
        return not _is_own_time(stage) and any(fnmatchcase(stage.name, pattern) for pattern in patterns)

    stages = (replace(stage, reissuable=reissuable) if meant(stage) else stage for stage in profile.stages)
    return replace(profile, stages=tuple(stages))


def taken_for(profile: Profile) -> tuple[list[str], dict[str, str]]:
    """Stages taken for reads, and stages taken for writes with the reason.

    Args:
        profile: profile of a service whose spans do not state which calls may run twice.
    """
    mine = [stage for stage in profile.stages if not _is_own_time(stage)]
    reads = [stage.name for stage in mine if stage.reissuable and not _tells_idempotence(profile, stage)]
    return reads, {stage.name: stage.writes for stage in mine if not stage.reissuable and stage.writes}


def idempotence_notes(profile: Profile, copied: Collection[str]) -> tuple[IdempotenceUnknown, ...]:
    """Note on copies at stages whose idempotence is unknown; empty where there are none.

    Args:
        copied: names of the stages whose calls a plan copies.
    """
    unknown = tuple(s.name for s in profile.stages if s.name in copied and not _tells_idempotence(profile, s))
    return (IdempotenceUnknown(unknown),) if unknown else ()


def _tells_idempotence(profile: Profile, stage: StageProfile) -> bool:
    """Whether the profile records if calls of a stage may run twice, as spans of kwiken's runtime do."""
    return stage.match.service == f"{profile.service}-{stage.name}"
