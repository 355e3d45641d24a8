"""Command that draws mutants and counts those that the tests let live: `make mutants SEED=1 ROOM=allocator/packing`.

Each mutant changes a copy of the tree, never the checkout, and meets the fast tests of its room and those that
import what is changed. A mutant whose tests take LIMIT times the processor time of the original counts as caught:
its loop does not end.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.support.project.mutants.draw import ROOMS, ROOT, chosen_rooms, drawn, reason
from tests.support.project.mutants.kinds import Mutant

LIMIT: Final = 4  # processor time of a mutant's tests, in times that of the original
SPARE_S: Final = 20
NAMED: Final = (ast.FunctionDef, ast.ClassDef)
SHOWN: Final = 90  # characters of source in a line of the result
FAILED: Final = (1, 2)  # exit codes of pytest: a test failed, a file of tests could not be loaded


def ordered(room: str, copy: Path, path: str) -> list[str]:
    """Files of tests of a room and of the importers of a file, those first that name most of what it defines."""
    words = {node.name for node in ast.walk(ast.parse((copy / path).read_text())) if isinstance(node, NAMED)}
    words |= {Path(path).stem}
    texts = {file: file.read_text(encoding="utf-8") for file in sorted((copy / "tests").rglob("test_*.py"))}
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    of_room = tuple(f"{copy / folder}/" for folder in ROOMS[room].tests)
    concerned = [
        file
        for file, text in texts.items()
        if str(file).startswith(of_room) or re.search(rf"\b{re.escape(module)}\b(?!\.)", text)
    ]

    def named(file: Path) -> int:
        return len(words & set(re.findall(r"\w+", texts[file])))

    return [file.relative_to(copy).as_posix() for file in sorted(concerned, key=lambda file: -named(file))]


def tests_of(tests: Sequence[str], copy: Path, limit_s: int | None) -> tuple[int, float, str]:
    """Exit code, processor seconds and output of some tests in a copy of the tree."""

    def limited() -> None:
        if limit_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + SPARE_S))

    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        "not slow and not stack",
        "-p",
        "no:cacheprovider",
    ]
    chance = ["--hypothesis-profile", "unshrunk"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, *chance, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, used_s, done.stdout + done.stderr


def verdict(mutant: Mutant, tests: Sequence[str], copy: Path, limit_s: int) -> str:
    """What became of a mutant: "caught" with the test that failed, or "survived"."""
    file = copy / mutant.path
    source = file.read_bytes()
    try:
        write(file, mutant.applied(source))
        code, _, output = tests_of(tests, copy, limit_s)
    finally:
        write(file, source)
    if code == 0:
        return "survived"
    if code < 0:
        return "caught: out of time"
    if code not in FAILED:
        raise SystemExit(f"pytest ended with {code}:\n{output}")
    named = [line.split(" - ")[0] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"caught: {named[0].rpartition('/')[2] if named else 'by its end'}"


def write(file: Path, source: bytes) -> None:
    """Write a module; what was compiled of it is told by seconds and size only, and goes."""
    file.write_bytes(source)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def copied(copy: Path) -> None:
    """Copy the files of the checkout, as they are now, into a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)


def main(say: Callable[[str], None] = lambda text: print(text, flush=True)) -> None:  # noqa: T201
    """Draw mutants, give each to the tests of its room, and print what became of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=25)
    options.add_argument("--room", default="", help="a room of `kwiken/`, or a wing; all by default")
    options.add_argument("--only", type=int, nargs="*", help="numbers of the mutants to try; all by default")
    limit = "processor seconds of a mutant's tests, which are then not run without a mutant first"
    options.add_argument("--limit-s", type=int, default=0, help=limit)
    options.add_argument("--list", action="store_true", help="only show the mutants")
    chosen = options.parse_args()
    counts = {"caught": 0, "survived": 0, "equivalent": 0}
    limits: dict[frozenset[str], int] = {}
    try:
        rooms = chosen_rooms(chosen.room)
    except ValueError as error:
        options.error(str(error))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        copied(copy)
        for number, (room, mutant) in enumerate(drawn(chosen.seed, chosen.count, rooms), 1):
            if chosen.only and number not in chosen.only:
                continue
            change = " -> ".join(" ".join(text.split())[:SHOWN] for text in (mutant.before, mutant.after))
            told = f"{number:3} {mutant.path}:{mutant.line} {mutant.kind}: {change}"
            if chosen.list:
                say(told)
                continue
            if (why := reason(mutant)) is not None:
                counts["equivalent"] += 1
                say(f"{told}\n    equivalent: {why}")
                continue
            tests = ordered(room, copy, mutant.path)
            concerned = frozenset(tests)
            if chosen.limit_s:
                limits[concerned] = chosen.limit_s
            if concerned not in limits:
                code, used_s, output = tests_of(tests, copy, None)
                if code != 0:
                    raise SystemExit(f"the tests of {room} fail without a mutant:\n{output}")
                limits[concerned] = int(LIMIT * used_s) + 1
            began_s = time.monotonic()
            end = verdict(mutant, tests, copy, limits[concerned])
            counts[end.partition(":")[0]] += 1
            say(f"{told}\n    {end} ({time.monotonic() - began_s:.0f} s)")
    if not chosen.list:
        say(f"seed {chosen.seed}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
