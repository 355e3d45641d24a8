"""`python -m papers`: recomputes the tables and figures of a published source beside its values."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwiken.apps.console.output import (
    note_written,
    print_json,
    print_table,
    progress,
    read_text,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.cli.shared.engines import engine_options, spread
from kwiken.cli.shared.options import json_option, needs_extra, refuse_shared_stdout
from papers.command import PaperCommand

if TYPE_CHECKING:
    from papers.figures.rows import FigureRow, MissingRow

MAX_LINE_WIDTH = 110  # characters
MAX_SEEDS = 64
MAX_BYTES = 16 << 20  # of one file of results
VERDICT = 8  # width of the column of verdicts, characters
FAULTS = ("missed", "failed")  # verdicts that are to be seen at a glance
RESULTS = Path(__file__).parent / "results"


@click.command("papers", cls=PaperCommand)
@click.argument("name", metavar="NAME", required=False)
@click.option("--list", "list_names", is_flag=True, help="Name what can be reproduced, and end.")
@click.option(
    "--figure", metavar="FIGURE", help="Compute one figure or table alone, such as 5.5a or 'Table 3.1'."
)
@click.option(
    "--summary",
    is_flag=True,
    help="Print one table of all sources from papers/results/NAME.json, in Markdown, and end.",
)
@click.option("--seeds", type=click.IntRange(1, MAX_SEEDS), default=8, show_default=True, help="Populations.")
@engine_options()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File to write a page of plots to as well; '-' is stdout, for the page alone.",
)
@click.option("--out", metavar="DIR", help="Folder to write NAME.json and NAME.md to, with date and commit.")
@json_option
@needs_extra("report")
def command(
    *,
    name: str | None,
    list_names: bool,
    figure: str | None,
    summary: bool,
    seeds: int,
    engine: str,
    jobs: int | None,
    output: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Compute the tables and figures of a source anew and print them beside its values."""
    refuse_shared_stdout(out=output == "-", json=as_json)
    if list_names and output is not None:
        raise click.UsageError("--list computes nothing, so there is no page for -o")
    from papers.figures.rows import jobs_of, run
    from papers.sources import NAMES, reproduction

    if list_names:
        print_json(NAMES) if as_json else print_table("", ("name", "source"), NAMES.items())
        return
    if summary:
        from papers.figures.summary import summary_page

        say(*summary_page(_results(RESULTS)))
        return
    if name is None:
        raise InputError(f"name what to reproduce: {', '.join(NAMES)}", where="NAME")
    chosen = reproduction(name, seeds=seeds)
    if figure is not None:
        chosen = chosen.only(figure)
    with progress("reproducing", total=len(jobs_of(chosen))) as bar:
        found = run(chosen, lambda jobs_: spread(jobs_, engine, jobs, bar.advance))
    if as_json:
        print_json([*found.rows, *found.missing])
    elif output != "-":
        from papers.figures.summary import summary_lines

        say(
            *_text(chosen.title, found.rows),
            *_missing(found.missing),
            "",
            summary_lines(found.rows, found.missing),
        )
    if out is not None:
        from benchmarks.formats import circumstances
        from papers.figures.result_files import as_json as rows_as_json, as_page

        facts = circumstances()
        Path(out).mkdir(parents=True, exist_ok=True)
        write_text(f"{out}/{name}.json", rows_as_json(found))
        write_text(f"{out}/{name}.md", as_page(name, chosen.title, found, seeds=seeds, facts=facts))
        note_written(out)
    if output is not None:
        write_text(output, _page(chosen.title, found))
        note_written(output)


def _results(folder: Path) -> dict[str, tuple[list[FigureRow], list[MissingRow]]]:
    """Rows by source of every file NAME.json in a folder."""
    from papers.figures.summary import rows_of

    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no results; `make papers` writes them", where="--summary")
    return {path.stem: rows_of(read_text(str(path), MAX_BYTES), str(path)) for path in paths}


def _text(title: str, rows: Sequence[FigureRow]) -> Iterator[str]:
    """Lines with each row beside the source's value, figure by figure; each figure's notes follow once."""
    yield title
    for figure, group in itertools.groupby(rows, key=lambda row: row.figure):
        lines = list(group)
        notes = list(dict.fromkeys(row.note for row in lines if row.note))
        metric, ours = (
            max(len(cell) for cell in cells)
            for cells in zip(*((row.metric, f"{row.ours:g}") for row in lines), strict=True)
        )
        yield ""
        yield f"{figure:{metric + 2}}  {'ours':>{ours}}  {'verdict':{VERDICT}}  source"
        for row in lines:
            mark = f" [{notes.index(row.note) + 1}]" if row.note else ""
            spread = f" ({_range(row)})" if row.low is not None else ""
            verdict = row.verdict.upper() if row.verdict in FAULTS else row.verdict or row.kind
            head = f"  {row.metric:{metric}}  {row.ours:>{ours}g}  {verdict:{VERDICT}}"
            yield f"{head}  {row.source or '-'}{spread}{mark}"
        for number, words in enumerate(notes, start=1):
            yield from textwrap.wrap(
                words, MAX_LINE_WIDTH, initial_indent=f"  [{number}] ", subsequent_indent="      "
            )


def _missing(rows: Sequence[MissingRow]) -> Iterator[str]:
    """Lines with what the source reports and nothing here computes, and why."""
    if rows:
        yield ""
        yield "Not reproduced"
    for row in rows:
        told = f" (source: {row.source})" if row.source else ""
        yield from textwrap.wrap(
            f"{row.figure}, {row.metric}{told}: {row.reason}",
            MAX_LINE_WIDTH,
            initial_indent="  ",
            subsequent_indent="      ",
        )


def _range(row: FigureRow) -> str:
    """Lowest and highest of the values that a row is the median of; empty where it is no median."""
    return "" if row.low is None or row.high is None else f"{row.low:g} to {row.high:g}"


def _page(title: str, found: Any) -> str:
    from kwiken.apps.report.model.page import Page, Row as PageRow, Section, Table, render
    from papers.plots import draw_plot

    body = tuple(
        (r.figure, r.metric, r.source or "\N{EN DASH}", f"{r.ours:g}", _range(r), r.verdict or r.kind, r.note)
        for r in found.rows
    )
    table = Table(head=("figure", "metric", "source", "ours", "from to", "verdict", "note"), body=body)
    missing = Table(
        head=("figure", "metric", "source", "reason"),
        body=tuple((r.figure, r.metric, r.source, r.reason) for r in found.missing),
    )
    plots = PageRow(tuple(draw_plot(plot) for plot in found.plots))
    return render(
        Page(
            title=title,
            made="Computed anew; the data are synthetic, the source's are production traces.",
            summary=("What the source reports, and what comes out here.",),
            sections=(
                Section(id="plots", title="Figures", rows=(plots,)),
                Section(id="rows", title="Every row", rows=(PageRow((table,)),)),
                *(
                    (Section(id="missing", title="Not reproduced", rows=(PageRow((missing,)),)),)
                    if found.missing
                    else ()
                ),
            ),
        )
    )


if __name__ == "__main__":
    command.main()
