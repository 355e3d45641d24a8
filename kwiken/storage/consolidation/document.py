"""Documents of a packing: disks and data sets in TOML, demand over time in CSV, the layout in JSON."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import StrictStruct
from kwiken.base.parsing.strict_json import convert, parse_json
from kwiken.base.parsing.strict_toml import parse_toml
from kwiken.storage.consolidation.interference import AccessMix, pair_losses, pair_scores
from kwiken.storage.consolidation.packing import DiskNodes, PackObjects

MAX_DATASETS: Final = 10_000
MAX_OBJECTS: Final = 20_000
MAX_SERIES: Final = 5_000_000  # rows of a history
RANDOM_FACTOR: Final = 0.3  # rated bandwidth of random accesses over that of a sequential stream
LAYOUT_VERSION: Final = 1
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\s/#]+$")]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
NEVER: Final = 0.0  # limit of a data set that meets its target on no disk


# A latency curve is the mean or p99 latency over the share of the disk's rated bandwidth, or of its capacity,
# that is in use. A limit is the curve inverted at the target.
@dataclass(frozen=True, eq=False)
class DiskCurve:
    """Latency of a data set over the use of its disk.

    Attributes:
        use: (k,) rising shares of the rated bandwidth or of the capacity, 0 to 1.
        latency_ms: (k,) latencies at these shares, milliseconds; made rising where they are not.

    Raises:
        InputError: fewer than two points, or shares that do not rise.
    """

    use: Floats
    latency_ms: Floats

    def __post_init__(self) -> None:
        """Check the points, and take the rising hull of the latencies."""
        if len(self.use) < 2 or len(self.use) != len(self.latency_ms):  # noqa: PLR2004 - two points of a line
            raise InputError("a curve needs two points or more, of use and latency", where="curve")
        if not (np.diff(self.use) > 0).all() or not (np.isfinite(self.latency_ms).all()):
            raise InputError("the use of a curve must rise, and latencies must be numbers", where="curve")
        object.__setattr__(self, "latency_ms", np.maximum.accumulate(self.latency_ms))

    def limit(self, target_ms: float) -> float:
        """Largest share of use at which the latency meets a target; 0 where it never does.

        Args:
            target_ms: target, milliseconds.
        """
        if self.latency_ms[0] > target_ms:
            return NEVER
        if self.latency_ms[-1] <= target_ms:
            return float(self.use[-1])
        after = int(np.argmax(self.latency_ms > target_ms))
        low, high = self.latency_ms[after - 1], self.latency_ms[after]
        share = (target_ms - low) / (high - low)
        return float(self.use[after - 1] + share * (self.use[after] - self.use[after - 1]))


class DiskClass(StrictStruct, frozen=True, kw_only=True):
    """Disks of a class of nodes.

    Attributes:
        node_class: name of the class, as in the document of nodes.
        mb_s: rated bandwidth of a sequential stream, a number of MB/s of one node.
        capacity_gb: capacity of one node, in units of GB.
        random_mb_s: bandwidth of random accesses, a number of MB/s; 0.3 of the rated one by default.
        idle_w: power of an idle node, a number of watts.
        peak_w: power of a node at full use, a number of watts.
    """

    node_class: _Name = msgspec.field(name="class")
    mb_s: _Positive
    capacity_gb: _Positive
    random_mb_s: _Positive | None = None
    idle_w: _Positive = 200.0
    peak_w: _Positive = 300.0


class DataSet(StrictStruct, frozen=True, kw_only=True):
    """Data of one stage.

    Attributes:
        gb: bytes of one replica, in units of GB.
        mb_s: bandwidth that one replica needs at its peak, a number of MB/s.
        target_ms: latency that its disk must meet, milliseconds; None for no limit but the disk's own.
        curve: points of use of the disk, 0 to 1, and latency in milliseconds, as fio
            measures them.
        random: share of its bytes that are accessed randomly, 0 to 1.
        reissue: share of requests that are sent twice, which adds to the bandwidth.
        replicas: number of replicas, each on a node of its own.
        parts: number of parts that may lie on different nodes.
    """

    name: _Name
    gb: _Positive
    mb_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    target_ms: _Positive | None = None
    curve: Annotated[list[tuple[_Share, _Positive]], msgspec.Meta(min_length=2, max_length=1000)] | None = (
        None
    )
    random: _Share = 0.5
    reissue: _Share = 0.0
    replicas: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    parts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1

    def share_of_use(self) -> float:
        """Share of a disk's rated bandwidth up to which the target is met, 0 to 1; 1 without a target."""
        if self.target_ms is None or self.curve is None:
            return 1.0
        points = np.array(self.curve, dtype=np.float64)
        return DiskCurve(points[:, 0], points[:, 1]).limit(self.target_ms)


class DataDocument(StrictStruct, frozen=True, kw_only=True):
    """Disks and data sets."""

    disks: Annotated[list[DiskClass], msgspec.Meta(min_length=1, max_length=1000)]
    datasets: Annotated[list[DataSet], msgspec.Meta(min_length=1, max_length=MAX_DATASETS)]


class DataLayout(StrictStruct, frozen=True, kw_only=True):
    """Places of data sets.

    Attributes:
        version: version of the document's form.
        nodes: names of objects by the name of their node; an object is `DATASET/PART#REPLICA`.
    """

    version: Annotated[int, msgspec.Meta(ge=1, le=LAYOUT_VERSION)]
    nodes: dict[str, list[str]]


def datasets_from_toml(text: str | bytes, *, where: str) -> DataDocument:
    """Disks and data sets of a document.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: broken TOML, a wrong or unknown field, a name given twice, a target without a curve.
    """
    document = convert(parse_toml(text, where=where), DataDocument, where=where)
    for kind, names in (
        ("disks", [disk.node_class for disk in document.disks]),
        ("datasets", [each.name for each in document.datasets]),
    ):
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InputError(f"{kind}: {twice!r} is given twice", where=where)
    for number, each in enumerate(document.datasets):
        if (each.target_ms is None) != (each.curve is None):
            raise InputError(
                f"datasets[{number}]: target_ms and curve go together; give both or none", where=where
            )
        if each.curve is not None:
            points = np.array(each.curve, dtype=np.float64)
            try:
                DiskCurve(points[:, 0], points[:, 1])
            except InputError as error:
                raise InputError(f"datasets[{number}].curve: {error.problem}", where=where) from None
    count = sum(each.replicas * each.parts for each in document.datasets)
    if count > MAX_OBJECTS:
        raise InputError(f"{count} parts and replicas are more than {MAX_OBJECTS}", where=where)
    return document


def nodes_of(
    document: DataDocument, names: list[str], classes: list[str], zones: list[int], *, where: str
) -> DiskNodes:
    """Nodes with their disks, those with the least idle power for their capacity first.

    Args:
        names: name of each node.
        classes: class of each node.
        zones: number of each node's zone.
        where: source of the data sets, to name in errors.

    Raises:
        InputError: a class of nodes has no disks.
    """
    index = {disk.node_class: number for number, disk in enumerate(document.disks)}
    for name in classes:
        if name not in index:
            raise InputError(f"disks: the class {name!r} of nodes has none", where=where)
    kinds = np.array([index[name] for name in classes], dtype=np.int64)
    disks = document.disks
    order = sorted(
        range(len(names)),
        key=lambda node: (
            disks[kinds[node]].idle_w / disks[kinds[node]].capacity_gb, -disks[kinds[node]].mb_s, node,
        ),
    )  # fmt: skip
    return DiskNodes(
        names=tuple(names[node] for node in order),
        class_of=kinds[order],
        capacity=np.array([disks[kinds[node]].capacity_gb for node in order]),
        rated=np.array([disks[kinds[node]].mb_s for node in order]),
        zone=np.array(zones, dtype=np.int64)[order],
    )


def objects_of(document: DataDocument, demand: Floats | None = None) -> tuple[PackObjects, Floats]:
    """Parts and replicas of all data sets, and the scores of pairs of data sets.

    Args:
        demand: (d,) bandwidth that each data set needs now, in units of MB/s; None for its peak.
    """
    sets = document.datasets
    peak = np.array([each.mb_s * (1 + each.reissue) for each in sets])
    now = peak if demand is None else demand * np.array([1 + each.reissue for each in sets])
    owner: Ints = np.repeat(np.arange(len(sets)), [each.parts * each.replicas for each in sets])
    names, datum = [], []
    for each in sets:
        for part in range(each.parts):
            for replica in range(each.replicas):
                names.append(f"{each.name}/{part}#{replica}")
                datum.append(f"{each.name}/{part}")
    parts = np.array([each.parts for each in sets])[owner]
    shares = np.array([each.share_of_use() for each in sets])[owner]
    rated = np.array([disk.mb_s for disk in document.disks])
    capacity = np.array([disk.capacity_gb for disk in document.disks])
    disk = document.disks[0]
    mix = AccessMix(
        np.maximum(peak, 1e-9),
        np.array([each.random for each in sets]),
        disk.mb_s,
        disk.random_mb_s or RANDOM_FACTOR * disk.mb_s,
    )
    return (
        PackObjects(
            names=tuple(names),
            bandwidth=now[owner] / parts,
            size=np.array([each.gb for each in sets])[owner] / parts,
            bandwidth_limit=shares[:, None] * rated,
            size_limit=np.tile(capacity, (len(owner), 1)),
            app=owner,
            load=np.where(peak[owner] > 0, now[owner] / np.maximum(peak[owner], 1e-12), 0.0) / parts,
            datum=np.unique(datum, return_inverse=True)[1].astype(np.int64),
        ),
        pair_scores(pair_losses(mix)),
    )


def layout_json(objects: PackObjects, nodes: DiskNodes, place: Ints) -> str:
    """Layout as JSON."""
    held: dict[str, list[str]] = {name: [] for name in nodes.names}
    for which, node in enumerate(place.tolist()):
        if node >= 0:
            held[nodes.names[node]].append(objects.names[which])
    layout = DataLayout(version=LAYOUT_VERSION, nodes=held)
    return msgspec.json.format(msgspec.json.encode(layout), indent=1).decode() + "\n"


def place_from_json(text: str | bytes, objects: PackObjects, nodes: DiskNodes, *, where: str) -> Ints:
    """(n,) node of each object in a layout; -1 for objects that it does not name.

    Raises:
        InputError: broken JSON, a node or an object that is not known, an object on two nodes.
    """
    layout = convert(parse_json(text, where=where, max_bytes=64 << 20), DataLayout, where=where)
    index = {name: number for number, name in enumerate(objects.names)}
    known = {name: number for number, name in enumerate(nodes.names)}
    place = np.full(len(objects), -1, dtype=np.int64)
    for name, held in layout.nodes.items():
        if name not in known:
            raise InputError(f"nodes: there is no node {name!r}", where=where)
        for each in held:
            if each not in index:
                raise InputError(f"nodes.{name}: there is no data {each!r}", where=where)
            if place[index[each]] >= 0:
                raise InputError(f"nodes.{name}: {each!r} is given twice", where=where)
            place[index[each]] = known[name]
    return place


_ROW: Final = re.compile(
    r"^(\d{1,12}(?:\.\d{1,9})?),([^,\s]{1,200}),(\d{1,12}(?:\.\d{1,9})?(?:e-?\d{1,2})?)\r?$", re.ASCII
)


def history_from_csv(text: str, names: list[str], step_s: float, *, where: str) -> Floats:
    """(t, d) mean bandwidth of each data set in each step, in units of MB/s; steps without a row repeat.

    Args:
        text: CSV with the header `t_s,dataset,mb_s`.
        names: names of the data sets, in the order of the columns.
        step_s: length of a step, seconds.

    Raises:
        InputError: names the line that is wrong, or a data set without a row.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != "t_s,dataset,mb_s":
        raise InputError("must begin with the header t_s,dataset,mb_s", where=f"{where}:1")
    if len(lines) > MAX_SERIES:
        raise InputError(f"holds more than {MAX_SERIES} rows", where=where)
    index = {name: number for number, name in enumerate(names)}
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        found = _ROW.match(line)
        if found is None:
            if not line.strip():
                continue
            raise InputError("is no row of a time, a data set and MB/s", where=f"{where}:{number}")
        if found[2] not in index:
            raise InputError(f"there is no data set {found[2]!r}", where=f"{where}:{number}")
        rows.append((float(found[1]), index[found[2]], float(found[3])))
    if not rows:
        raise InputError("holds no row", where=where)
    table = np.array(rows)
    step = ((table[:, 0] - table[:, 0].min()) // step_s).astype(np.int64)
    count = int(step.max()) + 1
    if count * len(names) > MAX_SERIES:
        raise InputError(f"spans {count} steps of {step_s:g} s, too many for the data sets", where=where)
    key = step * len(names) + table[:, 1].astype(np.int64)
    sums = np.bincount(key, weights=table[:, 2], minlength=count * len(names)).reshape(count, -1)
    seen = np.bincount(key, minlength=count * len(names)).reshape(count, -1)
    missing = [names[each] for each in np.flatnonzero(~(seen > 0).any(axis=0)).tolist()]
    if missing:
        raise InputError(f"has no row of the data set {missing[0]!r}", where=where)
    last = np.where(seen > 0, np.arange(count)[:, None], -1)
    filled = np.maximum.accumulate(last, axis=0)
    first = np.argmax(seen > 0, axis=0)
    filled = np.where(filled < 0, first, filled)
    means = sums / np.maximum(seen, 1)
    return means[filled, np.arange(len(names))]
