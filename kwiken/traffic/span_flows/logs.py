"""Flow logs of networks: VPC flow logs in text, and Hubble's JSON lines, as flows between endpoints."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import IO, Any, Final, cast

import msgspec
import numpy as np

from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_regular
from kwiken.traffic.flows import MAX_INSTANT_S, OUTSIDE, Flows, TrafficEndpoint, TrafficUnit

MAX_LINE: Final = 1 << 20  # bytes
MAX_FLOWS: Final = 20_000_000
MAX_LOG_ENDPOINTS: Final = 100_000
_GZIP: Final = b"\x1f\x8b"
# Fields of version 2, which logs without a head have.
_DEFAULT: Final = (
    *("version", "account-id", "interface-id", "srcaddr", "dstaddr", "srcport", "dstport", "protocol"),
    *("packets", "bytes", "start", "end", "action", "log-status"),
)
_STATES: Final = (b"OK", b"NODATA", b"SKIPDATA")
_NEEDED: Final = ("srcaddr", "dstaddr", "bytes", "start")


@dataclass(slots=True)
class LoggedFlows:
    """Flows of logs, and what was left out.

    Attributes:
        counts: number of lines left out, by reason.
    """

    flows: Flows
    counts: Counter[str] = field(default_factory=Counter)


def is_flow_log(path: str) -> bool:
    """Whether a file starts as a flow log does, plain or compressed by gzip.

    Raises:
        OSError: the file is missing or cannot be read.
        InputError: a folder, a device or a pipe.
    """
    with closing(_lines(path)) as lines:
        first = next(lines, b"").strip()
    return _is_hubble(first) or _is_vpc(first)


def read_flow_logs(paths: Sequence[str], known: Mapping[str, TrafficEndpoint]) -> LoggedFlows:
    """Read flow logs of one kind.

    Args:
        paths: files of VPC flow logs, or of Hubble's JSON lines.
        known: endpoints by address; with any, other addresses count as one endpoint outside.

    Raises:
        InputError: names file and line of a flow that cannot be read, or there is no flow.
    """
    reader = _Reader(known)
    units = set()
    for path in paths:
        with closing(_lines(path)) as lines:
            first = next(lines, b"")
            if _is_hubble(first.strip()):
                units.add(TrafficUnit.CALLS)
                reader.hubble(path, chain((first,), lines))
            elif _is_vpc(first.strip()):
                units.add(TrafficUnit.BYTES)
                reader.vpc(path, chain((first,), lines))
            else:
                raise InputError("is no flow log: neither a VPC flow log nor Hubble's JSON lines", where=path)
    if len(units) > 1:
        raise InputError("VPC flow logs count bytes and Hubble counts calls; give files of one kind")
    return LoggedFlows(reader.flows(units.pop(), paths[0]), reader.counts)


def _is_hubble(line: bytes) -> bool:
    return line.startswith(b"{") and b'"flow"' in line


def _is_vpc(line: bytes) -> bool:
    words = line.split()
    headed = b"srcaddr" in words and b"dstaddr" in words
    return headed or (len(words) == len(_DEFAULT) and words[0].isdigit() and words[-1] in _STATES)


def _lines(path: str) -> Generator[bytes]:
    """Lines of a file, each cut at its longest length, so that no file fills the memory."""
    with open_regular(path) as raw:
        packed = raw.peek(2)[:2] == _GZIP  # type: ignore[attr-defined]
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw
        try:
            while line := file.readline(MAX_LINE):
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"is broken as gzip: {error}", where=path) from error


class _Reader:
    """Columns of flows while they are read.

    Args:
        known: endpoints by address; with any, other addresses are one endpoint outside.
    """

    def __init__(self, known: Mapping[str, TrafficEndpoint]) -> None:
        self.counts: Counter[str] = Counter()
        self._known = known
        self._endpoints: list[TrafficEndpoint] = []
        self._numbers: dict[str, int] = {}
        self._columns: tuple[list[float], list[int], list[int], list[float]] = ([], [], [], [])

    def flows(self, unit: TrafficUnit, where: str) -> Flows:
        """All flows so far."""
        start, source, target, amount = self._columns
        if not start:
            left = "; ".join(f"{count} lines: {why}" for why, count in self.counts.items())
            raise InputError(f"holds no flow{f' ({left})' if left else ''}", where=where)
        return Flows(
            tuple(self._endpoints),
            unit,
            np.array(start),
            np.array(source, np.int64),
            np.array(target, np.int64),
            np.array(amount),
        )

    def vpc(self, path: str, lines: Iterator[bytes]) -> None:
        """Read a VPC flow log, with a head or in the fields of version 2."""
        fields: dict[str, int] = {name: place for place, name in enumerate(_DEFAULT)}
        for number, line in enumerate(lines, 1):
            words = line.decode("utf-8", "replace").split()
            if "srcaddr" in words and "dstaddr" in words:
                fields = {name: place for place, name in enumerate(words)}
                missing = [name for name in _NEEDED if name not in fields]
                if missing:
                    raise InputError(f"has no field {missing[0]}", where=f"{path}:{number}")
                continue
            if not words:
                continue
            if len(words) != len(fields):
                raise InputError(
                    f"has {len(words)} fields, and the head {len(fields)}", where=f"{path}:{number}"
                )
            state, action = (words[fields[key]] if key in fields else "" for key in ("log-status", "action"))
            if state in {"NODATA", "SKIPDATA"}:
                self.counts["no data"] += 1
            elif action == "REJECT":
                self.counts["rejected"] += 1
            else:
                at, amount = (
                    _number(words[fields[key]], key, f"{path}:{number}") for key in ("start", "bytes")
                )
                if at > MAX_INSTANT_S:
                    raise InputError(
                        f"start must be in seconds since 1970, not {at:.16g}", where=f"{path}:{number}"
                    )
                source, target = words[fields["srcaddr"]], words[fields["dstaddr"]]
                self._add(at, self._address(source), self._address(target), amount, path)

    def hubble(self, path: str, lines: Iterator[bytes]) -> None:
        """Read Hubble's JSON lines: forwarded requests and connections, replies left out."""
        decoder = msgspec.json.Decoder()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                flow = decoder.decode(line).get("flow")
            except (msgspec.MsgspecError, AttributeError, ValueError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    self.counts["cut short"] += 1
                    continue
                raise InputError(f"is no flow: {error}", where=f"{path}:{number}") from error
            if not isinstance(flow, dict):
                self.counts["no flow"] += 1
            elif flow.get("verdict", "FORWARDED") != "FORWARDED":
                self.counts["not forwarded"] += 1
            elif flow.get("is_reply") is True:
                self.counts["replies"] += 1
            else:
                at = _instant(flow.get("time"), f"{path}:{number}")
                source, target = (
                    self._pod(flow, side, f"{path}:{number}") for side in ("source", "destination")
                )
                self._add(at, source, target, 1.0, path)

    def _pod(self, flow: dict[str, Any], side: str, where: str) -> int:
        """Number of the endpoint at one side of a flow of Hubble."""
        told = flow.get(side)
        address = flow.get("IP")
        found = told if isinstance(told, dict) else {}
        pod, space = found.get("pod_name"), found.get("namespace")
        if not isinstance(pod, str) or not pod:
            stated = address.get(side) if isinstance(address, dict) else None
            if not isinstance(stated, str):
                raise InputError(f"{side} has neither a pod nor an address", where=where)
            return self._address(stated)
        workloads = found.get("workloads")
        first = workloads[0] if isinstance(workloads, list) and workloads else None
        service = first.get("name") if isinstance(first, dict) else None
        name = f"{space}/{pod}" if isinstance(space, str) and space else pod
        stated = flow.get("node_name") if side == "destination" else None
        node = stated if isinstance(stated, str) else ""
        return self._number(name, TrafficEndpoint(name=name, service=str(service or name), node=node))

    def _address(self, address: str) -> int:
        known = self._known.get(address)
        if known is not None:
            return self._number(f"{known.service} {known.name}", known)
        if self._known:
            self.counts["an end is at no known address"] += 1
            return self._number(OUTSIDE, TrafficEndpoint(name=OUTSIDE, service=OUTSIDE))
        return self._number(address, TrafficEndpoint(name=address, service=address))

    def _number(self, key: str, endpoint: TrafficEndpoint) -> int:
        number = self._numbers.setdefault(key, len(self._endpoints))
        if number == len(self._endpoints):
            if number >= MAX_LOG_ENDPOINTS:
                raise InputError(f"there are more than {MAX_LOG_ENDPOINTS} endpoints")
            self._endpoints.append(endpoint)
        elif endpoint.node and not self._endpoints[number].node:
            self._endpoints[number] = endpoint  # a flow of Hubble names the node of its receiver alone
        return number

    def _add(self, at: float, source: int, target: int, amount: float, path: str) -> None:
        if len(self._columns[0]) >= MAX_FLOWS:
            raise InputError(f"there are more than {MAX_FLOWS} flows; give fewer files", where=path)
        for column, value in zip(self._columns, (at, source, target, amount), strict=True):
            cast("list[float]", column).append(value)


def _number(text: str, field_: str, where: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e18:  # noqa: PLR2004 - neither NaN nor infinite
        raise InputError(f"{field_} must be a number of 0 or more, not {text!r}", where=where)
    return found


def _instant(text: object, where: str) -> float:
    """Seconds since 1970 of a time as Hubble writes it."""
    try:
        found = datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        found = -1.0
    if not 0 <= found <= MAX_INSTANT_S:
        raise InputError(f"time must be as 2026-01-30T13:15:43Z, not {str(text)[:80]!r}", where=where)
    return found
