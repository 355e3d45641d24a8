"""`kwiken provision`: what to reserve, rent and keep, from a load and a dated price list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import note, note_written, print_json, print_table, read_text, say, write_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.options import (
    POSITIVE,
    SHARE,
    json_option,
    load_profile,
    needs_extra,
    out_option,
    refuse_shared_stdout,
    removed_option,
    seconds_of,
    seed_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwiken.allocator.provisioning.document import ProvisionStudy, StrategyCost
    from kwiken.allocator.provisioning.interruptions import Recording
    from kwiken.allocator.provisioning.load_curve import LoadCurve
    from kwiken.allocator.provisioning.offers import PriceList

MAX_PRICES_FILE: Final = 4 * MIB
MAX_LOAD_FILE: Final = 64 * MIB
MAX_RECORDING_FILE: Final = 64 * MIB
MAX_DAYS: Final = 3660
WEEKS_SHOWN: Final = 6  # ranges of weeks


@click.command()
@click.argument("load", metavar="LOAD")
@click.option(
    "--prices", metavar="FILE", required=True, help="Offers of nodes with their prices, dated, in TOML."
)
@click.option(
    "--judge", "later", metavar="FILE", help="Later load: paid with the decision that was made on LOAD."
)
@click.option(
    "--profile", metavar="FILE", help="Profile that says what a request costs, for LOAD in requests."
)
@click.option(
    "--request-ms", type=POSITIVE, metavar="MS", help="Processor time of a request, for LOAD in requests."
)
@click.option(
    "--tolerant",
    type=SHARE,
    default=0.0,
    show_default=True,
    help="Share of the work that may be interrupted, where LOAD has no column for it.",
)
@click.option(
    "--wait",
    "wait_s",
    metavar="TIME",
    default="10m",
    show_default=True,
    callback=seconds_of,
    help="Longest time that such work waits for a spot node before it moves to nodes on demand.",
)
@click.option(
    "--longest",
    "longest_days",
    type=click.IntRange(1, MAX_DAYS),
    metavar="DAYS",
    default=366,
    show_default=True,
    help="Longest reservation to take.",
)
@click.option(
    "--ahead",
    "horizon_s",
    metavar="TIME",
    callback=seconds_of,
    help="Time ahead that the reservation has to pay off in, such as 90d; a LOAD as long looks ahead.  "
    "[default: the reservation's term]",
)
@out_option(what="decision")
@removed_option("--picture", "--json, and draw what you need from the numbers")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    load: str,
    prices: str,
    later: str | None,
    profile: str | None,
    request_ms: float | None,
    tolerant: float,
    wait_s: float,
    longest_days: int,
    horizon_s: float | None,
    out: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Decide from LOAD what to reserve, what to rent by the hour or on spot, and how long to keep idle nodes.

    LOAD is a CSV with the columns time and cores, or requests_per_s with --profile, and tolerant if wanted;
    or the JSON that Prometheus answers to a range query. Costs are by the hour, and committed for a year.
    """
    refuse_shared_stdout(out=out == "-", json=as_json)
    if profile is not None and request_ms is not None:
        raise InputError("says the same as --profile; give one of them", where="--request-ms")
    texts = [read_text(load, MAX_LOAD_FILE), read_text(prices, MAX_PRICES_FILE)]
    afterwards = None if later is None else read_text(later, MAX_LOAD_FILE)
    from kwiken.allocator.provisioning.document import study_provision
    from kwiken.allocator.provisioning.load_curve import load_from_text
    from kwiken.allocator.provisioning.offers import prices_from_toml
    from kwiken.allocator.provisioning.strategies import ProvisioningSettings, market

    offers = prices_from_toml(texts[1], where=prices)
    rate = None if request_ms is None else request_ms / 1e3
    if profile is not None:
        rate = _cores_per_request(profile)
    curve = load_from_text(texts[0], where=load, cores_per_request_rate=rate, tolerant=tolerant)
    paid = None
    if afterwards is not None and later is not None:
        paid = load_from_text(afterwards, where=later, cores_per_request_rate=rate, tolerant=tolerant)
        _check_later(curve, paid, str(later))
    settings = ProvisioningSettings(longest_days=longest_days, horizon_s=horizon_s, wait_s=wait_s, seed=seed)
    of = market(offers, _recordings(offers, prices), settings)
    study = study_provision(curve, of, later=paid)
    if out is not None:
        write_text(out, study.provision.to_json())
    if as_json:
        print_json(study.provision)
    elif out != "-":
        _show(study, offers, paid)
    note_written(out)


def _cores_per_request(path: str) -> float:
    """Cores that one request a second keeps busy, by the busy times of a profile."""
    learned = load_profile(path)
    lacking = [one.name for one in learned.stages if not one.own_time and one.busy_ms is None]
    if lacking:
        raise InputError(
            f"has no busy time of {', '.join(lacking[:5])}; give --request-ms instead", where=path
        )
    return sum((one.busy_ms or 0.0) * one.calls_per_request for one in learned.stages) / 1e3


def _check_later(curve: LoadCurve, later: LoadCurve, where: str) -> None:
    """Refuse a load of another step, and say if it is not later."""
    if abs(later.step_s - curve.step_s) > 0.01 * curve.step_s:
        raise InputError(
            f"has a step of {later.step_s:g} s, and the load that is decided on has {curve.step_s:g} s",
            where=where,
        )
    if later.start_s < curve.start_s + len(curve.cores) * curve.step_s - curve.step_s:
        note(f"note: {where} does not start after the load that is decided on")


def _recordings(offers: PriceList, prices: str) -> dict[str, Recording]:
    """Recordings of interruptions that the offers name, beside the price list."""
    from pathlib import Path

    from kwiken.allocator.provisioning.interruptions import recording_from_json

    found: dict[str, Recording] = {}
    for offer in offers.spot:
        if offer.interruptions is not None:
            path = str(Path(prices).parent / offer.interruptions) if prices != "-" else offer.interruptions
            found[offer.name] = recording_from_json(read_text(path, MAX_RECORDING_FILE), where=path)
    return found


def _show(study: ProvisionStudy, offers: PriceList, paid: LoadCurve | None) -> None:
    provision = study.provision
    facts = provision.decided_on
    say(
        f"load: {facts.mean:.4g} cores on average, {facts.lowest:.4g} to {facts.highest:.4g}, "
        f"{facts.samples} steps of {facts.step_s:g} s; demand is expected {provision.demand}"
    )
    rows = [
        (
            one.name,
            one.node_class,
            one.terms.value,
            str(one.nodes) if one.nodes else "as needed",
            f"{one.term_days} d" if one.term_days else "-",
            f"{one.price_per_hour:.4g}",
            f"{one.keep_idle_s:.4g} s" if not one.nodes else "-",
        )
        for one in provision.offers
    ]
    columns = ("offer", "class", "terms", "nodes", "term", f"{offers.currency}/h", "kept idle")
    print_table("", columns, rows)
    if (rule := provision.spot) is not None:
        left = "; an offer whose node lived less than 10 min is left for 30 min" if rule.leaves else ""
        say(
            f"spot: work that may be interrupted costs {rule.expected_price:.4g} a core hour; it waits up to "
            f"{rule.wait_s:g} s for a spot node, which is there {rule.share_up:.0%} of the time{left}"
        )
    say("")
    _costs(f"cost on the load that is decided on, {offers.currency}", provision.costs, None)
    weeks = "; ".join(f"{one.from_week} or more: {one.strategy}" for one in provision.by_weeks[:WEEKS_SHOWN])
    more = "; --json has all" if len(provision.by_weeks) > WEEKS_SHOWN else ""
    say(f"cheapest by the weeks that one commits for: {weeks}{more}")
    if provision.judged_on is None or paid is None:
        return
    say("")
    least = {one.name: one.hourly for one in provision.judged}
    _costs(
        f"cost on the later load, {offers.currency}; {provision.judged_on.mean:.4g} cores on average",
        provision.judged,
        least,
    )
    longest = max((one.term_days for one in provision.offers), default=0)
    if longest * 24 > paid.hours:
        say(
            f"the reservation runs for {longest} d and the later load for {paid.hours / 24:.3g} d: "
            "by the hour it is prorated"
        )


def _costs(title: str, costs: Sequence[StrategyCost], judged: dict[str, float] | None) -> None:
    from kwiken.allocator.provisioning.strategies import HINDSIGHT, HINDSIGHT_SPOT

    spot = any(one.spot for one in costs)
    rows: list[tuple[str, ...]] = []
    for one in costs:
        cells = [one.name, str(one.nodes), f"{one.hourly:.5g}", f"{one.reserved:.5g}", f"{one.on_demand:.5g}"]
        cells += [f"{one.spot:.5g}"] if spot else []
        cells += [f"{one.committed_year:.5g}"]
        if judged is not None:
            best = judged.get(HINDSIGHT_SPOT if one.spot else HINDSIGHT, 0.0)
            cells.append(f"{one.hourly / best - 1:+.1%}" if best > 0 else "-")
        rows.append(tuple(cells))
    columns = ["strategy", "reserved nodes", "an hour", "reserved", "on demand"]
    columns += ["spot"] if spot else []
    columns += ["a year, committed"]
    if judged is not None:
        columns.append("to hindsight")  # of strategies with spot: to the best with spot
    print_table(title, tuple(columns), rows)
