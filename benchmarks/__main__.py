"""Command line of the benchmarks: `python -m benchmarks [--quick] [--only NAME] [--out DIR] [--list]`."""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import benchmarks
from benchmarks.formats import as_json, as_page, as_table, circumstances
from benchmarks.harness import Row

PREFIX = "bench_"
ONLY_WHEN_NAMED = frozenset(
    {
        "demo",
        "lines",
        "racks_live",
        "rented",
        "replica_choice_live",
        "size_live",
        "zones",
        "autopilot",
        "autopilot_live",
        "peers",
        "proxied",
    }
)  # they load this machine, for minutes or for hours


def modules() -> dict[str, str]:
    """Modules of all benchmarks by name: `bench_NAME` in any folder, each with `run(quick) -> list[Row]`."""
    found = (module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."))
    by_file = {module.rpartition(".")[2]: module for module in found}
    return {name.removeprefix(PREFIX): by_file[name] for name in sorted(by_file) if name.startswith(PREFIX)}


def names() -> list[str]:
    """Names of all benchmarks, sorted."""
    return list(modules())


def first_line(module: str) -> str:
    """First line of the docstring of a module, which is not imported: some need programs that are missing."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen benchmarks; exit code 1 if one failed, 2 on bad usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare, side by side in one run."
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast")
    parser.add_argument("--only", action="append", metavar="NAME", choices=names(), help="; ".join(names()))
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write NAME.json and NAME.md of each benchmark there"
    )
    parser.add_argument("--list", action="store_true", help="say what each benchmark measures, and stop")
    options = parser.parse_args(arguments)
    results: dict[str, list[Row]] = {}
    found = modules()
    if options.list:
        for name, module in found.items():
            print(f"{name:24}{first_line(module)}")
        return 0
    failed = False
    for name in options.only or [name for name in names() if name not in ONLY_WHEN_NAMED]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            results[name] = importlib.import_module(found[name]).run(options.quick)
        except Exception:  # noqa: BLE001 - one that fails must not hide the others
            failed = True
            traceback.print_exc()
    print(as_table(results))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        facts = circumstances()
        for name, rows in results.items():
            as_files = (("json", as_json), ("md", as_page))
            for ending, written in as_files:
                text = written(name, rows, quick=options.quick, facts=facts)
                (options.out / f"{name}.{ending}").write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
