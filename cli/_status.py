"""`kwiken status`: what runs, what it does and what it spends."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cli._options import json_option
from cli._output import note, print_json, print_table
from kwiken import InputError

if TYPE_CHECKING:
    from runtime import ClusterState

ASK_S: Final = 5.0
COLUMNS: Final = ("replica", "pid", "state", "in flight", "latency ms", "restarts", "address")


@click.command(short_help="Show the local cluster.")
@click.argument("service", required=False)
@click.option("--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of its state.")
@json_option
def command(*, service: str | None, state: str, as_json: bool) -> None:
    """Show SERVICE, or every service that is up: processes, load, plan and spend."""
    from runtime import StateFiles

    folder = Path(state)
    named = service.rpartition(":")[2] if service is not None else None
    files = [StateFiles(folder, named)] if named is not None else list(StateFiles.all(folder))
    found = [read for each in files if (read := each.read()) is not None]
    if not found:
        what = f"service {named!r} is not up" if named is not None else "no service is up"
        raise InputError(f"{what}; start one with: kwiken up MODULE:SERVICE", where=state)
    clusters = [describe(each) for each in found]
    if as_json:
        print_json({"clusters": clusters})
        return
    for cluster in clusters:
        _show(cluster)


def describe(state: ClusterState) -> dict[str, Any]:
    """A cluster: its processes, and its gateway's own figures, None where it does not answer."""
    figures = _figures(state)
    seats = {
        seat["address"]: seat
        for stage in (figures or {}).get("stages", {}).values()
        for seat in stage["replicas"]
    }
    return {
        "service": state.service,
        "target": state.target,
        "ready": state.ready,
        "supervisor": {"pid": state.supervisor.pid, "alive": state.supervisor.alive},
        "gateway": None
        if state.gateway is None
        else {
            "pid": state.gateway.identity.pid,
            "alive": state.gateway.identity.alive,
            "url": state.gateway.url,
            "restarts": state.gateway.restarts,
        },
        "replicas": [
            {
                "replica": each.replica,
                "stage": each.stage,
                "pid": each.identity.pid,
                "alive": each.identity.alive,
                "address": each.url,
                "restarts": each.restarts,
                **{key: seats.get(each.url, {}).get(key) for key in ("inflight", "latency_ms", "ejected")},
            }
            for each in state.replicas
        ],
        "runtime": figures,
    }


def _figures(state: ClusterState) -> dict[str, Any] | None:
    if state.gateway is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        token = Path(state.token_file).read_text(encoding="ascii").strip()
        request = urllib.request.Request(  # noqa: S310 - a URL of our own state file
            f"{state.gateway.url}/v1/status", headers={"Authorization": f"Bearer {token}"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=ASK_S) as answer:
            figures: dict[str, Any] = json.loads(answer.read())
            return figures
    return None


def _show(cluster: dict[str, Any]) -> None:
    gateway = cluster["gateway"]
    place = f"{gateway['url']} (pid {gateway['pid']})" if gateway is not None else "no gateway"
    rows = [
        (
            each["replica"],
            str(each["pid"]),
            _state(each),
            _shown(each["inflight"]),
            _shown(each["latency_ms"]),
            str(each["restarts"]),
            each["address"],
        )
        for each in cluster["replicas"]
    ]
    print_table(f"{cluster['service']} at {place}", COLUMNS, rows, to_stdout=True)
    if cluster["runtime"] is None:
        note(f"{cluster['service']}: the gateway does not answer")
        return
    print(_spend(cluster["runtime"]))


def _state(replica: dict[str, Any]) -> str:
    if not replica["alive"]:
        return "dead"
    return {True: "avoided", False: "serving", None: "unknown"}[replica["ejected"]]


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}" if isinstance(number, float) else str(number)


def _spend(figures: dict[str, Any]) -> str:
    ledger = figures["ledger"]
    worst = ledger["worst_10s"]
    plan = f"plan {figures['plan']}" if figures["plan"] is not None else "no plan"
    return (
        f"{plan}; reissue budget {ledger['fraction']:.2%}, spent {ledger['spent_share']:.2%}"
        + (f", worst 10 s {worst:.2%}" if worst is not None else "")
        + f"; {figures['requests']} requests, {figures['failed']} failed, {figures['reissues']} reissues, "
        f"{figures['retries']} retries, {figures['shed']} turned away"
    )
