"""Hostile inputs: special files, oversized input, output over input. Each is refused soon, in one line, with exit code 2."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.cli.shared import options
from tests.support.otel.traces import many
from tests.support.peers.hostile import profile_document
from tests.support.project.commands import one_refusal, refused, run

pytestmark = pytest.mark.timeout(100)  # whatever it is, it does not hang

MIB = 1 << 20
DIGITS = "9" * 400
LONG = "9" * 10_000  # more digits than Python converts


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sound traces, a profile and a plan for it."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "traces.json").write_text(many(20))
    (folder / "profile.json").write_text(json.dumps(profile_document(200)))
    made = run("plan", str(folder / "profile.json"), "-o", str(folder / "plan.json"), "--no-guard")
    assert made.exit_code == 0, made.stderr
    return folder


READERS: dict[str, list[str]] = {
    "fit": ["fit", "{bad}"],
    "plan": ["plan", "{bad}"],
    "plan --cost": ["plan", "{good}/profile.json", "--cost", "{bad}"],
    "explain": ["explain", "{bad}"],
    "explain --plan": ["explain", "{good}/profile.json", "--plan", "{bad}"],
    "simulate": ["simulate", "{bad}"],
    "simulate --plan": ["simulate", "{good}/profile.json", "--plan", "{bad}"],
    "export": ["export", "{bad}", "--to", "grpc"],
    "export --map": ["export", "{good}/plan.json", "--to", "grpc", "--map", "{bad}"],
    "report": ["report", "{bad}", "-o", "/dev/null"],
    "load --queries": ["load", "http://127.0.0.1:9", "--rate", "1", "--duration", "1", "--queries", "{bad}"],
    "load --arrivals": ["load", "http://127.0.0.1:9", "--duration", "1", "--arrivals", "{bad}"],
    "serve --plan": ["serve", "tests.support.services.http:service", "--local", "--plan", "{bad}"],
    "up --plan": ["up", "tests.support.services.http:service", "--port", "0", "--plan", "{bad}"],
}


def read_by(verb: str, bad: Path | str, good: Path) -> Any:
    return run(*(word.replace("{bad}", str(bad)).replace("{good}", str(good)) for word in READERS[verb]))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def nothing(path: Path) -> None:
    path.symlink_to("/dev/null")


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


def folder(path: Path) -> None:
    path.mkdir()


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a named pipe": (fifo, "is a named pipe"),
    "a link to itself": (loop, "levels of symbolic links|no such file|no file"),
    "a dangling link": (dangling, "[Nn]o such file|there is no file"),
    "a socket": (listening, "No such device|not.*file|not a regular file"),
    "an endless device": (
        zeros,
        "larger than|zero bytes|is binary|is neither|not a regular file|longer than",
    ),
    "an empty device": (nothing, "is empty|not a regular file|holds no|nothing to"),
    "a folder": (folder, "is a folder|is a directory|[Hh]olds no|not a regular file|Is a directory"),
    "a file of holes": (holes, "larger than|zero bytes|binary|is neither|longer than"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", READERS)
def test_what_is_no_file_to_read(verb: str, kind: str, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, pattern = KINDS[kind]
    monkeypatch.setattr(options, "MAX_PROFILE", 16 * MIB)  # a GiB of zeros takes seconds
    with tempfile.TemporaryDirectory(prefix="kw") as place:  # a socket's name must be short
        bad = Path(place) / "bad.json"
        make(bad)
        refused(read_by(verb, bad, good), pattern)


def with_field(path: str, text: str) -> Callable[[Any], str]:
    """A document with one field's JSON text put in; other writers than ours may write anything."""

    def change(document: Any) -> str:
        *way, last = path.split(".")
        here = document
        for key in way:
            here = here[int(key) if isinstance(here, list) else key]
        here[int(last) if isinstance(here, list) else last] = "@@"
        return json.dumps(document).replace('"@@"', text)

    return change


def twice(field: str) -> Callable[[Any], str]:
    """A document with a field given twice, the second in place of the first where nobody looks."""

    def change(document: Any) -> str:
        return json.dumps(document)[:-1] + f', "{field}": {json.dumps(document[field])}}}'

    return change


def deep(document: Any) -> str:
    return json.dumps(document)[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}"


def one_long_line(document: Any) -> str:
    return json.dumps(document) + " " * (10 * MIB) + "}"


PROFILES: dict[str, tuple[Callable[[Any], str], str]] = {
    "a huge number": (with_field("latency_ms.3", DIGITS), "latency_ms, request 3|out of range|Number"),
    "more digits than are converted": (with_field("latency_ms.3", LONG), "latency_ms|[Nn]umber|digits"),
    "1e999": (with_field("latency_ms.3", "1e999"), "[Nn]umber out of range|latency_ms"),
    "NaN": (with_field("started_s.3", "NaN"), "started_s.*3|NaN"),
    "Infinity": (with_field("stages.1.calls_ms.0.3", "-Infinity"), "calls_ms|Infinity"),
    "true for a number": (with_field("latency_ms.3", "true"), "latency_ms.*3"),
    "a time beyond the calendar": (with_field("started_s.3", "1e300"), "started_s"),
    "null for a list": (with_field("stages.1.calls_ms", "null"), r"stages.*calls_ms"),
    "shards of another length": (with_field("stages.1.calls_ms.1", "[1.0]"), "calls_ms"),
    "no shards": (with_field("stages.1.calls_ms", "[]"), "calls_ms must have from 1"),
    "no name": (with_field("stages.1.name", '""'), "name must have from 1"),
    "a name without end": (with_field("stages.1.name", f'"{"n" * MIB}"'), "name must have from 1"),
    "a service without a name": (with_field("service", '""'), "service must be a name"),
    "a version in words": (with_field("version", '"1"'), "version"),
    "half a version": (with_field("version", "1.5"), "version"),
    "a cut request that is not there": (with_field("stages.1.censored", "[[99999],[],[],[]]"), "censored"),
    "a parent that it is itself": (with_field("stages.1.after", '["lookup"]'), "lookup"),
    "replicas without number": (with_field("stages.1.replicas", DIGITS), "replicas"),
    "threads below 1": (with_field("stages.1.threads", "0"), "threads must be from 1"),
    "a count of ages": (with_field("counts", f'{{"traces": {DIGITS}}}'), "counts"),
    "a class that is not there": (with_field("classes", "[7]"), "classes"),
    "nesting without end": (deep, "nested|depth|recursion|unknown field"),
    "a line of 10 MB and a slip": (one_long_line, "trailing|malformed|broken"),
}


@pytest.mark.parametrize("case", PROFILES)
def test_profiles(case: str, good: Path, tmp_path: Path) -> None:
    change, pattern = PROFILES[case]
    path = tmp_path / "bad.json"
    path.write_text(change(json.loads((good / "profile.json").read_text())))
    refused(run("simulate", str(path), "--requests", "100"), f"{path}.*({pattern})")


PLANS: dict[str, tuple[Callable[[Any], str], str]] = {
    "a field twice": (twice("stages"), "'stages' is given twice"),
    "nesting without end": (deep, "nested too deep"),
    "a line of 10 MB and a slip": (one_long_line, ":1: broken JSON"),
    "stages in a list": (with_field("stages", "[]"), "stages: Expected `object`"),
    "a huge delay": (
        with_field("stages.spell.reissue", f'{{"after_ms": {DIGITS}}}'),
        "stage 'spell'.*after_ms",
    ),
    "more digits than are converted": (with_field("budgets.reissue", LONG), "digits|out of range"),
    "a delay of 1e999": (with_field("stages.spell.reissue", '{"after_ms": 1e999}'), "1e999 is out of range"),
    "copies in part": (with_field("stages.spell.reissue", '{"after_ms": 1, "copies": 1.5}'), "copies"),
    "a chance of 0": (with_field("stages.spell.reissue", '{"after_ms": 1, "probability": 0}'), "probability"),
    "true for a budget": (with_field("budgets.reissue", "true"), "reissue"),
    "a cost below 0": (with_field("cost.stages.spell", "-1"), "cost of stage 'spell'"),
    "a cost of NaN": (with_field("cost.stages.spell", "NaN"), "NaN is not a number"),
    "no cost": (with_field("cost", "{}"), "cost.*missing"),
    "null for all": (lambda _: "null", "Expected `object`, got `null`"),
    "a version that is true": (with_field("version", "true"), "version"),
}


@pytest.mark.parametrize("case", PLANS)
def test_plans(case: str, good: Path, tmp_path: Path) -> None:
    change, pattern = PLANS[case]
    path = tmp_path / "bad.json"
    path.write_text(change(json.loads((good / "plan.json").read_text())))
    refused(run("export", str(path), "--to", "envoy"), f"{path}.*({pattern})")


MAPS: dict[str, tuple[str, str]] = {
    "a list": ("[]", "must hold a JSON object"),
    "a stage twice": ('{"spell": "a.B/C", "spell": "a.B/D"}', "'spell' is given twice"),
    "a stage that is not there": ('{"ghost": "a.B/C"}', "no stage 'ghost'"),
    "a number": ('{"spell": 5}', "stage 'spell': must be a call"),
    "a port beyond all": ('{"spell": {"call": "a.B/C", "port": 70000}}', "stage 'spell': .*port must be"),
    "a host with a line end": (
        '{"spell": {"call": "a.B/C", "host": "a\\nb"}}',
        "stage 'spell': .*host must be",
    ),
    "a path with a query": ('{"spell": {"prefix": "/a?b"}}', "stage 'spell': .*prefix must"),
    "both": ('{"spell": {"call": "a.B/C", "prefix": "/a"}}', "give call or prefix"),
    "an unknown field": ('{"spell": {"cal": "a.B/C"}}', "stage 'spell': unknown field `cal`"),
    "nesting without end": ("[" * 100_000, "nested too deep"),
}


@pytest.mark.parametrize("case", MAPS)
def test_maps(case: str, good: Path, tmp_path: Path) -> None:
    text, pattern = MAPS[case]
    path = tmp_path / "map.json"
    path.write_text(text)
    refused(
        run("export", str(good / "plan.json"), "--to", "envoy", "--map", str(path)), f"{path}.*({pattern})"
    )


class TestPacked:
    def packed(self, path: Path, parts: Iterator[bytes]) -> str:
        with gzip.open(path, "wb", compresslevel=9) as file:
            for part in parts:
                file.write(part)
        return str(path)

    def test_blank_lines_without_end(self, tmp_path: Path) -> None:
        path = self.packed(tmp_path / "a.json.gz", (b"\n" * MIB for _ in range(64)))
        refused(run("fit", path), f"{path}:1: from this line on, more than 100,000 are blank")
        (tmp_path / "b.jsonl").write_bytes(b'{"resourceSpans":[]}\n' + b" \n" * 100_001)
        refused(run("fit", str(tmp_path / "b.jsonl")), r"b\.jsonl:2: from this line on")

    def test_lines_that_say_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kwiken.otel.read.inputs.RATIO_FREE", MIB)
        line = b'{"resourceSpans":[]}\n'
        path = self.packed(tmp_path / "a.jsonl.gz", (line * 50_000 for _ in range(4)))
        refused(run("fit", path), f"{path}: unpacks to more than 100 times its size")

    def test_a_document_of_spaces(self, tmp_path: Path) -> None:
        path = self.packed(tmp_path / "a.json.gz", (b"{" + b" " * MIB for _ in range(64)))
        refused(run("fit", path), f"{path}: unpacks to more than 100 times its size")

    def test_packed_twice(self, good: Path, tmp_path: Path) -> None:
        inner = gzip.compress((good / "traces.json").read_bytes())
        path = self.packed(tmp_path / "a.json.gz", iter([inner]))
        refused(run("fit", path), f"{path}: is binary")

    def test_what_repeats_itself_as_traces_do_is_read(self, tmp_path: Path) -> None:
        path = self.packed(tmp_path / "a.json.gz", iter([many(300).encode()]))
        assert run("fit", path).exit_code == 0


class TestFolders:
    def test_a_folder_that_may_not_be_read_is_named(
        self, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.json").write_bytes((good / "traces.json").read_bytes())
        shut = tmp_path / "deep" / "shut"
        shut.mkdir(parents=True)
        scan = os.scandir

        def guarded(path: str) -> Any:  # the tests may run as root, whom no mode keeps out
            if Path(path) == shut:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return scan(path)

        monkeypatch.setattr(os, "scandir", guarded)
        for given in (shut, tmp_path):
            refused(run("fit", str(given)), f"{shut}: cannot be read: Permission denied$")

    def test_links_in_a_circle_end(self, good: Path, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes((good / "traces.json").read_bytes())
        (tmp_path / "again").symlink_to(tmp_path)
        (tmp_path / "loop.json").symlink_to("loop.json")
        os.mkfifo(tmp_path / "pipe.json")
        assert run("fit", str(tmp_path)).exit_code == 0


def same(path: Path, folder: Path) -> str:
    return str(path)


def dotted(path: Path, folder: Path) -> str:
    return f"{path.parent}/../{path.parent.name}/{path.name}"


def symlink(path: Path, folder: Path) -> str:
    (folder / "soft").symlink_to(path)
    return str(folder / "soft")


def hard_link(path: Path, folder: Path) -> str:
    (folder / "hard").hardlink_to(path)
    return str(folder / "hard")


WRITERS: dict[str, tuple[list[str], str]] = {
    "fit": (["fit", "{in}"], "traces.json"),
    "plan": (["plan", "{in}"], "profile.json"),
    "plan --cost": (["plan", "{good}/profile.json", "--cost", "{in}"], "costs.json"),
    "export": (["export", "{in}", "--to", "grpc"], "plan.json"),
    "export --map": (["export", "{good}/plan.json", "--to", "grpc", "--map", "{in}"], "map.json"),
    "report": (["report", "{good}/plan.json", "{in}"], "profile.json"),
}


@pytest.mark.parametrize("name", [same, dotted, symlink, hard_link])
@pytest.mark.parametrize("verb", WRITERS)
def test_an_input_is_not_replaced(
    verb: str, name: Callable[[Path, Path], str], good: Path, tmp_path: Path
) -> None:
    words, kind = WRITERS[verb]
    path = tmp_path / kind
    found = good / kind
    path.write_bytes(found.read_bytes() if found.exists() else b'{"spell": 1, "lookup": 1, "audit": 1}')
    before = path.read_bytes()
    out = name(path, tmp_path)
    args = [word.replace("{in}", str(path)).replace("{good}", str(good)) for word in words]
    refused(
        run(*args, "-o", out), rf"{out}: is read too \({path}\), and would be replaced; give another file"
    )
    assert path.read_bytes() == before


class TestOutputs:
    def test_a_file_among_those_that_are_read_is_not_replaced(self, good: Path, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_bytes((good / "traces.json").read_bytes())
        out = f"{tmp_path}/./a.json"
        refused(
            run("fit", str(tmp_path), "-o", out), f"{out}: is one of the files of {tmp_path}, which are read"
        )
        assert path.read_bytes() == (good / "traces.json").read_bytes()

    def test_profiles_of_all_do_not_replace_their_traces(self, good: Path, tmp_path: Path) -> None:
        path = tmp_path / "shop_buy.json"
        path.write_bytes((good / "traces.json").read_bytes())
        refused(run("fit", str(path), "--all", "-o", str(tmp_path)), f"{path}: is read too")
        assert path.read_bytes() == (good / "traces.json").read_bytes()

    def test_records_do_not_replace_queries(self, tmp_path: Path) -> None:
        path = tmp_path / "queries"
        path.write_text("one\ntwo\n")
        args = ["load", "http://127.0.0.1:9", "--rate", "1", "--duration", "1", "--records", str(path)]
        refused(run(*args, "--queries", str(path)), f"{path}: is read too")
        refused(run(*args, "--arrivals", f"constant:{path}"), f"{path}: is read too")
        assert path.read_text() == "one\ntwo\n"

    def test_stdin_is_an_input_too(self, good: Path, tmp_path: Path) -> None:
        path = tmp_path / "profile.json"
        path.write_bytes((good / "profile.json").read_bytes())
        with path.open("rb") as stdin:
            command = [sys.executable, "-m", "kwiken", "plan", "-", "-o", str(path)]
            done = subprocess.run(
                command, stdin=stdin, capture_output=True, text=True, timeout=60, check=False
            )
        assert done.returncode == 2
        one_refusal(done.stderr, rf"{path}: is read too \(on stdin\)")

    def test_what_is_no_input_is_replaced(self, good: Path, tmp_path: Path) -> None:
        profile, out = tmp_path / "profile.json", tmp_path / "plan.json"
        profile.write_bytes((good / "profile.json").read_bytes())
        for place in (str(out), str(out), "/dev/null", "/dev/stdout", "-"):
            assert run("plan", str(profile), "--no-guard", "-o", place).exit_code == 0
        for _ in range(2):
            assert run("report", str(tmp_path), "-o", str(tmp_path / "report.html")).exit_code == 0

    @pytest.mark.parametrize("verb", ["fit", "plan", "export", "report"])
    def test_where_nothing_can_be_written(self, verb: str, good: Path, tmp_path: Path) -> None:
        words, kind = WRITERS[verb]
        args = [word.replace("{in}", str(good / kind)).replace("{good}", str(good)) for word in words]
        if verb == "export":
            (tmp_path / "map.json").write_text('{"spell": "a.B/C", "lookup": "a.B/D", "audit": "a.B/E"}')
            args += ["--map", str(tmp_path / "map.json")]
        (tmp_path / "file").write_text("x")
        for out, pattern in (
            (str(tmp_path), "is a folder"),
            (f"{tmp_path}/file/out", "Not a directory"),
            (f"{tmp_path}/none/out", "its folder does not exist"),
            ("/dev/full", "No space left"),
            (f"{tmp_path}/{'n' * 300}", "too long"),
        ):
            result = run(*args, "-o", out)
            assert result.exit_code == 2, (out, result.stderr)
            # Of an input an error repeats 200 characters.
            said = f"{out}: " if len(out) <= 200 else f"{out[:150]}n*"
            assert re.search(f"kwiken: {said}.*{pattern}", result.stderr), result.stderr
