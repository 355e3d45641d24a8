"""`kwiken report`: one HTML page with charts of the profile, the plan and the measured result."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

import click

from kwiken.apps.console import note, progress, write_text
from kwiken.cli.shared import SHARE, check_exist, needs_extra, out_option, seed_option


def _check_address(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no address of a page; a slash at its end is dropped."""
    del ctx
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query + parts.fragment
    except ValueError:
        fits = False
    if not fits or any(char.isspace() for char in value):
        raise click.BadParameter("give http://HOST:PORT, the address of Jaeger's page", param=param)
    return value.rstrip("/")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="DIR_OR_FILES...")
@out_option("report.html", what="page")
@click.option(
    "--reissue", type=SHARE, default=0.05, show_default=True, help="Budget of the plan, if none is given."
)
@click.option("--root", metavar="OP", help="Only requests whose root span has this operation.")
@click.option("--service", metavar="NAME", help="Only requests whose root span is of this service.")
@click.option(
    "--jaeger",
    metavar="URL",
    callback=_check_address,
    help="Jaeger's page, such as http://127.0.0.1:16686: requests are linked to their traces there.",
)
@seed_option
@needs_extra("report")
def command(
    *,
    sources: tuple[str, ...],
    out: str,
    reissue: float,
    root: str | None,
    service: str | None,
    jaeger: str | None,
    seed: int,
) -> None:
    """Draw a report of DIR_OR_FILES: a demo's folder, or any of profile, plan, load records and traces.

    Missing parts are made if possible: a profile from traces, a plan from a profile.
    """
    check_exist(sources)
    from kwiken.apps.report import Wishes, find, gather

    wishes = Wishes(reissue=reissue, seed=seed, root=root, service=service, jaeger=jaeger)
    with progress("reading") as bar:
        material = gather(find(sources), wishes, tell=lambda done, total: bar.update(done, total=total))
    from kwiken.apps.report import build_page, made_line
    from kwiken.apps.report.model import render

    if material.result is not None:
        made = made_line(material.result)
    else:
        made = f"Drawn {datetime.now(UTC).isoformat(timespec='seconds')}."
    write_text(out, render(build_page(material, made=made)))
    if out != "-":
        note(f"written to {out}")
