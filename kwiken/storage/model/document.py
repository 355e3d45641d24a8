"""The model of a storage workload as a versioned document, and its strict reader."""

from __future__ import annotations

import hashlib
from typing import Annotated, ClassVar, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct
from kwiken.storage.model.states import BRANCHES, DEPTH
from kwiken.storage.trace.block_trace import BlockTrace

STORAGE_VERSION: Final = 2
MAX_MODEL_BYTES: Final = 64 << 20  # of a document
MAX_CLASSES: Final = 1024
MAX_STREAMS: Final = 4096
MAX_ROWS: Final = 2_000_000  # of any table of the document
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Real = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
_Octave = Annotated[int, msgspec.Meta(ge=0, le=32)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class IOClass(StrictStruct, frozen=True, kw_only=True):
    """Class of I/Os.

    Attributes:
        size: number of bytes of one I/O.
        read: whether it reads.
        sequential: whether it starts where the I/O before it in its stream ended.
        joined: whether the I/O before it in the whole trace is of the same stream.
    """

    size: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)]
    read: bool
    sequential: bool
    joined: bool


class GapLaw(StrictStruct, frozen=True, kw_only=True):
    """Law of the time from the I/O before, for I/Os alike.

    Attributes:
        read: whether it is the law of reads.
        sequential: whether it is the law of sequential I/Os.
        joined: whether it is the law of I/Os whose stream also issued the one before.
        count: number of gaps.
        mean_ms: mean gap, milliseconds.
        sd_ms: standard deviation of the gaps, milliseconds.
        family: nearest family: `static`, `normal`, `exponential` or `gamma`.
        quantiles_ms: (q,) gaps at evenly spaced probabilities from 0 to 1, milliseconds.
    """

    read: bool
    sequential: bool
    joined: bool
    count: _Count
    mean_ms: _Real
    sd_ms: _Real
    family: Annotated[str, msgspec.Meta(pattern="^(static|normal|exponential|gamma)$")]
    quantiles_ms: Annotated[list[_Real], msgspec.Meta(min_length=2, max_length=10_000)]


class ReuseLaw(StrictStruct, frozen=True, kw_only=True):
    """Law of how many I/Os of a volume ago a block was touched, and by what.

    Attributes:
        leaf: state's index in its volume; -1 for all states without a law of their own.
        octave: exponent of the smallest power of two that is no smaller than the I/Os that it is the law of.
        share: share of the I/Os whose block is touched again at all, once the volume has a long past.
        lags: (q,) number of I/Os of the volume since the block was touched, at evenly spaced probabilities.
        parents: (q,) octave of the size of the I/O that touched the block, for each lag.
        offsets: (q,) number of bytes from the start of that I/O to the new start; a log goes on in the block
            that its last entry ended in.
    """

    leaf: Annotated[int, msgspec.Meta(ge=-1, le=MAX_ROWS)]
    octave: _Octave
    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    lags: Annotated[
        list[Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]], msgspec.Meta(min_length=1, max_length=10_000)
    ]
    parents: Annotated[list[_Octave], msgspec.Meta(min_length=1, max_length=10_000)]
    offsets: Annotated[
        list[Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]],
        msgspec.Meta(min_length=1, max_length=10_000),
    ]


class VolumeModel(StrictStruct, frozen=True, kw_only=True):
    """One volume, or some that are alike: range, states, how far back blocks are touched again.

    Attributes:
        name: name of the volume.
        others: names of volumes that are like it, as those of a stripe are, and share all that is learned.
        low: first byte that was addressed.
        high: byte after the last that was addressed.
        align: number of bytes that starts are multiples of.
        levels: (s,) depth of each state in the tree of quarters.
        indices: (s,) number of each state among the ranges of its depth.
        reuse: laws of how far back, by size, first those of all states without laws of their own.
    """

    name: _Name
    others: Annotated[list[_Name], msgspec.Meta(max_length=MAX_STREAMS)] = msgspec.field(default_factory=list)
    low: _Bytes
    high: _Bytes
    align: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)]
    levels: Annotated[
        list[Annotated[int, msgspec.Meta(ge=0, le=DEPTH)]],
        msgspec.Meta(min_length=1, max_length=BRANCHES**DEPTH),
    ]
    indices: Annotated[list[_Count], msgspec.Meta(min_length=1, max_length=BRANCHES**DEPTH)]
    reuse: Annotated[list[ReuseLaw], msgspec.Meta(max_length=BRANCHES**DEPTH)]

    @property
    def names(self) -> list[str]:
        """Names of all volumes that it is the model of."""
        return [self.name, *self.others]


class StreamModel(StrictStruct, frozen=True, kw_only=True):
    """I/Os of one thread on one volume, or on each of some that are alike: a chain over the volume's states.

    Attributes:
        volume: index of the stream's volume, or volumes, among the models of volumes.
        thread: number of the thread; 0 where threads are not told.
        free: whether places do not depend on those before, so that I/Os come in any order; of alike volumes.
        occupancy: (s,) number of I/Os in each state.
        transitions: rows of level, source, target, class and count: the first level of the tree at which
            source and target differ, or the state's own level for a self loop, and indices of nodes there.
        entries: rows of level, state and count: arrivals in a state whose first differing level is that one.
        departures: rows of level, state and count: moves out of a state by the same level.
    """

    volume: _Count
    thread: _Count
    free: bool = False
    occupancy: Annotated[list[_Count], msgspec.Meta(min_length=1, max_length=BRANCHES**DEPTH)]
    transitions: Annotated[
        list[tuple[_Count, _Count, _Count, _Count, _Count]], msgspec.Meta(min_length=1, max_length=MAX_ROWS)
    ]
    entries: Annotated[list[tuple[_Count, _Count, _Count]], msgspec.Meta(max_length=MAX_ROWS)]
    departures: Annotated[list[tuple[_Count, _Count, _Count]], msgspec.Meta(max_length=MAX_ROWS)]


class TrainedOn(StrictStruct, frozen=True, kw_only=True):
    """The trace that a model was trained on.

    Attributes:
        digest: SHA-256 of the whole trace's columns, by which a judge tells whether it is the same trace.
        ios: number of I/Os that the model was trained on.
        duration_s: time from the first to the last of them, seconds.
        levels: depth of the tree that was asked for; None where it was refined where accesses are.
    """

    digest: Annotated[str, msgspec.Meta(max_length=64)]
    ios: Annotated[int, msgspec.Meta(ge=2, le=1 << 53)]
    duration_s: _Real
    levels: Annotated[int, msgspec.Meta(ge=1, le=DEPTH)] | None = None


class StorageModel(JsonDocument, frozen=True, kw_only=True):
    """Storage workload: streams of I/Os over states, their classes, order, gaps and rate by window.

    Attributes:
        version: version of the document's form.
        trained: trace that the model was trained on.
        classes: classes of I/Os that transitions name.
        volumes: volumes with their states.
        streams: chains over the states of a volume.
        order: rows of stream, next stream and count, of consecutive I/Os of different streams; a stream of
            volumes that are alike counts once for each of them, in the order of their names.
        gaps: laws of the time from the I/O before, the overall law first.
        window_s: length of a window of the rate, seconds.
        windows: (w,) number of I/Os in each window, in order.
    """

    FORMAT: ClassVar = DocumentFormat(STORAGE_VERSION, MAX_MODEL_BYTES, indented=False)

    version: Annotated[int, msgspec.Meta(ge=1)]
    trained: TrainedOn
    classes: Annotated[list[IOClass], msgspec.Meta(min_length=1, max_length=MAX_CLASSES)]
    volumes: Annotated[list[VolumeModel], msgspec.Meta(min_length=1, max_length=MAX_STREAMS)]
    streams: Annotated[list[StreamModel], msgspec.Meta(min_length=1, max_length=MAX_STREAMS)]
    order: Annotated[list[tuple[_Count, _Count, _Count]], msgspec.Meta(max_length=MAX_ROWS)]
    gaps: Annotated[list[GapLaw], msgspec.Meta(min_length=1, max_length=16)]
    window_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    windows: Annotated[list[_Count], msgspec.Meta(min_length=1, max_length=1_000_000)]

    @property
    def members(self) -> list[tuple[int, str]]:
        """Streams of single volumes, as `order` counts them: index of the stream, and the volume's name."""
        return [
            (number, name)
            for number, stream in enumerate(self.streams)
            for name in self.volumes[stream.volume].names
        ]

    @property
    def states(self) -> int:
        """Number of states of all volumes; those of volumes that are alike count once."""
        return sum(len(volume.levels) for volume in self.volumes)

    @property
    def pairs(self) -> int:
        """Number of transitions, pairs of states of all streams."""
        return sum(len({row[:3] for row in stream.transitions}) for stream in self.streams)

    @property
    def rate_per_s(self) -> float:
        """Mean number of I/Os a second."""
        return 1000.0 / self.gaps[0].mean_ms if self.gaps[0].mean_ms > 0 else 0.0

    def check(self, where: str) -> None:
        """Check that indices name what is there, and that there is an I/O."""
        for number, volume in enumerate(self.volumes):
            _check_volume(volume, f"{where}: volumes[{number}]")
        for number, stream in enumerate(self.streams):
            _check_stream(self, stream, f"{where}: streams[{number}]")
        _check_names(self, where)
        members = len(self.members)
        for number, (source, target, _) in enumerate(self.order):
            if max(source, target) >= members:
                raise InputError(f"order[{number}]: names a stream that is not there", where=where)
        if not sum(self.windows):
            raise InputError("windows: no window holds an I/O", where=where)


def _check_names(model: StorageModel, where: str) -> None:
    names = [name for volume in model.volumes for name in volume.names]
    if len(names) > MAX_STREAMS:
        raise InputError(f"volumes: more than {MAX_STREAMS} names", where=where)
    if len(set(names)) < len(names):
        raise InputError("volumes: a name stands twice", where=where)
    streams = [stream.volume for stream in model.streams]
    for number, volume in enumerate(model.volumes):
        if volume.others and streams.count(number) != 1:
            raise InputError(f"volumes[{number}]: volumes that are alike have one stream", where=where)


def _check_volume(volume: VolumeModel, where: str) -> None:
    if volume.high <= volume.low:
        raise InputError("high must be above low", where=where)
    if len(volume.levels) != len(volume.indices):
        raise InputError("levels and indices must have one entry for each state", where=where)
    at = 0
    for level, index in zip(volume.levels, volume.indices, strict=True):
        width = BRANCHES ** (DEPTH - level)
        if index * width != at:
            raise InputError("states must cover the range in order, without a hole", where=where)
        at += width
    if at != BRANCHES**DEPTH:
        raise InputError("states must cover the whole range", where=where)
    if any(law.leaf >= len(volume.levels) for law in volume.reuse):
        raise InputError("reuse: names a state that is not there", where=where)
    if any(not len(law.lags) == len(law.parents) == len(law.offsets) for law in volume.reuse):
        raise InputError("reuse: lags, parents and offsets must be of one length", where=where)


def _check_stream(model: StorageModel, stream: StreamModel, where: str) -> None:
    if stream.volume >= len(model.volumes):
        raise InputError("volume: names a volume that is not there", where=where)
    states = len(model.volumes[stream.volume].levels)
    if len(stream.occupancy) != states:
        raise InputError(f"occupancy must have one entry for each of {states} states", where=where)
    if not sum(stream.occupancy):
        raise InputError("occupancy: no I/O in any state", where=where)
    for level, source, target, number, count in stream.transitions:
        if (
            level > DEPTH
            or max(source, target) >= BRANCHES**level
            or number >= len(model.classes)
            or not count
        ):
            raise InputError("transitions: a row names a state or class that is not there", where=where)
    for level, leaf, _ in (*stream.entries, *stream.departures):
        if level > DEPTH or leaf >= states:
            raise InputError("entries, departures: a row names a state that is not there", where=where)


def digest_of(trace: BlockTrace) -> str:
    """SHA-256 of a trace's columns."""
    digest = hashlib.sha256()
    for column in (trace.t_s, trace.volume, trace.start, trace.size, trace.read, trace.thread):
        digest.update(column.tobytes())
    return digest.hexdigest()
