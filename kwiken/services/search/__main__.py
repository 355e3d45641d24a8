"""The search service's own commands: build its index and write queries for a load."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kwiken.base.errors import KwikenError
from kwiken.services.search.index import store
from kwiken.services.search.query_mix import queries as queries_of

MAX_QUERIES = 1_000_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Search over the documentation in Python's own standard library."""


@main.command()
@click.option("--force", is_flag=True, help="Build even where a complete index exists.")
def build(*, force: bool) -> None:
    """Build the index into the cache folder (KWIKEN_CACHE, or the user's)."""
    click.echo(store.build(force=force))


@main.command()
@click.option("-n", "count", type=click.IntRange(1, MAX_QUERIES), default=1000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="File; else standard output."
)
def queries(*, count: int, seed: int, out: Path | None) -> None:
    """Write queries, one a line, drawn by Zipf's law from the corpus' own terms."""
    text = "".join(f"{query}\n" for query in queries_of(count, seed))
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")


def run() -> None:
    """Run a command; a known error is one line and exit code 2."""
    try:
        main(prog_name="python -m kwiken.services.search")
    except (KwikenError, OSError) as error:
        click.echo(f"kwiken: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
