"""Usage of tasks from files: a table of samples as CSV, or range results of Prometheus as JSON."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.allocator.packing.documents.quantities import BYTES_PER_GB, quantity
from kwiken.allocator.packing.tasks.usage import UsageSeries
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import parse_json, to_str

MAX_USAGE_BYTES: Final = 1 << 30
MAX_SAMPLES: Final = 50_000_000
MAX_CORES_USED: Final = 1e5
MAX_NAMED: Final = 3
MAX_TIME_S: Final = 1e12  # some 30,000 years; milliseconds since 1970 are above it
_MOMENT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?(?:Z|\+00:00)?", re.ASCII
)
NEEDED: Final = ("time", "replica", "cores")
KNOWN: Final = (*NEEDED, "node", "memory", "memory_gb")


@dataclass(frozen=True)
class UsageTable:
    """Usage that was read, by the tasks of a cluster.

    Attributes:
        series: use of each task at each time.
        unknown: names of replicas in the file that are not in the cluster, up to three, and their number.
        gone: names of nodes in the file that are not in the cluster, up to three, and their number.
        silent: number of tasks without any sample.
    """

    series: UsageSeries
    unknown: tuple[tuple[str, ...], int]
    gone: tuple[tuple[str, ...], int]
    silent: int


@dataclass(frozen=True)
class _Samples:
    names: Sequence[str]
    replica: Sequence[int]
    time_s: Sequence[float]
    value: Sequence[float]


def usage_from_csv(
    text: str | bytes, tasks: Sequence[str], nodes: Sequence[str], *, where: str
) -> UsageTable:
    """Read a table with the columns time, replica, cores, and node, memory or memory_gb if they are there.

    Args:
        text: CSV with a header. Times are seconds or ISO 8601 in UTC; `memory` is bytes or a quantity such as
            2Gi.
        tasks: names of the cluster's tasks; a replica may be named without the namespace if that is unique.
        nodes: names of the cluster's nodes.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line and column that is wrong: a missing or unknown column, a value that is no
            number or out of range, a sample that is given twice; or says that most replicas are not in the
            cluster.
    """
    source = to_str(text, where=where, max_bytes=MAX_USAGE_BYTES)
    lines = csv.reader(source.splitlines(), strict=True)
    header = _header(lines, where)
    columns = {name: place for place, name in enumerate(header)}
    memory_column = next((name for name in ("memory_gb", "memory") if name in columns), None)
    known_nodes, gone = set(nodes), dict[str, None]()
    numbers: dict[str, int] = {}
    replica, times, cores, memory = list[int](), list[float](), list[float](), list[float]()
    for number, cells in _rows(lines, len(header), where):
        at = f"{where}:{number}"
        name = cells[columns["replica"]].strip()
        if not name:
            raise InputError("replica: is empty", where=at)
        replica.append(numbers.setdefault(name, len(numbers)))
        times.append(_time(cells[columns["time"]], at))
        cores.append(_amount(cells[columns["cores"]], "cores", MAX_CORES_USED, at))
        if memory_column is not None:
            memory.append(_memory(cells[columns[memory_column]], memory_column, at))
        if "node" in columns and (node := cells[columns["node"]].strip()) not in known_nodes:
            gone[node] = None
    if not times:
        raise InputError("holds no sample", where=where)
    names = list(numbers)
    found = _Samples(names, replica, times, cores)
    return _table(found, _Samples(names, replica, times, memory) if memory else None, tasks, gone, where)


def usage_from_prometheus(
    cores: str | bytes, memory: str | bytes | None, tasks: Sequence[str], *, where: str
) -> UsageTable:
    """Read range results of Prometheus, with a series for each pod.

    Args:
        cores: answer of `query_range` to a query of cores in use by `namespace` and `pod`.
        memory: answer to a query of bytes in use by `namespace` and `pod`; None for none.
        tasks: names of the cluster's tasks.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the series that is wrong or given twice, or says that most pods are not in the
            cluster.
    """
    held = None if memory is None else _prometheus(memory, BYTES_PER_GB, f"{where} (memory)")
    return _table(_prometheus(cores, 1.0, where), held, tasks, {}, where)


def _prometheus(text: str | bytes, unit: float, where: str) -> _Samples:
    raw = parse_json(text, where=where, max_bytes=MAX_USAGE_BYTES)
    data = raw.get("data") if isinstance(raw, dict) else None
    if (
        not isinstance(data, dict)
        or data.get("resultType") != "matrix"
        or not isinstance(data.get("result"), list)
    ):
        raise InputError("is no range result of Prometheus (resultType matrix)", where=where)
    names: dict[str, int] = {}
    replica, times, values = list[int](), list[float](), list[float]()
    for place, series in enumerate(data["result"]):
        at = f"{where}: data.result[{place}]"
        metric = series.get("metric") if isinstance(series, dict) else None
        pod = metric.get("pod") if isinstance(metric, dict) else None
        if not isinstance(metric, dict) or not isinstance(pod, str) or not pod:
            raise InputError("metric.pod: is missing; sum the query by (namespace, pod)", where=at)
        name = f"{metric['namespace']}/{pod}" if metric.get("namespace") else pod
        if name in names:
            raise InputError(f"{name!r} is given twice; sum the query by (namespace, pod)", where=at)
        names[name] = len(names)
        samples = series.get("values")
        if not isinstance(samples, list):
            raise InputError("values: must be a list of pairs of a time and a value", where=at)
        for sample in samples:
            if not isinstance(sample, list) or len(sample) != 2:  # noqa: PLR2004 - a time and a value
                raise InputError("values: a sample is no pair of a time and a value", where=at)
            if len(times) == MAX_SAMPLES:
                raise InputError(f"more than {MAX_SAMPLES} samples", where=at)
            replica.append(names[name])
            times.append(_time(str(sample[0]), at))
            values.append(_amount(str(sample[1]), "value", MAX_CORES_USED * 1e12, at) / unit)
    if not times:
        raise InputError("holds no sample", where=where)
    return _Samples(list(names), replica, times, values)


def _header(lines: Iterator[list[str]], where: str) -> list[str]:
    """Names of the columns; refuses one that is missing, unknown or given twice."""
    try:
        header = [name.strip() for name in next(lines)]
    except csv.Error as error:
        raise InputError(f"broken CSV: {error}", where=f"{where}:1") from error
    for name in NEEDED:
        if name not in header:
            raise InputError(f"has no column {name!r}; needed are {', '.join(NEEDED)}", where=f"{where}:1")
    for name in header:
        if name not in KNOWN or header.count(name) > 1:
            problem = "is given twice" if header.count(name) > 1 else f"is unknown; known: {', '.join(KNOWN)}"
            raise InputError(f"column {name!r} {problem}", where=f"{where}:1")
    if {"memory", "memory_gb"} <= set(header):
        raise InputError("has memory and memory_gb; give one of them", where=f"{where}:1")
    return header


def _rows(lines: Iterator[list[str]], width: int, where: str) -> Iterator[tuple[int, list[str]]]:
    number = 1
    while True:
        number += 1
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"broken CSV: {error}", where=f"{where}:{number}") from error
        if not cells:
            continue
        if len(cells) != width:
            raise InputError(f"has {len(cells)} cells, and the header {width}", where=f"{where}:{number}")
        if number > MAX_SAMPLES:
            raise InputError(f"more than {MAX_SAMPLES} samples", where=f"{where}:{number}")
        yield number, cells


def _table(
    cores: _Samples, memory: _Samples | None, tasks: Sequence[str], gone: Mapping[str, None], where: str
) -> UsageTable:
    index = _index(tasks)
    unknown = [name for name in cores.names if name not in index]
    if 2 * len(unknown) > len(cores.names):
        shown = ", ".join(unknown[:MAX_NAMED])
        raise InputError(
            f"{len(unknown)} of {len(cores.names)} replicas are not in the cluster, such as {shown}; "
            "are both from the same cluster?",
            where=where,
        )
    times = np.unique(np.array([*cores.time_s, *(memory.time_s if memory is not None else ())]))
    if len(times) == 1:
        raise InputError("all samples are of one time; use over time is needed", where=where)
    if len(times) * len(tasks) > 4 * MAX_SAMPLES:
        raise InputError(
            f"{len(times)} times of {len(tasks)} tasks are too many; give samples at the same times",
            where=where,
        )
    series = UsageSeries(
        times,
        _filled(cores, times, index, len(tasks), where),
        np.full((len(tasks), len(times)), np.nan)
        if memory is None
        else _filled(memory, times, index, len(tasks), where),
    )
    silent = int(np.sum(np.all(np.isnan(series.cores), axis=1)))
    names = tuple(gone)
    return UsageTable(
        series, (tuple(unknown[:MAX_NAMED]), len(unknown)), (names[:MAX_NAMED], len(names)), silent
    )


def _index(tasks: Sequence[str]) -> dict[str, int]:
    """Tasks by name, and by the part after the slash where only one has it."""
    found = {name: task for task, name in enumerate(tasks)}
    short: dict[str, list[int]] = {}
    for task, name in enumerate(tasks):
        short.setdefault(name.rpartition("/")[2], []).append(task)
    return {**{name: which[0] for name, which in short.items() if len(which) == 1}, **found}


def _filled(samples: _Samples, times: Any, index: Mapping[str, int], count: int, where: str) -> Any:
    task = np.array([index.get(name, -1) for name in samples.names], dtype=np.int64)[
        np.array(samples.replica)
    ]
    at = np.searchsorted(times, np.array(samples.time_s))
    value = np.array(samples.value)
    kept = task >= 0
    task, at, value = task[kept], at[kept], value[kept]
    cell = task * len(times) + at
    _, first, many = np.unique(cell, return_index=True, return_counts=True)
    if np.any(many > 1):
        place = int(first[np.argmax(many > 1)])
        name = next(name for name, number in index.items() if number == task[place])
        raise InputError(f"replica {name!r} has two samples of the time {times[at[place]]:.15g}", where=where)
    found = np.full((count, len(times)), np.nan)
    found[task, at] = value
    return found


def _time(text: str, at: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        words = text.strip()
        if not _MOMENT.fullmatch(words):
            raise InputError(f"time: {text!r} is neither seconds nor ISO 8601 in UTC", where=at) from error
        try:
            moment = np.datetime64(words.removesuffix("Z").removesuffix("+00:00"), "us")
        except ValueError:
            raise InputError(f"time: {text!r} is no moment of the calendar", where=at) from error
        value = float(moment.astype(np.int64)) / 1e6
    if not -MAX_TIME_S <= value <= MAX_TIME_S:  # NaN fails too
        raise InputError(
            f"time: must be seconds from -{MAX_TIME_S:g} to {MAX_TIME_S:g}, not {text.strip()}", where=at
        )
    return value


def _amount(text: str, name: str, most: float, at: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{name}: {text!r} is no number", where=at) from error
    if not 0 <= value <= most:
        raise InputError(f"{name}: must be a number from 0 to {most:g}, not {text}", where=at)
    return value


def _memory(text: str, column: str, at: str) -> float:
    if not text.strip():
        return math.nan
    if column == "memory_gb":
        return _amount(text, column, MAX_CORES_USED * 10, at)
    return quantity(text.strip(), where=f"{at}: memory") / BYTES_PER_GB
