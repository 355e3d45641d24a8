"""Files of a reproduction's results."""

from __future__ import annotations

from papers.figures.result_files import as_json, as_page
from papers.figures.rows import FigureRow, Findings, MissingRow
from papers.figures.summary import rows_of

FOUND = Findings(
    rows=(
        FigureRow(figure="Figure 1", metric="cut | p99, %", source="29", ours=27.8, low=26.0, high=29.5),
        FigureRow(figure="Table 2", metric="cost", source="", ours=1234567.0, note="another world"),
    ),
    missing=(
        MissingRow(figure="Table 3", metric="time", source="3 s", reason="the programs are not public"),
    ),
)


FACTS = {"date": "2026-01-30", "commit": "0123abcd"}


def test_both_forms_hold_every_row() -> None:
    assert rows_of(as_json(FOUND), "lsh.json") == (list(FOUND.rows), list(FOUND.missing))
    page = as_page("lsh", "LSH", FOUND, seeds=3, facts=FACTS)
    assert "`python -m papers lsh --seeds 3`, 2026-01-30, commit 0123abcd." in page
    assert "| Figure 1 | cut \\| p99, % | 29 | 27.8 | 26 to 29.5 | unstated |  |  |" in page
    assert "- Table 3, time: the programs are not public" in page
