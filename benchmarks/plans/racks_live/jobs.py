"""Jobs of the demonstration, as a module that `kwiken batch run` takes: maps, a shuffle, reduces.

Tasks sleep in place of computing, so that the processors of one machine stand for those of three racks.
The bytes of the shuffles are real and cross the links of the racks.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any, Final

MB: Final = 1_000_000
# By job: megabytes of input, maps, reduces, and seconds of each task.
SIZES: Final[dict[str, tuple[int, int, int, float]]] = {
    "clicks": (72, 4, 4, 3.0),
    "index": (64, 4, 4, 2.0),
    "features": (56, 4, 4, 3.0),
    "sessions": (48, 4, 4, 2.0),
    "billing": (40, 4, 4, 3.0),
    "joins": (32, 4, 4, 2.0),
    "report": (16, 4, 4, 2.0),
    "audit": (8, 4, 4, 2.0),
}


def make_part(size: int) -> bytes:
    """Part of a job's input; random bytes, which no connection compresses."""
    return os.urandom(size)


def map_part(part: bytes, pieces: int, seconds: float) -> list[bytes]:
    """Compute on a part and cut it into a piece for each reduce."""
    time.sleep(seconds)
    size = len(part) // pieces
    return [part[place * size : (place + 1) * size] for place in range(pieces)]


def piece_of(pieces: list[bytes], place: int) -> bytes:
    """Piece of one reduce."""
    return pieces[place]


def reduce_pieces(pieces: list[bytes], seconds: float) -> int:
    """Compute on the pieces of all maps."""
    time.sleep(seconds)
    return sum(map(len, pieces))


def sum_of(sizes: list[int]) -> int:
    """Bytes that all reduces of a job got."""
    return sum(sizes)


def _data(name: str) -> Any:
    from dask import delayed

    megabytes, maps, _, _ = SIZES[name]
    return [
        delayed(make_part, pure=False)(megabytes * MB // maps, dask_key_name=f"{name}-part-{place}")
        for place in range(maps)
    ]


def _job(name: str, parts: list[Any]) -> Any:
    from dask import delayed

    _, _, reduces, seconds = SIZES[name]
    mapped = [delayed(map_part, pure=False)(part, reduces, seconds) for part in parts]
    reduced = [
        delayed(reduce_pieces, pure=False)(
            [delayed(piece_of, pure=False)(pieces, place) for pieces in mapped], seconds
        )
        for place in range(reduces)
    ]
    return delayed(sum_of, pure=False)(reduced)


JOBS: Final[dict[str, Callable[..., Any]]] = {name: functools.partial(_job, name) for name in SIZES}
DATA: Final[dict[str, Callable[[], Any]]] = {name: functools.partial(_data, name) for name in SIZES}


def fetched_by_source(dask_worker: Any) -> dict[str, int]:
    """Bytes that a worker has fetched from each other worker, by the other's address."""
    found: dict[str, int] = {}
    for transfer in dask_worker.transfer_incoming_log:
        found[transfer["who"]] = found.get(transfer["who"], 0) + int(transfer["total"])
    return found
