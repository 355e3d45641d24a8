"""Reader of SWIM's tables of MapReduce jobs: name, times and bytes, tab separated, without tasks."""

from __future__ import annotations

from typing import Final

from kwiken.batch.jobs.job import MAX_MS, BatchJob, BatchStage, StageBytes
from kwiken.batch.jobs.logs.collected import MAX_NAME

COLUMNS: Final = 6
BLOCK_BYTES: Final = 128 << 20  # of input for one map, the default of Hadoop
MS: Final = 1000


class SwimReader:
    """Reader of the lines of a table; each line is one job.

    Args:
        name: unused: each job of a table has a name.
    """

    def __init__(self, name: str) -> None:
        del name
        self._jobs: list[BatchJob] = []

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: a line without the six columns, a job without a name, or a number that is none,
                negative or too large.
        """
        if not line.strip():
            return
        cells = line.decode("utf-8", errors="replace").rstrip("\r\n").split("\t")
        if len(cells) != COLUMNS:
            raise ValueError(f"has {len(cells)} columns; a table of SWIM has {COLUMNS}")
        at_s, _, read, shuffled, written = (int(cell) for cell in cells[1:])
        if min(at_s, read, shuffled, written) < 0:
            raise ValueError("has a negative number")
        if max(at_s * MS, read, shuffled, written) > MAX_MS:
            raise ValueError("has a number that is too large: bytes and milliseconds are at most 2^53")
        name = cells[0].strip()[:MAX_NAME]
        if not name:
            raise ValueError("has no name of a job")
        self._jobs.append(swim_job(name, at_s=at_s, read=read, shuffled=shuffled, written=written))

    def jobs(self) -> list[BatchJob]:
        """Jobs of the table."""
        return self._jobs


def swim_job(name: str, *, at_s: int, read: int, shuffled: int, written: int) -> BatchJob:
    """Job of which only bytes are known: a map for each block of input, a reduce for each block of shuffle.

    Args:
        at_s: time of submission, seconds since the table's start.
        read: bytes of input from storage, 0 or more.
        shuffled: bytes from maps to reduces; 0 for a job of maps alone, whose output is `written`.
        written: bytes of output to storage, 0 or more.
    """
    maps = max(1, -(-read // BLOCK_BYTES))
    bytes_of_maps = StageBytes(read=read, shuffle_written=shuffled, written=0 if shuffled else written)
    stages = [BatchStage(name="map", n_tasks=maps, bytes=bytes_of_maps)]
    if shuffled:
        stages.append(
            BatchStage(
                name="reduce",
                n_tasks=max(1, -(-shuffled // BLOCK_BYTES)),
                parents=[0],
                after=[0],
                bytes=StageBytes(shuffled_remote=shuffled, written=written),
            )
        )
    return BatchJob(
        name=name,
        engine="swim",
        submitted_ms=at_s * MS,
        stages=stages,
        unknown=["times and tasks: the table has sizes alone; tasks are taken as one a block of 128 MiB"],
    )
