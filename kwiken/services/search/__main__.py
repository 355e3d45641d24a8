"""The search service's own commands: build its index, judge its answers, measure its stages, make queries."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from kwiken.base.errors import KwikenError
from kwiken.services.search import search
from kwiken.services.search.index import store
from kwiken.services.search.measures import (
    local,
    measure as measure_module,
    quality as quality_module,
    queries as queries_module,
)

MOST_QUERIES = 1_000_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Search over the documentation in Python's own standard library."""


@main.command()
@click.option("--force", is_flag=True, help="Build even where a complete index exists.")
def build(*, force: bool) -> None:
    """Build the index into the cache folder (KWIKEN_CACHE, or the user's)."""
    click.echo(store.build(force=force))


@main.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")
def ask(words: tuple[str, ...], *, as_json: bool) -> None:
    """Answer one query in this process."""
    answer = local.answer(search, " ".join(words))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(answer)))
        return
    if answer.corrected:
        click.echo(f"showing results for: {answer.corrected}")
    for result in answer.results:
        click.echo(f"{result.name}{result.signature}  [{result.kind}]\n    {''.join(result.snippet)}")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--misses", is_flag=True, help="List the queries that fell short.")
def quality(*, as_json: bool, misses: bool) -> None:
    """Judge the answers to known queries: mean reciprocal rank, and how high wanted documents stand."""
    verdicts = {
        name: quality_module.judge(search, judged) for name, judged in quality_module.judgements().items()
    }
    scores = {name: quality_module.score(found) for name, found in verdicts.items()}
    if as_json:
        click.echo(msgspec.json.encode(scores))
        return
    table = _table("set", "queries", "MRR", "first", "in first 3", "as judged")
    for name, score in scores.items():
        shares = (score.mrr, score.first, score.top3, score.good)
        table.add_row(name, str(score.queries), *(f"{share:.3f}" for share in shares))
    Console().print(table)
    for found in verdicts.values() if misses else ():
        for verdict in found:
            if not verdict.good:
                click.echo(
                    f"{verdict.query!r}: wanted at {verdict.rank}; first {', '.join(verdict.found[:3])}"
                )


@main.command()
@click.option("-n", "count", type=click.IntRange(1, MOST_QUERIES), default=2000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def profile(*, count: int, seed: int, as_json: bool) -> None:
    """Measure each stage's calls over a mix of queries, and start-up time and memory of its process."""
    found = measure_module.costs(search, queries_module.queries(count + measure_module.WARM_UP_QUERIES, seed))
    loads = {name: measure_module.load(name) for name in search.stages}
    if as_json:
        click.echo(msgspec.json.encode({"costs": found, "loads": loads}))
        return
    table = _table(
        "stage", "calls", "mean ms", "p50", "p95", "p99", "most", "ready in s", "MiB", "of them ours"
    )
    for cost in found:
        times = (f"{ms:.3f}" for ms in (cost.mean, cost.p50, cost.p95, cost.p99, cost.most))
        load = loads.get(cost.stage)
        ours = (f"{load.seconds:.2f}", f"{load.peak:.0f}", f"{load.peak - load.base:.0f}") if load else ()
        table.add_row(cost.stage, str(cost.calls), *times, *ours)
    Console().print(table)


@main.command()
@click.option("-n", "count", type=click.IntRange(1, MOST_QUERIES), default=1000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="File; else standard output."
)
def queries(*, count: int, seed: int, out: Path | None) -> None:
    """Write queries, one a line, drawn by Zipf's law from the corpus' own terms."""
    text = "".join(f"{query}\n" for query in queries_module.queries(count, seed))
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def run() -> None:
    """Run a command; a known error is one line and exit code 2."""
    try:
        main(prog_name="python -m kwiken.services.search")
    except (KwikenError, OSError) as error:
        click.echo(f"kwiken: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
