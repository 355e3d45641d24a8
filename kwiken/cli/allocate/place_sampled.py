"""`kwiken place --scheduler sampled`: guarantee, and a stream of arrivals as lines of JSON.

Input lines: `{"arrive": JOB, "workload": NAME}` and `{"depart": JOB}`. Output lines, in the same order:
`{"job": JOB, "node": NODE}`, with `"redraws"` where another agent was faster, `"again"` where the job stood
already and `"rank"` where the choice was compared with a full scan; `{"job": JOB, "node": null}` where no
node can take the job; `{"job": JOB, "departed": true}`, or false for a job that does not stand.

A journal makes it safe to kill: each group of answers is in the journal before it is printed. Started again
with the journal, the program knows all jobs that stand, and answers a repeated arrival with the same node.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.sampling.agent import SampledKind, sampled_kind
from kwiken.allocator.sampling.arrivals import ArrivalPlacer, PlacedArrival, rank_among_all, restore
from kwiken.allocator.sampling.sample_size import (
    Guarantee,
    guarantee_from_text,
)
from kwiken.allocator.sampling.shared_nodes import SharedNodes
from kwiken.allocator.schedulers.sampled import DEFAULT_GUARANTEE, SampledScheduler
from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_own, read_file
from kwiken.model.nodes.nodes import Cluster

CHUNK: Final = 1 << 16  # bytes that are read at once
MAX_LINE: Final = 1 << 12  # bytes of one line
MAX_JOBS: Final = 1_000_000  # that stand at once
MAX_JOURNAL: Final = 1 << 30  # bytes
MAX_NAME: Final = 200  # characters of a job's name
LINE_START: Final = b'{"job":"'  # of every line of a journal
_Name = msgspec.Meta(min_length=1, max_length=MAX_NAME)


class SampledSettings(NamedTuple):
    """Options of the sampled scheduler.

    Attributes:
        promised: guarantee as `QUALITY:FAILURE`; None for the default.
        scan_every: number of decisions of a stream for each one that is compared with a full scan.
    """

    promised: str | None
    stream: bool
    agents: int
    journal: str | None
    scan_every: int


class StreamLine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One line: an arrival or a departure.

    Attributes:
        arrive: name of a job that arrives; None for a departure.
        workload: name of the workload that it is a replica of.
        depart: name of a job that departs; None for an arrival.
    """

    arrive: str | None = None
    workload: str | None = None
    depart: str | None = None


class JournalLine(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """One change of the state.

    Attributes:
        workload: its workload; empty for a departure.
        node: name of its node; empty for a departure.
    """

    job: str
    workload: str = ""
    node: str = ""


@dataclass
class StreamFigures:
    """Figures of a stream of arrivals.

    Attributes:
        decide_s: processor time of the decisions, seconds.
        scan_s: processor time of the full scans, seconds.
        ranks: ranks of the choices that were compared with a full scan.
    """

    decisions: int = 0
    refused: int = 0
    redraws: int = 0
    decide_s: float = 0.0
    scan_s: float = 0.0
    ranks: list[float] = field(default_factory=list)


_decode = msgspec.json.Decoder(StreamLine).decode
_encode = msgspec.json.Encoder().encode


class PlacementStream:
    """Reads lines, places, and writes answers.

    Args:
        state: nodes, all of them empty; the journal is replayed there.
        settings: agents, journal, and how often a choice is compared with a full scan.
    """

    def __init__(
        self,
        requests: Sequence[PlacementRequest],
        state: SharedNodes,
        guarantee: Guarantee,
        settings: SampledSettings,
        seed: int,
    ) -> None:
        self._state = state
        self._kinds = {one.name: sampled_kind(one, one.typical_size) for one in requests}
        self._arrivals = ArrivalPlacer(state, guarantee.draws, settings.agents, seed)
        self._guarantee, self._agents, self._scan_every = guarantee, settings.agents, settings.scan_every
        self._names = [node.name for node in state.ledger.cluster.nodes]
        self.figures = StreamFigures()
        self._journal = (
            None if settings.journal is None else _open_journal(settings.journal, state, self._kinds)
        )

    def run(self) -> None:
        """Answer all lines of stdin.

        Raises:
            InputError: names the line that is wrong; what came before it is answered.
        """
        number = 0
        for lines in _chunks():
            group: list[tuple[str, str]] = []
            for line in lines:
                number += 1
                try:
                    found = self._line(line, number)
                except InputError:
                    self._arrive(group)
                    raise
                if found.arrive is not None and found.workload is not None:
                    group.append((found.arrive, found.workload))
                    if len(group) == self._agents:
                        self._arrive(group)
                        group = []
                elif found.depart is not None:
                    self._arrive(group)
                    group = []
                    self._depart(found.depart)
            self._arrive(group)
            sys.stdout.buffer.flush()

    def _line(self, line: bytes, number: int) -> StreamLine:
        where = f"line {number}"
        if not line.endswith(b"\n"):
            raise InputError("ends in the middle; what came before it is answered", where=where)
        try:
            found = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"is no arrival or departure: {error}", where=where) from None
        name = found.arrive if found.depart is None else found.depart
        if (found.arrive is None) == (found.depart is None) or not name or len(name) > MAX_NAME:
            raise InputError(
                'must be {"arrive": JOB, "workload": NAME} or {"depart": JOB}, with names of 1 to '
                f"{MAX_NAME} characters",
                where=where,
            )
        if found.arrive is not None and found.workload not in self._kinds:
            known = ", ".join(list(self._kinds)[:5])
            raise InputError(f"workload: no workload {found.workload!r}; known: {known}", where=where)
        if found.depart is not None and found.workload is not None:
            raise InputError("workload: not for a departure", where=where)
        return found

    def _arrive(self, group: Sequence[tuple[str, str]]) -> None:
        if not group:
            return
        if len(self._state) + len(group) > MAX_JOBS:
            raise InputError(f"more than {MAX_JOBS} jobs stand at once", where="stdin")
        began = time.process_time()
        placed = self._arrivals.place([(job, self._kinds[workload]) for job, workload in group])
        figures = self.figures
        figures.decide_s += time.process_time() - began
        self._write_journal(
            JournalLine(one.job, workload, self._names[one.node])
            for one, (_, workload) in zip(placed, group, strict=True)
            if one.node is not None and not one.again
        )
        for one, (_, workload) in zip(placed, group, strict=True):
            figures.decisions += 1
            figures.refused += one.node is None
            figures.redraws += one.redraws
            answer = self._answer(one)
            if self._scan_every and figures.decisions % self._scan_every == 0 and not one.again:
                self._scan(one.job, workload, answer)
            sys.stdout.buffer.write(_encode(answer) + b"\n")

    def _answer(self, one: PlacedArrival) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "job": one.job,
            "node": None if one.node is None else self._names[one.node],
        }
        if one.redraws:
            answer["redraws"] = one.redraws
        if one.again:
            answer["again"] = True
        return answer

    def _scan(self, job: str, workload: str, answer: dict[str, Any]) -> None:
        """Compare a choice with all nodes, as if the job did not stand yet."""
        draw = self._state.draw_of(job)
        if draw is None:
            return
        self._state.ledger.release(draw)
        began = time.process_time()
        answer["rank"] = rank_among_all(self._kinds[workload], self._state, draw)
        self.figures.scan_s += time.process_time() - began
        self._state.ledger.take(draw)
        self.figures.ranks.append(answer["rank"])

    def _depart(self, job: str) -> None:
        departed = self._state.release(job) is not None
        if departed:
            self._write_journal([JournalLine(job)])
        sys.stdout.buffer.write(_encode({"job": job, "departed": departed}) + b"\n")

    def _write_journal(self, lines: Iterator[JournalLine] | Sequence[JournalLine]) -> None:
        if self._journal is not None:
            data = b"".join(_encode(line) + b"\n" for line in lines)
            while data:
                data = data[os.write(self._journal, data) :]

    def told(self) -> list[str]:
        """Figures of the stream, a line each."""
        figures, guarantee = self.figures, self._guarantee
        if not figures.decisions:
            return ["no arrivals"]
        each = figures.decide_s / figures.decisions
        pace = (
            f"{figures.decisions} decisions of {guarantee.draws} samples by {self._agents} agents, "
            f"{1 / max(each, 1e-9):,.0f} a second of processor time; {figures.refused} found no node, "
            f"{figures.redraws} drawn again"
        )
        lines = [pace]
        if figures.ranks:
            scan = figures.scan_s / len(figures.ranks)
            missed = sum(rank <= guarantee.quality for rank in figures.ranks)
            found = (
                f"{missed} of {len(figures.ranks)} choices that were scanned are not as good as "
                f"{guarantee.quality:.4g} of the nodes with room; the guarantee allows "
                f"{guarantee.failure * len(figures.ranks):.3g} in the mean; mean rank "
                f"{sum(figures.ranks) / len(figures.ranks):.3f}"
            )
            lines += [
                f"a full scan takes {scan * 1e3:.3g} ms, {scan / max(each, 1e-9):.3g} times a decision",
                found,
            ]
        return lines


def _chunks() -> Iterator[list[bytes]]:
    """Lines of stdin as they come, all that can be read at once; an unfinished line is the last one."""
    rest = b""
    while data := os.read(sys.stdin.fileno(), CHUNK):
        lines = (rest + data).splitlines(keepends=True)
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        if len(rest) > MAX_LINE:
            raise InputError(f"a line is longer than {MAX_LINE} bytes", where="stdin")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _open_journal(path: str, state: SharedNodes, kinds: Mapping[str, SampledKind]) -> int:
    """Replay a journal, lock it and open it for more; a last line that was cut by a kill is taken away.

    A file that is no journal is refused before anything in it changes.

    Raises:
        InputError: names the line that does not fit the nodes or workloads; another process has the journal.
    """
    handle = open_own(Path(path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError("is the journal of a stream that runs; give another file", where=path) from None
    data = read_file(path, MAX_JOURNAL)
    whole = data.rfind(b"\n") + 1
    cut = data[whole:]
    index = state.ledger.cluster.index_of
    decode = msgspec.json.Decoder(JournalLine).decode
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        where = f"{path}: line {number}"
        try:
            found = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"is no change of a journal: {error}", where=where) from None
        if not found.node:
            if state.release(found.job) is None:
                raise InputError(f"no job {found.job!r} stands", where=where)
        elif found.node not in index or found.workload not in kinds:
            raise InputError("names a node or workload that is not there", where=where)
        elif not restore(state, kinds, found.job, found.workload, index[found.node]):
            raise InputError(f"node {found.node!r} has no room for {found.job!r}", where=where)
    if cut[: len(LINE_START)] != LINE_START[: len(cut)]:
        raise InputError("its last line is no change of a journal, whole or cut", where=path)
    os.ftruncate(handle, whole)
    return handle


def _guarantee(text: str | None, nodes: int) -> Guarantee:
    """The guarantee that was asked for, or the default.

    Raises:
        InputError: another form, numbers outside 0 to 1, or one that more nodes would be needed for.
    """
    found = DEFAULT_GUARANTEE if text is None else guarantee_from_text(text)
    if text is not None and found.draws > nodes:
        raise InputError(
            f"{text} needs {found.draws} nodes to draw from, and there are {nodes}", where="--guarantee"
        )
    return found


def answered(
    settings: SampledSettings,
    requests: Sequence[PlacementRequest],
    cluster: Cluster,
    seed: int,
) -> bool:
    """Answer a stream, if that is asked for; returns whether it was."""
    guarantee = _guarantee(settings.promised, len(cluster.nodes))
    if settings.stream:
        stream = PlacementStream(requests, SharedNodes(cluster), guarantee, settings, seed)
        try:
            stream.run()
        finally:
            sys.stdout.buffer.flush()
            for line in stream.told():
                note(line)
    else:
        return False
    return True


def sampler_for(settings: SampledSettings, nodes: int, seed: int) -> SampledScheduler:
    """Scheduler that also compares its choices with full scans."""
    guarantee = _guarantee(settings.promised, nodes)
    return SampledScheduler(np.random.default_rng(seed), guarantee, scanned=True)


def sampler_words(sampler: SampledScheduler) -> str:
    """What was examined and promised, and what full scans say of it."""
    ranks, promised = sampler.ranks, sampler.guarantee
    words = (
        f"up to {promised.draws} nodes with room are examined for each replica, so that but for one in "
        f"{1 / promised.failure:.4g} its node is as good as {promised.quality:.4g} of them or better"
    )
    if not ranks:
        return words
    missed = sum(rank <= promised.quality for rank in ranks)
    mean = sum(ranks) / len(ranks)
    return f"{words}; beside full scans {missed} of {len(ranks)} are not, and the mean rank is {mean:.3f}"
