"""`kwiken apply`: put a plan in force at a running gateway, or remove the plan in force."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.cli.live.gateway.remote import ask, remote_gateway, token_file_option
from kwiken.cli.live.gateway.status_tables import where_in_force
from kwiken.cli.shared.options import load_plan, service_name

if TYPE_CHECKING:
    from kwiken.model.plan.plan import Plan


@click.command(short_help="Put a plan in force at a running gateway.")
@click.argument("plan", required=False)
@click.option("--remove", metavar="SERVICE", help="Remove the plan of SERVICE instead.")
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of `kwiken up`'s state."
)
@click.option("--url", metavar="URL", help="Gateway's address, for one that `kwiken up` did not start here.")
@token_file_option
@click.option("--dry-run", is_flag=True, help="Ask whether the gateway would take the plan; change nothing.")
def command(
    *,
    plan: str | None,
    remove: str | None,
    state: str,
    url: str | None,
    token_file: str | None,
    dry_run: bool,
) -> None:
    """Put PLAN, a file that `kwiken plan` wrote, in force without a restart; '-' is stdin.

    The gateway is the one that `kwiken up` started for the plan's service, or the one at --url. A plan that
    does not fit the service is refused whole, and the former plan stays in force.
    """
    if (plan is None) == (remove is None):
        raise click.UsageError("give a plan's file, or --remove SERVICE", click.get_current_context())
    if token_file is not None and url is None:
        raise click.UsageError("--token-file goes with --url", click.get_current_context())
    document = load_plan(plan) if plan is not None else None
    service = document.service if document is not None else service_name(remove or "", Path(state))
    address, token = remote_gateway(url, token_file) if url is not None else _local(Path(state), service)
    _put(address, token, document, where=plan if plan is not None else service, dry=dry_run)
    if dry_run:
        note(f"{service}: {address} would take it; nothing is changed")
        return
    done = "plan applied" if plan is not None else "plan removed"
    status = ask(address, token, lambda client: client.status())
    count = len(status.get("gateways") or ())
    note(f"{service}: {done} at {address}" + (f", in force at {count} gateways" if count > 1 else ""))
    for line in where_in_force(status):
        note(f"{service}: {line}; it takes the newest plan within seconds of an answer")


def _local(state: Path, service: str) -> tuple[str, str]:
    """Address and token of the gateway that `kwiken up` started for a service."""
    from kwiken.runtime.cluster.state.files import StateFiles

    files = StateFiles(state, service)
    found = files.read()
    if found is None or not any(each.identity.alive for each in found.gateways):
        raise InputError(
            f"service {service!r} is not up; start it with: kwiken up SERVICE, or give --url",
            where=str(state),
        )
    return found.url, files.read_token()


def _put(url: str, token: str, plan: Plan | None, *, where: str, dry: bool) -> None:
    """Put a plan, or none, in force at a gateway.

    Raises:
        InputError: the gateway does not answer, or refuses the plan; says why.
    """
    from kwiken.runtime.gateway.control.client import NoAnswerError

    try:
        ask(url, token, lambda client: client.put_plan(plan, dry=dry))
    except NoAnswerError:
        raise
    except InputError as error:
        raise InputError(f"refused by the gateway at {url}: {error.problem}", where=where) from error
