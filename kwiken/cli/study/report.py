"""`kwiken report`: one HTML page with charts of the profile, the plan and the measured result."""

from __future__ import annotations

import contextlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from kwiken.apps.console.output import note, progress, write_text
from kwiken.base.errors import InputError
from kwiken.cli.live.gateway.remote import token_file_option
from kwiken.cli.shared.input_files import check_exist
from kwiken.cli.shared.options import SHARE, needs_extra, out_option, seed_option

OK: Final = 200


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
@click.argument("sources", nargs=-1, metavar="[DIR_OR_FILES]...")
@click.option("--url", metavar="URL", help="Gateway whose plan in force is the plan of the report.")
@token_file_option
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
    url: str | None,
    token_file: str | None,
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
    if not sources and url is None:
        raise click.UsageError("give a folder or files, or --url of a gateway", click.get_current_context())
    if token_file is not None and url is None:
        raise click.UsageError("--token-file goes with --url")
    check_exist(sources)
    from kwiken.apps.report.collect import Wishes, gather
    from kwiken.apps.report.inputs import find

    wishes = Wishes(reissue=reissue, seed=seed, root=root, service=service, jaeger=jaeger)
    with contextlib.ExitStack() as stack:
        if url is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            sources = (*sources, _plan_in_force(url, token_file, Path(folder)))
        bar = stack.enter_context(progress("reading"))
        material = gather(find(sources), wishes, tell=lambda done, total: bar.update(done, total=total))
    from kwiken.apps.report.build import build_page, made_line
    from kwiken.apps.report.model.page import render

    if material.result is not None:
        made = made_line(material.result)
    else:
        made = f"Drawn {datetime.now(UTC).isoformat(timespec='seconds')}."
    write_text(out, render(build_page(material, made=made)))
    if out != "-":
        note(f"written to {out}")


def _plan_in_force(url: str, token_file: str | None, folder: Path) -> str:
    """Write the plan in force at a gateway to a file; returns its path.

    Raises:
        InputError: the gateway does not answer, or no plan is in force.
    """
    from kwiken.cli.live.gateway.remote import ask, remote_gateway

    plan = ask(*remote_gateway(url, token_file), lambda client: client.plan())
    if plan is None:
        raise InputError("no plan is in force there, so there is nothing to draw", where=url)
    path = folder / "plan.json"
    path.write_text(plan.to_json(), encoding="utf-8")
    return str(path)
