"""A storage model as a job file of fio: one job for each stream, with its zones, sizes, mix and rate.

fio takes whole percents. They are rounded so that their running sum is right within half a percent, which
keeps every range of states within one point. What fio cannot be told is written into the file as a remark:
which blocks are touched again, and gaps other than those of a Poisson process.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Ints
from kwiken.base.errors import InputError
from kwiken.export.block_io.trace_text import clean_name
from kwiken.storage.model.document import StorageModel, VolumeModel
from kwiken.storage.model.generator import tree_of

MAX_STREAMS: Final = 256  # of one job file
MAX_SIZES: Final = 64  # of one `bssplit`
PERCENT: Final = 100
BLOCK: Final = 4096  # bytes; borders of zones are multiples of it


@dataclass(frozen=True, eq=False)
class _Mix:
    """What a job is told of one stream: I/Os by state, and by class."""

    occupancy: Ints
    size: Ints
    read: Ints
    sequential: Ints
    count: Ints


def fio_job(model: StorageModel, *, ios: int, scale: float = 1.0) -> str:
    """Job file that fio runs as it is, in a folder whose file system has sparse files.

    Each volume is a sparse file that the job makes, of the volume's own length and without data; its name
    holds a part of the trace's digest, so that no file of another's is written.

    Args:
        ios: number of I/Os in all.
        scale: factor of every gap: below 1 the load is more intense.

    Raises:
        InputError: more streams than one job file may hold, or too few I/Os for any.
    """
    members = model.members
    if len(members) > MAX_STREAMS:
        raise InputError(
            f"the model has {len(members)} streams; a job file holds {MAX_STREAMS} at most", where="fio"
        )
    total = sum(sum(stream.occupancy) for stream in model.streams)
    widest = max(each.size for each in model.classes)
    makes, runs, made = [], [], set[int]()
    volumes = {name: at for at, name in enumerate(name for each in model.volumes for name in each.names)}
    for number, ((of, called), share) in enumerate(zip(members, _shares(model), strict=True)):
        planned = round(share / total * ios)
        if planned < 1:
            continue
        volume, at = model.volumes[model.streams[of].volume], volumes[called]
        name = f"kwiken-{model.trained.digest[:8] or 'model'}-{at}-{clean_name(called)[:40]}.dat"
        # fio rounds a range down to whole I/Os, and refuses zones that reach beyond what is left.
        end = -(-(volume.high + 2 * widest) // BLOCK) * BLOCK
        if at not in made:
            made.add(at)
            makes.append(
                f"[make-{at}]\nfilename={name}\nrw=write\nbs={BLOCK}\noffset={end - BLOCK}\nsize={BLOCK}\n"
            )
        rate = share / total * model.rate_per_s / scale
        runs.append(_run_section(number, name, end, _mix_of(model, of), planned, rate, volume))
    if not runs:
        raise InputError(f"{ios} I/Os are too few for any stream", where="fio")
    runs[0] = runs[0].replace("\n", "\nstonewall\n", 1)
    return "\n".join((HEAD, *makes, *runs))


HEAD: Final = f"""; Made by kwiken storage generate --to fio. Run with: fio FILE
; fio cannot be told which blocks are touched again and how gaps vary; --to iolog has both.
[global]
ioengine=psync
thread=1
fallocate=none
create_on_open=1
norandommap=1
randrepeat=0
blockalign={BLOCK}
"""


def _shares(model: StorageModel) -> list[float]:
    """Number of I/Os of each member; volumes that are alike share theirs as the order of members says."""
    turns = np.zeros(len(model.members))
    for _, target, count in model.order:
        turns[target] += count
    stream = np.array([number for number, _ in model.members])
    ios = np.array([sum(each.occupancy) for each in model.streams])
    of_stream = np.bincount(stream, weights=turns)
    share = np.where(
        of_stream[stream] > 0, turns / np.maximum(of_stream[stream], 1), 1 / np.bincount(stream)[stream]
    )
    found: list[float] = (share * ios[stream]).tolist()
    return found


def _mix_of(model: StorageModel, number: int) -> _Mix:
    stream = model.streams[number]
    rows = np.array([row[3:] for row in stream.transitions], dtype=np.int64)
    counts = np.bincount(rows[:, 0], weights=rows[:, 1], minlength=len(model.classes)).astype(np.int64)
    used = np.flatnonzero(counts)
    return _Mix(
        np.array(stream.occupancy, dtype=np.int64),
        np.array([model.classes[number].size for number in used]),
        np.array([model.classes[number].read for number in used], dtype=np.int64),
        np.array([model.classes[number].sequential for number in used], dtype=np.int64),
        counts[used],
    )


def _run_section(
    number: int, name: str, end: int, mix: _Mix, ios: int, rate_per_s: float, volume: VolumeModel
) -> str:
    low = volume.low // BLOCK * BLOCK
    reads = int(mix.count[mix.read == 1].sum()) / int(mix.count.sum())
    read_percent = round(PERCENT * reads)
    kinds = {PERCENT: "randread", 0: "randwrite"}
    lines = [
        f"[stream-{number}]",
        f"filename={name}",
        f"filesize={end}",
        f"offset={low}",
        f"size={end - low}",
        f"number_ios={ios}",
        f"rw={kinds.get(read_percent, 'randrw')}",
    ]
    if read_percent not in kinds:
        lines.append(f"rwmixread={read_percent}")
    shares = (reads, 1.0 - reads)
    sides = [mix.read == 1, mix.read == 0]
    lines += [
        "bssplit=" + ",".join(_sizes(mix.size[side], mix.count[side]) for side in sides if side.any())
        if all(side.any() for side in sides)
        else "bssplit=" + _sizes(mix.size, mix.count),
        # fio goes on where its last read, or its last write, ended, and here any I/O may lie between.
        "percentage_random="
        + ",".join(str(_random(mix, side, share)) for side, share in zip(sides, shares, strict=True)),
        "random_distribution=zoned_abs:" + _zones(volume, mix.occupancy, low),
        "rate_iops=" + ",".join(str(max(1, round(rate_per_s * max(share, 1e-9)))) for share in shares),
        "rate_process=poisson",
        "",
    ]
    return "\n".join(lines)


def _random(mix: _Mix, side: np.ndarray[tuple[int], np.dtype[np.bool_]], share: float) -> int:
    total = int(mix.count[side].sum())
    if not total or share <= 0:
        return PERCENT
    sequential = int((mix.count * mix.sequential)[side].sum()) / total
    return PERCENT - round(PERCENT * min(1.0, sequential / share))


def _sizes(size: Ints, count: Ints) -> str:
    """Sizes with whole percents, of which none is 0."""
    sizes, which = np.unique(size, return_inverse=True)
    counts = np.bincount(which, weights=count)
    kept = np.sort(np.argsort(counts, kind="stable")[-MAX_SIZES:])
    shares = whole_percents(counts[kept].tolist())
    return ":".join(
        f"{bytes_}/{percent}" for bytes_, percent in zip(sizes[kept].tolist(), shares, strict=True) if percent
    )


def _zones(volume: VolumeModel, occupancy: Ints, low: int) -> str:
    """Zones of whole percents of the accesses: consecutive states, cut where their sum reaches one."""
    edges = tree_of(volume).edges // BLOCK * BLOCK
    edges[0], edges[-1] = low, -(-volume.high // BLOCK) * BLOCK
    sums = np.concatenate(([0.0], np.cumsum(occupancy) / max(int(occupancy.sum()), 1)))
    borders = np.rint(sums * PERCENT).astype(np.int64)
    cut = [0]
    for at in range(1, len(borders)):
        if (borders[at] > borders[cut[-1]] or at == len(borders) - 1) and edges[at] > edges[cut[-1]]:
            cut.append(at)
    zones = [
        (int(borders[after] - borders[before]), int(edges[after] - edges[before]))
        for before, after in itertools.pairwise(cut)
    ]
    return ":".join(f"{percent}/{width}" for percent, width in zones)


def whole_percents(counts: Sequence[float]) -> list[int]:
    """Whole percents that sum to 100, whose running sums are right within half a percent."""
    sums = np.cumsum(counts)
    borders = np.rint(PERCENT * sums / sums[-1]).astype(np.int64)
    return [int(found) for found in np.diff(borders, prepend=0)]
