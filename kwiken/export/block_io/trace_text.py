"""Traces as text: CSV that `kwiken storage fit` reads, and version 3 of fio's iolog."""

from __future__ import annotations

import re

from kwiken.storage.trace.block_trace import BlockTrace
from kwiken.storage.trace.formats import OWN_HEADER


def csv_text(trace: BlockTrace) -> str:
    """CSV with issue times in seconds, volumes, first bytes, bytes, R or W, and threads."""
    columns = (
        trace.t_s.tolist(),
        [clean_name(trace.volumes[volume]) for volume in trace.volume.tolist()],
        trace.start.tolist(),
        trace.size.tolist(),
        ["R" if read else "W" for read in trace.read.tolist()],
        trace.thread.tolist(),
    )
    return "\n".join((OWN_HEADER, *map("{:.9f},{},{},{},{},{}".format, *columns))) + "\n"


def iolog_text(trace: BlockTrace) -> str:
    """Iolog for fio's `read_iolog`; times are in microseconds, as fio 3.33 writes and reads them."""
    names = [file_name(trace, number) for number in range(len(trace.volumes))]
    columns = (
        (trace.t_s * 1e6).astype(int).tolist(),
        [names[volume] for volume in trace.volume.tolist()],
        ["read" if read else "write" for read in trace.read.tolist()],
        trace.start.tolist(),
        trace.size.tolist(),
    )
    return "\n".join(
        (
            "fio version 3 iolog",
            *(f"0 {name} {action}" for name in names for action in ("add", "open")),
            *map("{} {} {} {} {}".format, *columns),
            *(f"{int(trace.duration_s * 1e6)} {name} close" for name in names),
            "",
        )
    )


def file_name(trace: BlockTrace, volume: int) -> str:
    """Name of the file that stands for a volume."""
    return f"kwiken-{volume}-{clean_name(trace.volumes[volume])}.dat"


def clean_name(name: str) -> str:
    """Name without characters that separate fields or folders."""
    return re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:100] or "_"
