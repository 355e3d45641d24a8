"""`kwiken status`: shows a cluster's processes, load, plan and spend."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwiken.apps.console.output import note, print_json, print_table, say
from kwiken.base.errors import InputError
from kwiken.cli.live.gateway.remote import ask, remote_gateway, token_file_option
from kwiken.cli.live.gateway.status_tables import (
    BUDGETS,
    COLUMNS,
    GATEWAYS,
    LINES,
    LOST,
    NODE_COLUMNS,
    REQUESTS,
    STAGES,
    WIDTH,
    autopilot_lines,
    budget_rows,
    gateway_rows,
    line_rows,
    node_rows,
    replica_rows,
    request_row,
    stage_rows,
    where_in_force,
    wrapped,
)
from kwiken.cli.shared.options import json_option, service_name

if TYPE_CHECKING:
    from kwiken.runtime.cluster.state.documents import ClusterState
    from kwiken.runtime.cluster.state.files import StateFiles
    from kwiken.runtime.cluster.state.rentals import RentalRecord

UNWELL: Final = 1
MAX_RENTALS_SHOWN: Final = 50
MAX_TROUBLE: Final = 200  # characters of what a call failed with; JSON has all


@click.command(short_help="Show the local cluster.")
@click.argument("service", required=False)
@click.option(
    "--state", metavar="DIR", default=".kwiken", show_default=True, help="Folder of the cluster's state."
)
@click.option("--url", metavar="URL", help="Gateway's address, for a cluster that is not this machine's.")
@token_file_option
@click.option("--page", is_flag=True, help="Print only the link to the live page, with its token.")
@json_option
def command(
    *, service: str | None, state: str, url: str | None, token_file: str | None, page: bool, as_json: bool
) -> int:
    """Show SERVICE, or every service that is up: processes, load, plan and spend.

    With --url, show the gateways and replicas of a cluster that runs elsewhere, as in Kubernetes.

    Rates and latencies of stages are of the last 10 s. The live page (--page) shows them as they change.

    Exit code 1 when the supervisor of one has died, or its gateway does not answer.
    """
    if page and as_json:
        raise click.UsageError("--page and --json exclude one another")
    if url is not None:
        return _show_remote(url, token_file, service, page=page, as_json=as_json)
    if token_file is not None:
        raise click.UsageError("--token-file goes with --url")
    return _show_local(service, Path(state), page=page, as_json=as_json)


def _show_local(service: str | None, folder: Path, *, page: bool, as_json: bool) -> int:
    """Show the clusters of a folder of states, of this machine."""
    from kwiken.runtime.cluster.state.files import StateFiles

    named = service_name(service, folder) if service is not None else None
    files = [StateFiles(folder, named)] if named is not None else list(StateFiles.all(folder))
    found, unreadable = _read(files)
    if not found and unreadable:
        raise unreadable[0]
    if not found:
        what = f"service {named!r} is not up" if named is not None else "no service is up"
        raise InputError(f"{what}; start one with: kwiken up SERVICE", where=str(folder))
    if page:
        for each, read in found:
            say(_live_page(each, read))
        return 0
    clusters = [describe(each, read) for each, read in found]
    rented = _rented(folder)
    if as_json:
        print_json({"clusters": clusters} | ({"rentals": rented} if rented is not None else {}))
    else:
        for cluster in clusters:
            _show(cluster)
        if rented is not None:
            _show_rented(rented)
    for error in unreadable:
        note(f"kwiken: {error}")
    sound = all(cluster["runtime"] is not None and cluster["supervisor"]["alive"] for cluster in clusters)
    return 0 if sound and not unreadable else UNWELL


def _show_remote(url: str, token_file: str | None, service: str | None, *, page: bool, as_json: bool) -> int:
    """Show a cluster whose gateway is named: what its gateways know."""
    address, token = remote_gateway(url, token_file)
    if page:
        say(f"{address}/kwiken#token={token}")
        return 0
    figures = ask(address, token, lambda client: client.status())
    name = figures["service"]
    if service is not None and service != name:
        raise InputError(f"serves {name!r}, not {service!r}", where=url)
    # Processes are another's business there, so what is known of them is what the gateways see.
    cluster: dict[str, Any] = {
        "service": name,
        "url": address,
        "replicas": _remote_replicas(figures),
        "runtime": figures,
    }
    if as_json:
        print_json({"clusters": [cluster]})
        return 0
    _table(f"{name} at {address}", COLUMNS, replica_rows(cluster["replicas"], _state))
    _show_runtime(cluster)
    return 0


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of at most 80 columns, with an empty line after it; without rows the title."""
    if rows:
        print_table(title, columns, rows, width=WIDTH)
        say("")
    elif title:
        say(title)


def _remote_replicas(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Replicas of all stages, as the gateways see them: they have no pid here."""
    return [
        {
            "replica": f"{name} at {replica['id']}",
            "stage": name,
            "pid": None,
            "alive": True,
            "address": replica["address"],
            "restarts": None,
            **{key: replica.get(key) for key in ("inflight", "latency_ms", "ejected", "trouble")},
        }
        for name, stage in figures.get("stages", {}).items()
        for replica in stage["replicas"]
    ]


def _rented(folder: Path) -> RentalRecord | None:
    """Rented nodes of the services that are up; None if they rent none."""
    from kwiken.runtime.cluster.state.rentals import read_journal

    record = read_journal(folder)
    return None if record is None or record.closed else record


def _show_rented(record: RentalRecord) -> None:
    rows = [
        (
            one.node,
            one.node_class,
            f"{one.offer} ({one.terms})",
            one.state,
            f"{one.up_s:.0f} s",
            f"{one.cost:.4g}",
            one.ended or one.reason,
        )
        for one in record.rentals[-MAX_RENTALS_SHOWN:]
    ]
    columns = ("node", "class", "offer", "state", "up", f"cost, {record.currency}", "reason")
    print_table("nodes by offer", columns, rows)
    say(f"cost so far {record.cost:.4g} {record.currency}")
    if record.orphaned:
        note(
            "kwiken: what rented these nodes was killed; kwiken down, or the next kwiken up, gives them back"
        )


def _live_page(files: StateFiles, state: ClusterState) -> str:
    """Link to the live page. The token stands behind the #, which no browser sends to a server."""
    if not state.gateways:
        raise InputError(f"the gateway of {state.service!r} is being restarted", where=str(files.state))
    return f"{state.url}/kwiken#token={files.read_token()}"


def _read(files: Iterable[StateFiles]) -> tuple[list[tuple[StateFiles, ClusterState]], list[InputError]]:
    """Read the clusters' states; errors are collected, so that an unreadable state hides no other."""
    found, unreadable = [], []
    for each in files:
        try:
            state = each.read()
        except InputError as error:
            unreadable.append(error)
        else:
            found += [(each, state)] if state is not None else []
    return found, unreadable


def describe(files: StateFiles, state: ClusterState) -> dict[str, Any]:
    """Describe a cluster: its processes, and its gateway's status, None if the gateway does not answer.

    Args:
        files: paths of the cluster's state and token.
    """
    import msgspec

    figures, trouble = _figures(files, state)
    replicas = {
        replica["address"]: replica
        for stage in (figures or {}).get("stages", {}).values()
        for replica in stage["replicas"]
    }
    node_of = {node.node: node for node in state.nodes}
    return {
        "service": state.service,
        "target": state.target,
        "ready": state.ready,
        "token_file": str(files.token),
        "supervisor": {"pid": state.supervisor.pid, "alive": state.supervisor.alive},
        "url": state.url,
        "gateways": [
            {
                "pid": each.identity.pid,
                "alive": each.identity.alive,
                "url": each.url,
                "restarts": each.restarts,
            }
            for each in state.gateways
        ],
        "replicas": [
            {
                "replica": each.replica,
                "stage": each.stage,
                "pid": each.identity.pid,
                "alive": each.identity.alive,
                "address": each.url,
                "restarts": each.restarts,
                "node": each.node,
                "class": node_of[each.node].node_class if each.node in node_of else None,
                "speed": node_of[each.node].speed if each.node in node_of else None,
                "cores": each.cores,
                **{
                    key: replicas.get(each.url, {}).get(key)
                    for key in ("inflight", "latency_ms", "ejected", "trouble")
                },
            }
            for each in state.replicas
        ]
        + _foreign(figures),
        "nodes": msgspec.to_builtins(state.nodes),
        "actions": state.actions,
        "runtime": figures,
        "trouble": trouble,
    }


def _foreign(figures: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Replicas of foreign services, which no supervisor started."""
    stages = (figures or {}).get("stages", {})
    return _remote_replicas({"stages": {name: one for name, one in stages.items() if one.get("foreign")}})


def _figures(files: StateFiles, state: ClusterState) -> tuple[dict[str, Any] | None, str | None]:
    """Combined status of the gateways, or None and the reason: one does not answer or must not be asked.

    A state folder may come from anywhere, for example with a repository. So the token is sent only to a
    running process whose start time matches the state, and only a token file in the folder itself is read.
    """
    from kwiken.runtime.engine.status_document import merged_status

    if not state.gateways or not all(each.identity.alive for each in state.gateways):
        return None, "a gateway is being restarted"
    try:
        token = files.read_token()
        found = [ask(each.url, token, lambda client: client.status(alone=True)) for each in state.gateways]
    except InputError as error:
        return None, str(error)
    return merged_status(found), None


def _show(cluster: dict[str, Any]) -> None:
    pids = ", ".join(str(each["pid"]) for each in cluster["gateways"])
    place = f"{cluster['url']} (pid {pids})" if pids else "no gateway"
    title = f"{cluster['service']} at {place}"
    _table(title, COLUMNS, replica_rows(cluster["replicas"], _state))
    _table("", NODE_COLUMNS, node_rows(cluster["replicas"]))
    for action in cluster["actions"]:
        say(*wrapped(action))
    if cluster["runtime"] is None:
        note(f"kwiken: {cluster['service']}: {_trouble(cluster)}")
        return
    _show_runtime(cluster)
    if unknown := unnoted(cluster):
        note(
            f"kwiken: {cluster['service']}: the gateway has {unknown} of its replicas that are not noted; "
            "where the folder of the state is full its supervisor cannot write what it started"
        )


def _show_runtime(cluster: dict[str, Any]) -> None:
    """Show what the gateways of a cluster tell."""
    gateways = cluster["runtime"].get("gateways") or []
    if len(gateways) > 1:
        _table("", GATEWAYS, gateway_rows(gateways))
    for line in where_in_force(cluster["runtime"]):
        note(f"kwiken: {cluster['service']}: {line}")
    _table("", STAGES, stage_rows(cluster["runtime"]))
    if lines := cluster["runtime"].get("lines"):
        limit = "all" if lines["limit"] is None else str(lines["limit"])
        title = f"lines of requests, {limit} run at once; waits and service in ms"
        _table(title, LINES, line_rows(lines))
    _show_spend(cluster["runtime"])
    for each in cluster["replicas"]:
        if trouble := each.get("trouble"):
            told = f"its last call failed: {trouble[:MAX_TROUBLE]}"
            note(f"kwiken: {cluster['service']}: {each['replica']}: {told}")
    if unkept := cluster["runtime"].get("plan_unkept"):
        note(
            f"kwiken: {cluster['service']}: the plan in force cannot be noted ({unkept}); "
            "a gateway that takes over may not have it"
        )


def unnoted(cluster: dict[str, Any]) -> int:
    """Number of serving replicas that replaced dead ones and are missing in the state."""
    noted = {each["address"] for each in cluster["replicas"]}
    stages = cluster["runtime"].get("stages", {}).values()
    serving = {replica["address"] for stage in stages for replica in stage["replicas"]}
    return len(serving - noted) if any(not each["alive"] for each in cluster["replicas"]) else 0


def _trouble(cluster: dict[str, Any]) -> str:
    """Reason why there is no status, and what to do about it."""
    pid = cluster["supervisor"]["pid"]
    if not cluster["supervisor"]["alive"]:
        return f"its supervisor (pid {pid}) has died; start anew with kwiken up, or clear up with kwiken down"
    if not os.access(cluster["token_file"], os.R_OK):
        return "its token cannot be read, so its gateway tells nothing; another user may have started it"
    return str(cluster["trouble"])


def _state(replica: dict[str, Any]) -> str:
    if not replica["alive"]:
        return "dead"
    return {True: "avoided", False: "serving", None: "unknown"}[replica["ejected"]]


def _show_spend(figures: dict[str, Any]) -> None:
    """Show the requests, the budgets, the plan and the traces kept."""
    _table("", REQUESTS, [request_row(figures)])
    _table("budgets, as shares of the work", BUDGETS, budget_rows(figures))
    cost = figures.get("lost_utility") or {}
    if any(cost.values()):
        _table("", LOST, [("", f"{cost['chosen']:.3g}", f"{cost['failures']:.3g}")])
    for line in _sentences(figures):
        say(*wrapped(line))


def _sentences(figures: dict[str, Any]) -> Iterable[str]:
    """Lines on the plan, the autopilot, the reissues that were denied, and the traces kept."""
    yield f"plan {figures['plan']}" if figures["plan"] is not None else "no plan"
    yield from autopilot_lines(figures, time.time())
    yield from _reissues(figures["ledger"])
    yield from _traces(figures.get("traces"))


def _traces(traces: dict[str, Any] | None) -> Iterable[str]:
    """Requests whose spans were kept, by reason; empty where every request's are, or none's."""
    if traces is None:
        return
    kept = {reason: count for reason, count in traces["kept"].items() if count}
    reasons = f" ({', '.join(f'{reason} {count}' for reason, count in kept.items())})" if kept else ""
    total = sum(kept.values())
    yield f"spans of {total} requests kept{reasons}, of {traces['dropped']} not"


def _reissues(ledger: dict[str, Any]) -> Iterable[str]:
    """What the table of budgets leaves out of the reissues: the floor's part, and why some were denied."""
    if observed := ledger.get("observed_share"):
        charged = ledger["spent_share"]
        yield f"reissues charged: {charged:.2%} of the work; observed at replicas: {observed:.2%}"
    if ledger["floor_spent"] and ledger["spent"]:
        yield f"{ledger['floor_spent'] / ledger['spent']:.0%} of the reissues' spend was by the floor"
    if ledger["denied"]:
        reasons = (
            f"{name.replace('_', ' ')} {times}" for name, times in ledger["denied_by"].items() if times
        )
        yield f"reissues denied: {ledger['denied']} ({', '.join(reasons)})"
