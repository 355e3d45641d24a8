"""Columnar form of spans: one row a span, with ids as integers and names as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.base.errors import InputError
from kwiken.otel.conventions.facts import (
    CLIENT as IS_CLIENT,
    CONSUMER as IS_CONSUMER,
    PATHS,
    PRODUCER as IS_PRODUCER,
    SERVER as IS_SERVER,
    UNSET,
    WANTED,
    facts_of,
)
from kwiken.otel.conventions.routes import ACTION_KEYS, Route, folded_url, method_that_counts

Rows = NDArray[np.void]
Ints = NDArray[np.signedinteger[Any]]  # of any width that their bounds allow
Ids = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Note = tuple[int | float, ...]

MAX_NAMES: Final = 200_000
MAX_NOTES: Final = 1_000_000
MAX_NAME: Final = 500
UNKNOWN: Final = "unknown_service"  # the SDKs' name of a service without a name

# One span. `op` is the number of service and operation; `own` is the row in `OWN` of one of our own spans, -1
# for others; `kind` is the number of the request class that the span states, -1 for none; `callee` is the
# number of the operation that a client's span calls, -1 for other spans; `share` is the probability with
# which a sampler of others kept the span, NaN if it states none.
SPAN: Final = np.dtype(
    [
        ("hi", "u8"),
        ("lo", "u8"),
        ("span", "u8"),
        ("parent", "u8"),
        ("start", "i8"),
        ("end", "i8"),
        ("op", "i4"),
        ("own", "i4"),
        ("kind", "i4"),
        ("callee", "i4"),
        ("instance", "i4"),  # number of the text that names the instance of the service, `NO_TEXT` for none
        ("traits", "i4"),  # number of the further attributes of a trace's first span, `NO_TEXT` for none
        ("flags", "u1"),
        ("share", "f4"),
    ]
)
# What a span is, without its ids and its times, in a third of the memory: for trees that are built already.
NAMED: Final = np.dtype(
    [(name, SPAN[name]) for name in ("op", "own", "kind", "callee", "instance", "traits", "flags", "share")]
)
ERROR: Final = 1  # the span states that it failed
NEGATIVE: Final = 2  # the span ended before it started; its end is set to its start
FOLLOWS: Final = 4  # the span follows from its parent, which did not wait for it
# Kinds that spans of other tracers than ours state.
SERVER: Final = 8
CLIENT: Final = 16
PRODUCER: Final = 32  # the span sends a message, which is a write
CONSUMER: Final = 64  # the span works off a message, for which nobody waited
UNFINISHED: Final = 128  # the span states no end; its end is set to its start, until it is known from others

# Attributes of our own spans (kw.*); `stage`, `replica`, `node`, `plan` and `service` are numbers of texts.
OWN: Final = np.dtype(
    [
        ("role", "u1"),
        ("kind", "u1"),
        ("outcome", "u1"),
        ("marks", "u1"),
        ("shard", "i4"),
        ("attempt", "i4"),
        ("fanout", "i4"),
        ("threads", "i4"),
        ("service", "i4"),
        ("stage", "i4"),
        ("replica", "i4"),
        ("node", "i4"),
        ("plan", "i4"),
        ("utility", "f8"),
        ("sample_share", "f8"),
        ("busy_ms", "f8"),
        ("worth", "f8"),
    ]
)
REQUEST: Final = 1
STAGE: Final = 2
ATTEMPT: Final = 3
SERVED: Final = 4
CONTROL: Final = 1
PARTIAL: Final = 2
NOT_IDEMPOTENT: Final = 4
CATCH_UP: Final = 8

# Link of a stage (its row in `OWN`) to a span that it comes after.
LINK: Final = np.dtype([("own", "i4"), ("span", "u8")])

# Attributes that say how a server is called, in OpenTelemetry's present and former names.
ADDRESS: Final = (
    "http.request.method",
    "http.method",
    "http.route",
    "server.address",
    "http.host",
    "net.host.name",
    "server.port",
    "net.host.port",
    "rpc.service",
    "rpc.method",
    *ACTION_KEYS,
)
# Attributes that name an instance of a service, the most exact one first; `hostname` is Jaeger's.
INSTANCE: Final = ("k8s.pod.name", "service.instance.id", "container.id", "host.name", "hostname")
# Attributes that name the machine and the zone of an instance.
NODE_KEYS: Final = ("k8s.node.name", "host.name")
ZONE_KEYS: Final = ("cloud.availability_zone", "topology.kubernetes.io/zone", "cloud.zone")
INSTANCE_MARKS: Final = tuple(f'"{key}"'.encode() for key in INSTANCE)
# In a span's own tags `hostname` may be that of the server that it calls.
SPAN_INSTANCE_MARKS: Final = INSTANCE_MARKS[:-1]
NO_TEXT: Final = -1
NO_KIND: Final = -1
OTHER: Final = "(other)"
MAX_KINDS: Final = 1000  # distinct values; further ones are `OTHER`
NO_CALLEE: Final = -1
MAX_TRAITS: Final = 16  # further attributes of a span that are kept
MAX_TRAIT: Final = 100  # characters of an attribute's name, and of its value; longer ones are left out
MAX_PATHS: Final = 50  # different concrete paths of one name; where there are more, they hold identifiers
_MAX_CACHED: Final = 8192
_KIND_FLAGS: Final = {IS_SERVER: SERVER, IS_CLIENT: CLIENT, IS_PRODUCER: PRODUCER, IS_CONSUMER: CONSUMER}
Attributes = Sequence[tuple[str, object]]
Traits = tuple[tuple[str, str], ...]  # names and values of attributes, by name


class SpanFacts(NamedTuple):
    """Facts on a span of another tracer, as numbers.

    Attributes:
        callee: number of the operation that a client's span calls; `NO_CALLEE` for other spans.
    """

    op: int
    callee: int
    flags: int


_PATHS_COUNT: Final = SpanFacts(-1, NO_CALLEE, 0)  # stands for what only the path that was asked for tells


class _Bare(dict[str, SpanFacts]):
    """What the spans of a service say about themselves by their names alone.

    Args:
        new: function of a name that is not known yet.
    """

    __slots__ = ("_new",)

    def __init__(self, new: Callable[[str], SpanFacts]) -> None:
        self._new = new

    def __missing__(self, name: str) -> SpanFacts:
        """Say it of a name that is not known yet."""
        if len(self) >= _MAX_CACHED:
            self.clear()
        found = self[name] = self._new(name)
        return found


def states_instance(raw: bytes, marks: tuple[bytes, ...]) -> bool:
    """True if attributes, undecoded, hold one of the marks, so may state an instance."""
    return any(raw.find(mark) >= 0 for mark in marks)


@dataclass(slots=True)
class Names:
    """Numbers for pairs of service and operation, for other texts, and for the notes that spans share.

    `services` holds, by number of an operation, the number of its service. `notes` are rows of `OWN` without
    busy time and worth: our spans of one stage, shard and replica share them.
    `stated` holds, by number of an operation, those attributes of its first span that are in `ADDRESS`.
    `from_paths` holds, by number of an operation that was named by a concrete path, that of the span's name.
    `methods` holds, by number of an operation, the HTTP methods that any of its spans states.
    `homes` holds, by number of the text that names an instance, its machine and its zone, empty for none.
    `traits` holds attributes of requests that say nothing of routes, outcomes and instances.
    """

    operations: list[tuple[str, str]] = field(default_factory=list)
    services: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    stated: dict[int, Mapping[str, str]] = field(default_factory=dict)
    from_paths: dict[int, int] = field(default_factory=dict)
    methods: dict[int, set[str]] = field(default_factory=dict)
    homes: dict[int, tuple[str, str]] = field(default_factory=dict)
    traits: dict[Traits, int] = field(default_factory=dict)
    _traits_in: dict[bytes, int] = field(default_factory=dict)
    _trait_keys: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    _facts_by_key: dict[object, SpanFacts] = field(default_factory=dict)
    _bare: dict[str, _Bare] = field(default_factory=dict)
    _instances: dict[bytes, int] = field(default_factory=dict)
    _by_kind: dict[str, int] = field(default_factory=dict)
    _by_service: dict[str, dict[str, int]] = field(default_factory=dict)
    _service_numbers: dict[str, int] = field(default_factory=dict)
    _by_text: dict[str, int] = field(default_factory=dict)
    _by_note: dict[Note, int] = field(default_factory=dict)

    def operation(self, service: str, operation: str) -> int:
        """Number of an operation of a service; a new one if it is not known.

        Raises:
            InputError: there are too many operations.
        """
        known = self.of_service(service)
        number = known.get(operation)
        return self.new_operation(service, operation) if number is None else number

    def of_service(self, service: str) -> dict[str, int]:
        """Numbers of a service's operations so far, by their names in the file."""
        known = self._by_service.get(service)
        if known is None:
            if len(self._by_service) >= MAX_NAMES:
                raise InputError(f"there are more than {MAX_NAMES} services")
            known = self._by_service[service] = {}
        return known

    def new_operation(self, service: str, operation: str) -> int:
        """New number for an operation that is not known."""
        if len(self.operations) >= MAX_NAMES:
            raise InputError(
                f"there are more than {MAX_NAMES} operations; an operation's name must not hold identifiers"
            )
        number = len(self.operations)
        name = service[:MAX_NAME]
        self.operations.append((name, operation[:MAX_NAME]))
        self.services.append(self._service_numbers.setdefault(name, len(self._service_numbers)))
        self._by_service[service][operation] = number
        return number

    def full_operations(self) -> tuple[tuple[str, str], ...]:
        """Service and operation at full length, in the order of their numbers."""
        found = [("", "")] * len(self.operations)
        for service, known in self._by_service.items():
            for operation, number in known.items():
                found[number] = service, operation
        return tuple(found)

    def full_texts(self) -> tuple[str, ...]:
        """Other texts at full length, in the order of their numbers."""
        return tuple(self._by_text)

    def span_facts(
        self, service: str, kind: int, status: int, name: str, attributes: Attributes, paths: Attributes
    ) -> SpanFacts:
        """Facts on a span of another tracer.

        Args:
            kind: its kind, as OTLP numbers it.
            status: its status, as OTLP numbers it.
            attributes: those of its attributes that are in `WANTED` of the conventions.
            paths: those that are in `PATHS` of the conventions, which are looked at only if they count.
        """
        key = (service, kind, status, name, len(paths), *attributes)
        known = self._facts_by_key.get(key)
        if known is None:
            if len(self._facts_by_key) >= _MAX_CACHED:
                self._facts_by_key.clear()
            known = self._facts_by_key[key] = self._new(service, kind, status, name, dict(attributes))
            if paths:
                bare = known
                known = self._new(service, kind, status, name, dict((*attributes, *_folded(paths))))
                if known != bare:
                    self._facts_by_key[key] = _PATHS_COUNT
        elif known is _PATHS_COUNT:
            whole = (*attributes, *_folded(paths))
            key = (service, kind, status, name, *whole)
            known = self._facts_by_key.get(key)
            if known is None or known is _PATHS_COUNT:
                known = self._facts_by_key[key] = self._new(service, kind, status, name, dict(whole))
        return known

    def bare(self, service: str) -> Mapping[str, SpanFacts]:
        """What each span of a service without attributes, kind and status says, by its name."""
        known = self._bare.get(service)
        if known is None:
            self.of_service(service)  # refuses too many services
            known = self._bare[service] = _Bare(lambda name: self._new(service, 0, UNSET, name, {}))
        return known

    def _new(
        self, service: str, kind: int, status: int, name: str, attributes: dict[str, object]
    ) -> SpanFacts:
        facts = facts_of(kind, status, name, attributes)
        flags = _KIND_FLAGS.get(facts.kind, 0) | (ERROR if facts.failed else 0)
        callee = NO_CALLEE if facts.callee is None else self._routed(*facts.callee)
        op = self._routed(service, facts.route)
        method = method_that_counts(attributes)
        if method:
            for stated in {op, callee} - {NO_CALLEE}:
                self.methods.setdefault(stated, set()).add(method)
        return SpanFacts(op, callee, flags)

    def _routed(self, service: str, route: Route) -> int:
        op = self.operation(service, route.name)
        if route.instead and op not in self.from_paths:
            self.from_paths[op] = self.operation(service, route.instead)
        return op

    def settled(self) -> Ints:
        """(operations,): number by which each operation counts.

        Operations that were named by a concrete path count by their spans' name where there are more than
        `MAX_PATHS` of one name.
        """
        found = np.arange(len(self.operations))
        if self.from_paths:
            ops = np.array(list(self.from_paths), np.int64)
            names = np.array(list(self.from_paths.values()), np.int64)
            many = np.bincount(names)[names] > MAX_PATHS
            found[ops[many]] = names[many]
            for op, name in zip(ops[many].tolist(), names[many].tolist(), strict=True):
                self.methods.setdefault(name, set()).update(self.methods.get(op, ()))
        return found

    def state(self, ops: Sequence[int], attributes: Callable[[int], Mapping[str, object]]) -> None:
        """Keep what the first span of each operation says of the address of its calls.

        Args:
            ops: numbers of the operations of some spans.
            attributes: attributes of one of these spans, by its index.
        """
        # A difference with the keys would go through all of them for each few spans.
        for op in [op for op in set(ops) if op not in self.stated and op != NO_CALLEE]:
            found = attributes(ops.index(op))
            self.stated[op] = {
                key: str(found[key])[:MAX_NAME] for key in ADDRESS if found.get(key) not in (None, "")
            }

    def text(self, text: str | None) -> int:
        """Number of a text; `NO_TEXT` for None."""
        if text is None:
            return NO_TEXT
        number = self._by_text.get(text)
        if number is None:
            if len(self.texts) >= MAX_NAMES:
                raise InputError(
                    f"there are more than {MAX_NAMES} names of stages, replicas, nodes and plans"
                )
            number = self._by_text[text] = len(self.texts)
            self.texts.append(text[:MAX_NAME])
        return number

    def instance(
        self,
        raw: bytes,
        attributes: Callable[[bytes], Mapping[str, object]],
        marks: tuple[bytes, ...] = INSTANCE_MARKS,
    ) -> int:
        """Number of the text that names the instance of a service; `NO_TEXT` where none is stated.

        Args:
            raw: attributes of the service or of a span, undecoded.
            attributes: decoder from the raw bytes to names and values.
            marks: byte strings of which the raw attributes hold one if they state an instance.
        """
        if not states_instance(raw, marks):
            return NO_TEXT
        known = self._instances.get(raw)
        if known is None:
            if len(self._instances) >= _MAX_CACHED:
                self._instances.clear()
            known = self._instances[raw] = self._instance(attributes(raw))
        return known

    def _instance(self, attributes: Mapping[str, object]) -> int:
        stated = next((attributes[key] for key in INSTANCE if attributes.get(key) not in (None, "")), None)
        if stated is None or len(self.texts) >= MAX_NAMES // 2:  # an instance for each call says nothing
            return NO_TEXT
        number = self.text(str(stated)[:MAX_NAME])
        if number not in self.homes:
            self.homes[number] = _first_of(attributes, NODE_KEYS), _first_of(attributes, ZONE_KEYS)
        return number

    def kind(self, value: str) -> int:
        """Number of a request class; that of `OTHER` once there are too many."""
        value = value[:MAX_NAME] or "(empty)"
        number = self._by_kind.get(value)
        if number is None:
            if len(self.kinds) >= MAX_KINDS - 1 and value != OTHER:
                return self.kind(OTHER)
            number = self._by_kind[value] = len(self.kinds)
            self.kinds.append(value)
        return number

    def traits_of(self, raw: bytes, decode: Callable[[bytes], Mapping[str, object]]) -> int:
        """Number of those attributes of a request that may tell slow requests from fast ones.

        Args:
            raw: attributes of the request, undecoded; many requests state the same ones, or the same keys.
            decode: decoder from the raw bytes to names and values.

        Returns:
            `NO_TEXT` where there are none, and once there are too many different ones.
        """
        number = self._traits_in.get(raw)
        if number is not None:
            return number
        if len(self._traits_in) + len(self._trait_keys) >= _MAX_CACHED:
            self._traits_in.clear()
            self._trait_keys.clear()
        attributes = decode(raw)
        keys = tuple(attributes)
        wanted = self._trait_keys.get(keys)
        if wanted is None:
            wanted = tuple(sorted(key for key in keys if key not in _MEANT and len(key) <= MAX_TRAIT))
            self._trait_keys[keys] = wanted
        stated = ((key, attributes[key]) for key in wanted)
        texts = ((key, str(value)) for key, value in stated if isinstance(value, str | int | float | bool))
        kept = tuple(each for each in texts if len(each[1]) <= MAX_TRAIT)[:MAX_TRAITS] if wanted else ()
        number = self._traits_in[raw] = self.known_traits(kept)
        return number

    def known_traits(self, traits: Traits) -> int:
        """Number of attributes of a request that were chosen before."""
        number = self.traits.get(traits, NO_TEXT)
        if number == NO_TEXT and traits and len(self.traits) < MAX_NAMES:
            number = self.traits[traits] = len(self.traits)
        return number

    def note(self, note: Note) -> int:
        """Number of a note."""
        number = self._by_note.get(note)
        if number is None:
            if len(self.notes) >= MAX_NOTES:
                raise InputError(
                    f"there are more than {MAX_NOTES} kinds of calls (stage, shard, replica, ...)"
                )
            number = self._by_note[note] = len(self.notes)
            self.notes.append(note)
        return number


# Attributes with a meaning of their own, or that follow from how long a request took.
_MEANT: Final = WANTED | PATHS | {*INSTANCE, *NODE_KEYS, *ZONE_KEYS, *ADDRESS}


def _first_of(attributes: Mapping[str, object], keys: Sequence[str]) -> str:
    """First of these attributes that is stated, as a text; empty for none."""
    return next(
        (str(attributes[key])[:MAX_NAME] for key in keys if attributes.get(key) not in (None, "")), ""
    )


def _folded(paths: Attributes) -> list[tuple[str, object]]:
    return [(key, folded_url(value) if isinstance(value, str) else value) for key, value in paths]


@dataclass(slots=True)
class Batch:
    """Parallel lists of spans that are read but not yet converted to columns.

    Times are nanoseconds since 1970. `own` is each span's place in `notes`, `busy_ms` and `worth` (-1 for
    none), which hold the numbers of own spans' notes, their busy times (None or NaN where not measured) and
    worths; `links` are pairs of such a place and the span that it comes after.
    """

    trace_ids: list[str] = field(default_factory=list)
    span_ids: list[str] = field(default_factory=list)
    parent_ids: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    callees: list[int] = field(default_factory=list)
    instances: list[int] = field(default_factory=list)
    traits: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    shares: dict[int, float] = field(default_factory=dict)
    notes: list[int] = field(default_factory=list)
    busy_ms: list[float | None] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.span_ids)

    def columns(self, names: Names) -> tuple[Rows, Rows, Rows]:
        """Rows of `SPAN`, `OWN` and `LINK`."""
        rows = np.empty(len(self), SPAN)
        rows["hi"], rows["lo"] = trace_numbers(self.trace_ids)
        rows["span"] = span_numbers(self.span_ids)
        rows["parent"] = span_numbers(self.parent_ids)
        rows["start"], rows["end"] = self.starts, self.ends
        rows["op"], rows["own"] = self.ops, self.own
        rows["flags"] = np.frombuffer(bytes(self.flags), np.uint8)
        rows["kind"] = self.kinds or NO_KIND
        rows["share"] = np.nan
        rows["share"][list(self.shares)] = list(self.shares.values())
        rows["end"] = np.where(rows["flags"] & UNFINISHED != 0, rows["start"], rows["end"])
        rows["callee"] = self.callees or NO_CALLEE
        rows["instance"] = self.instances or NO_TEXT
        rows["traits"] = self.traits or NO_TEXT
        negative = rows["end"] < rows["start"]
        rows["flags"][negative] |= NEGATIVE
        rows["end"][negative] = rows["start"][negative]
        used, places = np.unique(np.array(self.notes, np.int64), return_inverse=True)
        owns = taken(np.array([(*names.notes[number], 0.0, 0.0) for number in used.tolist()], OWN), places)
        owns["busy_ms"], owns["worth"] = self.busy_ms, self.worth
        links = np.empty(len(self.links), LINK)
        links["own"] = [own for own, _ in self.links]
        links["span"] = span_numbers([span for _, span in self.links])
        return rows, owns, links


def without_ids(spans: Rows, places: Ints | slice = slice(None)) -> Rows:
    """Rows of `NAMED` for the spans at these indices: what they are, without their ids and their times."""
    out = np.empty(len(spans) if isinstance(places, slice) else len(places), NAMED)
    for column in NAMED.names or ():
        out[column] = spans[column][places]
    return out


def taken(rows: Rows, places: Ints) -> Rows:
    """Rows at these indices; indexing does the same field by field, which is thirty times slower."""
    return np.take(rows, places)


def span_numbers(ids: Sequence[str]) -> Ids:
    """Span ids as 64-bit numbers; 0 for an empty id, a hash for an id that is not 16 hex digits or fewer."""
    if not ids:
        return np.empty(0, np.uint64)
    packed = _packed(ids, 16)
    if packed is not None:
        return packed.astype(np.uint64)
    return np.array([_number(text, 16) for text in ids], np.uint64)


def trace_numbers(ids: Sequence[str]) -> tuple[Ids, Ids]:
    """Trace ids as two numbers each, the high and the low 64 bits."""
    if not ids:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    packed = _packed(ids, 32)
    if packed is not None:
        return packed[0::2].astype(np.uint64), packed[1::2].astype(np.uint64)
    numbers = [_number(text, 32) for text in ids]
    low = (1 << 64) - 1
    return np.array([n >> 64 for n in numbers], np.uint64), np.array([n & low for n in numbers], np.uint64)


def _packed(ids: Sequence[str], digits: int) -> NDArray[Any] | None:
    """All ids decoded at once, if each has exactly `digits` hex digits or is empty; else None."""
    packed = _in_step(" ".join(ids), len(ids), digits)
    if packed is not None or "" not in ids:
        return packed
    zero = "0" * digits
    return _in_step(" ".join([text or zero for text in ids]), len(ids), digits)


def _in_step(text: str, count: int, digits: int) -> NDArray[Any] | None:
    """Decode `count` ids of `digits` hex digits each, separated by blanks; None if the text is anything else.

    `bytes.fromhex` skips blanks between bytes, so the number of bytes shows whether an id holds a blank.
    """
    if len(text) != count * (digits + 1) - 1 or text[digits :: digits + 1].strip(" "):
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return np.frombuffer(raw, ">u8") if len(raw) * 2 == count * digits else None


def _number(text: str, digits: int) -> int:
    """Id as a number: hex digits by their value, any other text by its hash."""
    short = same_id(text)
    if len(short) <= digits and short.isalnum() and short.isascii():
        try:
            return int(short, 16)
        except ValueError:
            pass
    if not short:
        return 0
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=digits // 2).digest())


def same_id(text: str) -> str:
    """Form of an id that is the same however it is padded or marked: ids are numbers."""
    return text.lower().removeprefix("0x").lstrip("0")
