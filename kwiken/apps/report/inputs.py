"""Classification of a report's input files: profile, plan, result, load records, or traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kwiken.apps.console.output import reason_of
from kwiken.base.errors import InputError
from kwiken.base.machine.files import open_regular
from kwiken.otel.http.query_address import scheme_of

HEAD = 1 << 16  # bytes that are read to tell a document from traces
MAX_BYTES = 1 << 30
FOLDER = ("profile.json", "plan.json", "plan-even.json", "demo.json", "load.jsonl")
TRACES = "traces"


@dataclass
class Found:
    """Input files by kind.

    Attributes:
        profiles: files of profiles; one at most, unless several were asked for.
        plans: files of plans; the plan spread evenly has `even` in its name.
        result: file of a demo's result; None if there is none.
        traces: files, folders and addresses of traces.
    """

    profiles: list[Path] = field(default_factory=list)
    plans: list[Path] = field(default_factory=list)
    result: Path | None = None
    loads: list[Path] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)

    @property
    def profile(self) -> Path | None:
        """File of the first profile; None if there is none."""
        return self.profiles[0] if self.profiles else None


class _Probe(msgspec.Struct):
    """Fields that tell kwiken's documents apart."""

    latency_ms: msgspec.Raw = msgspec.Raw()
    budgets: msgspec.Raw = msgspec.Raw()
    disturbance: msgspec.Raw = msgspec.Raw()
    cost: msgspec.Raw = msgspec.Raw()
    intended_s: msgspec.Raw = msgspec.Raw()


def find(given: Iterable[str], *, several_profiles: bool = False) -> Found:
    """Classify files, folders and addresses by their content.

    Args:
        given: paths of files and folders, and addresses of Jaeger.
        several_profiles: True if there may be more profiles than one.

    Raises:
        InputError: names a file that is missing or too large, or is a second profile or result.
    """
    found = Found()
    for name in given:
        if scheme_of(name) is not None:
            found.traces.append(name)
        elif Path(name).is_dir():
            _folder(Path(name), found)
        else:
            _file(Path(name), found)
    if not several_profiles:
        for second in found.profiles[1:]:
            _only(second, found.profile, "profile")
    return found


def _folder(path: Path, found: Found) -> None:
    """Add a folder: a demo's folder has files of known names, any other is a folder of traces."""
    known = [path / name for name in FOLDER if (path / name).is_file()]
    for file in known:
        _file(file, found)
    if (path / TRACES).is_dir():
        found.traces.append(str(path / TRACES))
    elif not known:
        found.traces.append(str(path))


def _file(path: Path, found: Found) -> None:
    kind = kind_of(path)
    if kind == "profile":
        found.profiles.append(path)
    elif kind == "result":
        found.result = _only(path, found.result, "result of a demo")
    elif kind == "plan":
        found.plans.append(path)
    elif kind == "load":
        found.loads.append(path)
    else:
        found.traces.append(str(path))


def _only(path: Path, other: Path | None, what: str) -> Path:
    if other is not None:
        raise InputError(f"is a second {what}, after {other}; give one", where=str(path))
    return path


def kind_of(path: Path) -> str:
    """Kind of a file by its content: `profile`, `plan`, `result`, `load`, or else `traces`.

    Raises:
        InputError: names a file that cannot be read or is too large.
    """
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
            line = head.split(b"\n", 1)[0]
            if b'"intended_s"' in line and bool(_probe(line).intended_s):
                return "load"
            if b'"version"' not in head and b'"budgets"' not in head:
                return "traces"
            data = head + file.read(MAX_BYTES + 1 - len(head))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(reason_of(error), where=str(path)) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES >> 20} MiB, the most that is read", where=str(path))
    probe = _probe(data)
    if probe.disturbance:
        return "result"
    if probe.budgets or probe.cost:
        return "plan"
    return "profile" if probe.latency_ms else "traces"


def _probe(data: bytes) -> _Probe:
    """Decode the telling fields; all are empty in other documents."""
    try:
        return msgspec.json.decode(data, type=_Probe)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Probe()
