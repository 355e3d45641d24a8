"""JSON codec of profiles, version 1: strict, with bounded sizes, exact to the microsecond."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import parents_first
from kwiken.model.plan.plan import MAX_THREADS, SpanMatch
from kwiken.model.profile.profile import (
    WORTH_DIGITS,
    CopyDependence,
    Instance,
    Origin,
    Profile,
    StageProfile,
    to_microseconds,
)
from kwiken.model.service.service import MAX_STAGES
from kwiken.model.service.stage import MAX_FANOUT, MAX_MS, MAX_REPLICAS

VERSION = 1
MAX_BYTES = 1 << 29
MAX_REQUESTS = 10_000_000
MAX_CELLS = 20_000_000  # calls over all stages: each takes about 32 bytes while it is read
MAX_NAME = 1000
MAX_COUNTS = 1000
MAX_COUNT = 10**15
MAX_PAIRS = 1_000_000
MAX_CLASSES = 1000
MAX_LINKS = 10_000  # between two services each
MAX_INSTANCES = 1000
MAX_VARIATION = 1e6
MAX_WORTH = 1e9
PLAN_FIELDS = {"budgets", "profile"}  # top-level fields by which a plan is recognised
TRACE_FIELDS = {"data", "resourceSpans"}  # top-level fields of Jaeger JSON, and of OTLP JSON
MAX_SECONDS = 1e12  # since 1970, of a request's start
_BYTE = re.compile(r"\(byte (\d+)\)")
_NO_NUMBER = re.compile(rb"(?i)nan\b|inf(inity)?\b")
_BY_REQUEST = ("latency_ms", "started_s", "calls_ms", "worth", "lag_ms")  # lists with one value per request
MAX_CUT_CODE = 3  # 0: both ended; 1: the call was cancelled; 2: the copy was; 3: both were


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class _Stage(_Struct, frozen=True):
    """Stage of a profile document; the lists of calls hold one list per shard.

    In `calls_ms` null means no call, in `worth` not known; `censored` holds indices of requests, and `asked`
    indices in `replica_names`, -1 for not known. `pairs` holds both latencies of calls and their copies, and
    a code for which was cancelled (see `MAX_CUT_CODE`); `guesses` late calls and the estimated latencies of
    their copies.
    """

    name: str
    match: SpanMatch
    calls_ms: list[list[float | None]]
    after: list[str] = []
    censored: list[list[int]] = []
    busy_ms: float | None = None
    busy_variation: float | None = None
    replicas: int | None = None
    reissuable: bool = True
    writes: str = ""
    pairs: list[tuple[float, float, int]] = []
    guesses: list[tuple[float, float]] = []
    worth: list[list[float | None]] = []
    threads: int = 1
    asked: list[list[int]] = []
    replica_names: list[str] = []
    lag_ms: list[list[float]] = []
    dependence: CopyDependence | None = None


class _Profile(_Struct, frozen=True):
    version: int
    service: str
    latency_ms: list[float]
    started_s: list[float]
    stages: list[_Stage]
    counts: dict[str, int] = {}
    classes: list[int] = []
    class_names: list[str] = []
    origin: Origin | None = None
    service_names: list[str] = []
    service_ms: list[list[float]] = []  # a list for each service
    link_names: list[tuple[str, str]] = []
    link_ms: list[list[float]] = []  # a list for each link
    instances: list[Instance] = []


def profile_to_json(profile: Profile) -> str:
    """Encode a profile as JSON that `profile_from_json` reads; times are rounded to a microsecond.

    Raises:
        InputError: for a profile that could not be read back; names the stage and the field.
    """
    stages = [_encode_stage(stage) for stage in profile.stages]
    document = _Profile(
        version=VERSION,
        service=profile.service,
        latency_ms=to_microseconds(profile.latency_ms).tolist(),
        started_s=np.round(profile.started_s, 6).tolist(),
        stages=stages,
        counts=dict(profile.counts),
        classes=[] if profile.classes is None else profile.classes.tolist(),
        class_names=list(profile.class_names),
        origin=profile.origin,
        service_names=list(profile.service_names),
        service_ms=to_microseconds(profile.service_ms).T.tolist() if profile.service_ms is not None else [],
        link_names=list(profile.link_names),
        link_ms=to_microseconds(profile.link_ms).T.tolist() if profile.link_ms is not None else [],
        instances=list(profile.instances),
    )
    _check(document, where="profile")
    return msgspec.json.encode(document).decode()


def _encode_stage(stage: StageProfile) -> _Stage:
    cut = [np.flatnonzero(column).tolist() for column in stage.censored.T]
    return _Stage(
        name=stage.name,
        match=stage.match,
        calls_ms=_columns(to_microseconds(stage.calls_ms)),
        after=list(stage.after),
        censored=cut if any(cut) else [],
        busy_ms=stage.busy_ms,
        busy_variation=stage.busy_variation,
        replicas=stage.replicas,
        reissuable=stage.reissuable,
        writes=stage.writes,
        pairs=_encode_pairs(stage),
        guesses=[]
        if stage.guesses_ms is None
        else [(a, b) for a, b in to_microseconds(stage.guesses_ms).tolist()],
        worth=_columns(np.round(stage.worth, WORTH_DIGITS)) if stage.worth is not None else [],
        threads=stage.threads,
        asked=stage.asked.T.tolist() if stage.asked is not None else [],
        replica_names=list(stage.replica_names),
        lag_ms=to_microseconds(stage.lag_ms).T.tolist() if stage.lag_ms is not None else [],
        dependence=stage.dependence,
    )


def _columns(matrix: Floats) -> list[list[float | None]]:
    """One list per column, with None for NaN."""
    return [
        [None if value != value else value for value in column]  # noqa: PLR0124 - only NaN differs from itself
        for column in matrix.T.tolist()
    ]


def _encode_pairs(stage: StageProfile) -> list[tuple[float, float, int]]:
    if stage.pairs_ms is None or stage.pairs_cut is None:
        return []
    codes = (stage.pairs_cut @ np.array([1, 2])).tolist()
    rounded = to_microseconds(stage.pairs_ms).tolist()
    return [(call, copy, code) for (call, copy), code in zip(rounded, codes, strict=True)]


def profile_from_json(text: str | bytes, *, where: str = "profile") -> Profile:
    """Decode a profile from JSON.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: when the text is not a valid profile of version 1; names the stage and the field.
    """
    if len(text) > MAX_BYTES:
        raise InputError(f"is longer than {MAX_BYTES} bytes", where=where)
    try:
        document = msgspec.json.decode(text, type=_Profile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        told = _other_document(text) or _no_number(text, error) or str(error)
        raise InputError(told, where=where) from error
    _check(document, where=where)
    stages = [_decode_stage(stage, len(document.latency_ms)) for stage in document.stages]
    try:
        order = parents_first(stages)
    except InputError as error:
        raise InputError(str(error), where=where) from error
    return Profile(
        service=document.service,
        stages=tuple(stages[i] for i in order),
        latency_ms=np.asarray(document.latency_ms, dtype=float),
        started_s=np.asarray(document.started_s, dtype=float),
        counts=document.counts,
        classes=np.asarray(document.classes, dtype=np.int64) if document.class_names else None,
        class_names=tuple(document.class_names),
        origin=document.origin,
        service_names=tuple(document.service_names),
        service_ms=np.ascontiguousarray(np.asarray(document.service_ms, dtype=float).T)
        if document.service_names
        else None,
        link_names=tuple(document.link_names),
        link_ms=np.ascontiguousarray(np.asarray(document.link_ms, dtype=float).T)
        if document.link_names
        else None,
        instances=tuple(document.instances),
    )


def _other_document(text: str | bytes) -> str | None:
    """Message for a document that is no profile at all but a plan or traces; None for any other."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if fields >= PLAN_FIELDS:
        return "is a plan, and a profile is needed: the one that the plan was made from, or a later one"
    return "holds traces, and a profile is needed; fit makes one of them" if fields & TRACE_FIELDS else None


def _no_number(text: str | bytes, error: Exception) -> str | None:
    """Message for NaN or infinity in the text, which JSON does not have; None for other errors."""
    place = _BYTE.search(str(error))
    if place is None:
        return None
    data = text.encode() if isinstance(text, str) else text
    at = int(place[1])
    found = _NO_NUMBER.match(data, at)
    if found is None:
        return None
    start = data.rfind(b'":', 0, at)
    field = data[data.rfind(b'"', 0, max(0, start)) + 1 : max(0, start)].decode(errors="replace")[:MAX_NAME]
    row = data.count(b",", data.rfind(b"[", 0, at), at)
    request = f", request {row}" if field in _BY_REQUEST else ""
    line = data.count(b"\n", 0, at) + 1
    return f"{field}{request}: {found[0].decode()} is not a number in JSON (line {line}, byte {at})"


def _decode_stage(stage: _Stage, requests: int) -> StageProfile:
    calls = _array(stage.calls_ms, requests)
    censored = np.zeros(calls.shape, dtype=np.bool_)
    for shard, rows in enumerate(stage.censored):
        censored[rows, shard] = True
    return StageProfile(
        name=stage.name,
        after=tuple(stage.after),
        match=stage.match,
        calls_ms=calls,
        censored=censored,
        busy_ms=stage.busy_ms,
        busy_variation=stage.busy_variation,
        replicas=stage.replicas,
        reissuable=stage.reissuable,
        writes=stage.writes,
        guesses_ms=np.array(stage.guesses) if stage.guesses else None,
        pairs_ms=np.array([pair[:2] for pair in stage.pairs]) if stage.pairs else None,
        pairs_cut=np.array([[pair[2] & 1, pair[2] & 2] for pair in stage.pairs]) > 0 if stage.pairs else None,
        worth=_array(stage.worth, requests) if stage.worth else None,
        threads=stage.threads,
        dependence=stage.dependence,
        asked=np.ascontiguousarray(np.array(stage.asked, dtype=np.int16).T) if stage.asked else None,
        replica_names=tuple(stage.replica_names),
        lag_ms=np.ascontiguousarray(np.array(stage.lag_ms, dtype=float).T) if stage.lag_ms else None,
    )


def _array(columns: list[list[float | None]], requests: int) -> Floats:
    flat: NDArray[np.float64] = np.fromiter(
        (np.nan if value is None else value for value in chain.from_iterable(columns)),
        dtype=float,
        count=requests * len(columns),
    )
    return np.ascontiguousarray(flat.reshape(len(columns), requests).T)


def _check(document: _Profile, *, where: str) -> None:
    """Check sizes, ranges and references of a document.

    Raises:
        InputError: for the first problem; names the stage and the field.
    """
    for problem in chain(_problems(document), _time_problems(document.latency_ms, "latency_ms")):
        raise InputError(problem, where=where)
    for stage in document.stages:
        requests = len(document.latency_ms)
        for problem in chain(
            _stage_problems(stage, requests),
            _cut_problems(stage),
            _pair_problems(stage),
            _worth_problems(stage, requests),
            _replica_problems(stage, requests),
            _lag_problems(stage, requests),
        ):
            raise InputError(f"stage {stage.name[:MAX_NAME]!r}: {problem}", where=where)


def _problems(document: _Profile) -> Iterator[str]:
    requests = len(document.latency_ms)
    if document.version != VERSION:
        yield f"version must be {VERSION}, not {document.version}"
    if not 0 < len(document.service) <= MAX_NAME:
        yield f"service must be a name of at most {MAX_NAME} characters"
    if not 0 < len(document.stages) <= MAX_STAGES:
        yield f"stages must be from 1 to {MAX_STAGES}, not {len(document.stages)}"
    if requests > MAX_REQUESTS:
        yield f"latency_ms has more than {MAX_REQUESTS} requests"
    if len(document.started_s) != requests:
        yield f"started_s has {len(document.started_s)} requests, and latency_ms has {requests}"
    if not (np.abs(np.asarray(document.started_s, dtype=float)) <= MAX_SECONDS).all():
        yield f"started_s must be numbers of seconds since 1970, at most {MAX_SECONDS:g}"
    if sum(len(stage.calls_ms) for stage in document.stages) * requests > MAX_CELLS:
        yield f"calls_ms has more than {MAX_CELLS} calls over all stages"
    yield from _class_problems(document)
    yield from _service_problems(document)
    yield from _link_problems(document)
    yield from _instance_problems(document)
    if len(document.counts) > MAX_COUNTS or not all(0 <= n <= MAX_COUNT for n in document.counts.values()):
        yield f"counts must be at most {MAX_COUNTS} numbers from 0 to {MAX_COUNT}"


def _class_problems(document: _Profile) -> Iterator[str]:
    names = document.class_names
    if len(names) > MAX_CLASSES or any(not 0 < len(name) <= MAX_NAME for name in names):
        yield f"class_names must be at most {MAX_CLASSES} names of 1 to {MAX_NAME} characters"
    elif len(set(names)) < len(names):
        yield "class_names has a name twice"
    elif len(document.classes) != (len(document.latency_ms) if names else 0):
        yield f"classes has {len(document.classes)} requests, and latency_ms has {len(document.latency_ms)}"
    elif any(not 0 <= number < len(names) for number in document.classes):
        yield f"classes must be numbers of class_names, from 0 to {len(names) - 1}"


def _service_problems(document: _Profile) -> Iterator[str]:
    names = document.service_names
    if len(names) > MAX_STAGES or any(not 0 < len(name) <= MAX_NAME for name in names):
        yield f"service_names must be at most {MAX_STAGES} names of 1 to {MAX_NAME} characters"
    elif len(set(names)) < len(names):
        yield "service_names has a name twice"
    elif len(document.service_ms) != len(names):
        yield f"service_ms has {len(document.service_ms)} services, and service_names has {len(names)}"
    elif len(names) * len(document.latency_ms) > MAX_CELLS:
        yield f"service_ms has more than {MAX_CELLS} times over all services"
    for name, column in zip(names, document.service_ms, strict=False):
        yield from _length_problems(column, len(document.latency_ms), f"service_ms of {name[:MAX_NAME]!r}")
        yield from _time_problems(column, f"service_ms of {name[:MAX_NAME]!r}")


def _link_problems(document: _Profile) -> Iterator[str]:
    names = document.link_names
    if len(names) > MAX_LINKS or any(not 0 < len(name) <= MAX_NAME for pair in names for name in pair):
        yield f"link_names must be at most {MAX_LINKS} pairs of names of 1 to {MAX_NAME} characters"
    elif len(set(names)) < len(names):
        yield "link_names has a pair twice"
    elif len(document.link_ms) != len(names):
        yield f"link_ms has {len(document.link_ms)} links, and link_names has {len(names)}"
    elif len(names) * len(document.latency_ms) > MAX_CELLS:
        yield f"link_ms has more than {MAX_CELLS} times over all links"
    for (caller, callee), column in zip(names, document.link_ms, strict=False):
        link = f"link_ms of {caller[:MAX_NAME]!r} and {callee[:MAX_NAME]!r}"
        yield from _length_problems(column, len(document.latency_ms), link)
        yield from _time_problems(column, link)


def _instance_problems(document: _Profile) -> Iterator[str]:
    if len(document.instances) > MAX_INSTANCES:
        yield f"instances must be at most {MAX_INSTANCES}"
    for number, each in enumerate(document.instances):
        where = f"instances, entry {number}"
        if not all(0 < len(name) <= MAX_NAME for name in (each.service, each.name)):
            yield f"{where}: service and name must have from 1 to {MAX_NAME} characters"
        if not all(1 <= count <= MAX_COUNT for count in (each.calls, each.others, each.other_calls)):
            yield f"{where}: calls, others and other_calls must be numbers from 1 to {MAX_COUNT}"
        ratios = (each.times, each.slow_times, each.typical_ms, each.extra)
        if not all(0 <= value <= MAX_WORTH for value in ratios):
            yield f"{where}: times, slow_times, typical_ms and extra must be numbers from 0 to {MAX_WORTH:g}"
        if not all(0 <= share <= 1 for share in (each.above_median, each.above_slow)):
            yield f"{where}: above_median and above_slow must be shares from 0 to 1"


def _stage_problems(stage: _Stage, requests: int) -> Iterator[str]:
    if not 0 < len(stage.name) <= MAX_NAME:
        yield f"name must have from 1 to {MAX_NAME} characters"
    if not 0 < len(stage.calls_ms) <= MAX_FANOUT:
        yield f"calls_ms must have from 1 to {MAX_FANOUT} shards, not {len(stage.calls_ms)}"
    if stage.busy_ms is not None and not 0 <= stage.busy_ms <= MAX_MS:
        yield f"busy_ms must be a number from 0 to {MAX_MS:.0f}, not {stage.busy_ms}"
    if stage.busy_variation is not None and not 0 <= stage.busy_variation <= MAX_VARIATION:
        yield f"busy_variation must be a number from 0 to {MAX_VARIATION:g}, not {stage.busy_variation}"
    if stage.replicas is not None and not 1 <= stage.replicas <= MAX_REPLICAS:
        yield f"replicas must be from 1 to {MAX_REPLICAS}, not {stage.replicas}"
    if not 1 <= stage.threads <= MAX_THREADS:
        yield f"threads must be from 1 to {MAX_THREADS}, not {stage.threads}"
    if len(stage.writes) > MAX_NAME:
        yield f"writes must have at most {MAX_NAME} characters"
    if len(set(stage.after)) < len(stage.after):
        yield "after names a parent twice"
    for shard, column in enumerate(stage.calls_ms):
        yield from _length_problems(column, requests, f"calls_ms, shard {shard}")
        yield from _time_problems(column, f"calls_ms, shard {shard}")


def _cut_problems(stage: _Stage) -> Iterator[str]:
    yield from _width_problems(stage, stage.censored, "censored")
    for shard, (rows, column) in enumerate(zip(stage.censored, stage.calls_ms, strict=False)):
        for row in rows:
            if not 0 <= row < len(column) or column[row] is None:
                yield f"censored, shard {shard}: request {row} is not there or has no call"


def _pair_problems(stage: _Stage) -> Iterator[str]:
    if len(stage.pairs) > MAX_PAIRS:
        yield f"pairs must be at most {MAX_PAIRS}, not {len(stage.pairs)}"
    for row, (call, copy, code) in enumerate(stage.pairs):
        if not (0 <= call <= MAX_MS and 0 <= copy <= MAX_MS and 0 <= code <= MAX_CUT_CODE):
            yield f"pairs, {row}: must be two numbers of ms from 0 to {MAX_MS:.0f} and a code from 0 to 3"
    if len(stage.guesses) > MAX_PAIRS:
        yield f"guesses must be at most {MAX_PAIRS}, not {len(stage.guesses)}"
    for row, (call, copy) in enumerate(stage.guesses):
        if not (0 <= call <= MAX_MS and 0 <= copy <= MAX_MS):
            yield f"guesses, {row}: must be two numbers of ms from 0 to {MAX_MS:.0f}"


def _worth_problems(stage: _Stage, requests: int) -> Iterator[str]:
    yield from _width_problems(stage, stage.worth, "worth")
    for shard, column in enumerate(stage.worth):
        yield from _length_problems(column, requests, f"worth, shard {shard}")
        for row, value in enumerate(column):
            if value is not None and not 0 <= value <= MAX_WORTH:
                yield f"worth, shard {shard}, request {row}: must be from 0 to {MAX_WORTH:g}, not {value}"


def _replica_problems(stage: _Stage, requests: int) -> Iterator[str]:
    names = stage.replica_names
    if len(names) > MAX_REPLICAS or any(not 0 < len(name) <= MAX_NAME for name in names):
        yield f"replica_names must be at most {MAX_REPLICAS} names of 1 to {MAX_NAME} characters"
    yield from _width_problems(stage, stage.asked, "asked")
    for shard, column in enumerate(stage.asked):
        yield from _length_problems(column, requests, f"asked, shard {shard}")
        if not all(-1 <= number < len(names) for number in column):
            yield f"asked, shard {shard}: must be numbers of replica_names, from -1 to {len(names) - 1}"


def _lag_problems(stage: _Stage, requests: int) -> Iterator[str]:
    yield from _width_problems(stage, stage.lag_ms, "lag_ms")
    for shard, column in enumerate(stage.lag_ms):
        yield from _length_problems(column, requests, f"lag_ms, shard {shard}")
        yield from _time_problems(column, f"lag_ms, shard {shard}")


def _width_problems(stage: _Stage, columns: Sequence[object], field: str) -> Iterator[str]:
    if columns and len(columns) != len(stage.calls_ms):
        yield f"{field} has {len(columns)} shards, and calls_ms has {len(stage.calls_ms)}"


def _length_problems(column: Sequence[object], requests: int, field: str) -> Iterator[str]:
    if len(column) != requests:
        yield f"{field}: has {len(column)} requests, and the profile has {requests}"


def _time_problems(values: Sequence[float | None], field: str) -> Iterator[str]:
    for row, value in enumerate(values):
        if value is not None and not 0 <= value <= MAX_MS:
            yield f"{field}, request {row}: must be a number of ms from 0 to {MAX_MS:.0f}, not {value}"
