"""`kwiken advise`: from traces to what makes the tail, what a budget buys, and what to change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import note, note_written, print_json, print_table, progress, say, write_text
from kwiken.base.printable import printable_json
from kwiken.cli.shared.input_files import check_exist, named_by
from kwiken.cli.shared.options import (
    Real,
    copyable_option,
    during_option,
    json_option,
    kind_by_option,
    needs_extra,
    once_option,
    refuse_shared_stdout,
    sampled_option,
    seed_option,
)
from kwiken.cli.shared.profile_findings import note_one_trace
from kwiken.cli.study.fit import note_scattered

if TYPE_CHECKING:
    from kwiken.otel.fit.fit import Fits
    from kwiken.tail.advice.contents import Advice, RequestKind


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...")
@click.option(
    "--budget",
    type=Real(0, 1, above=True),
    help="Budget for copies of late calls, as a share of all work.  [default: of 0.01, 0.02, 0.03 and "
    "0.05 the smallest that cuts nearly as much as any]",
)
@click.option(
    "--kind",
    metavar="NAME",
    help="Requests of this kind, as `kwiken fit --list` shows.  [default: the most frequent]",
)
@kind_by_option
@during_option
@sampled_option
@once_option
@copyable_option
@click.option("-o", "--out", metavar="FILE", help="Write the advice as a page with tables and a chart.")
@click.option("--plan", "plan_out", metavar="FILE", help="Write the plan, for `kwiken export` and `judge`.")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    traces: tuple[str, ...],
    budget: float | None,
    kind: str | None,
    kind_by: str | None,
    during_s: tuple[float, float] | None,
    sampled: float,
    once: tuple[str, ...],
    copyable: tuple[str, ...],
    out: str | None,
    plan_out: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Say what makes requests in TRACES slow, what copies of late calls would buy, and what to change.

    TRACES are files, folders or a Jaeger, as in `kwiken fit`. A plan is made from the earlier half of the
    requests and judged on the later half; the settings are those of a plan made from all of them.
    """
    refuse_shared_stdout(out=out == "-", plan=plan_out == "-", json=as_json)
    check_exist(traces)
    from kwiken.tail.advice.composition import advise

    if kind is not None and kind_by == "root":
        raise click.UsageError("--kind-by root takes all kinds together, so --kind has no effect")
    chosen, others, fits = _read(traces, kind, kind_by, once, copyable)
    note_scattered(fits)
    note_one_trace(fits.profiles[0])
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with progress("planning and judging"):
        found, plan = advise(
            fits.profiles[0],
            budget=budget,
            kind=chosen,
            others=others,
            during_s=during_s,
            sampled=sampled,
            created=created,
            seed=seed,
        )
    if plan_out is not None and plan is not None:
        write_text(plan_out, printable_json(plan.to_json()) + "\n")
        note_written(plan_out)
    elif plan_out is not None:
        note(f"there is no plan to write, so {plan_out} is not written; the answers say why")
        plan_out = None
    if as_json:
        print_json(found)
    elif "-" not in {out, plan_out}:
        _show(found, plan_out)
    if out is not None:
        from kwiken.apps.report.model.page import render
        from kwiken.apps.report.page_of_advice import advice_page

        write_text(out, render(advice_page(found, made=f"Advice of {created}.", plan_file=plan_out)))
        note_written(out)


def _read(
    traces: tuple[str, ...],
    kind: str | None,
    kind_by: str | None,
    once: tuple[str, ...],
    copyable: tuple[str, ...],
) -> tuple[RequestKind, list[RequestKind], Fits]:
    """Learn one kind of requests; returns this kind, the other kinds, and the fit."""
    from kwiken.model.profile.idempotence import kept_copyable, kept_single
    from kwiken.otel.fit.fit import fit_profiles
    from kwiken.tail.advice.contents import RequestKind, kind_of

    with named_by(traces), progress("reading traces") as bar:
        fits = fit_profiles(
            traces, kind=kind, kind_by=kind_by, on_progress=lambda n, m: bar.update(n, total=m)
        )
    (profile,) = kept_copyable(kept_single(fits.profiles, once), copyable)
    own = profile.origin.kind if profile.origin is not None else None
    name = next((each.name for each in fits.kinds if each.label == own), fits.kinds[0].name)
    others = [
        RequestKind(name=each.name, requests=each.requests, p50_ms=each.p50_ms, p99_ms=each.p99_ms)
        for each in fits.kinds
        if each.name != name and kind_by != "root"
    ]
    # Failed requests count in the list of kinds, and are no part of the profile.
    chosen = kind_of("all kinds" if kind_by == "root" else name, profile.latency_ms)
    return chosen, others, replace(fits, profiles=(profile,))


def _show(found: Advice, plan_file: str | None) -> None:
    """Print the five answers, then the tables and steps that have no room in them."""
    from kwiken.apps.report.advice_words import QUESTIONS, advice_sentences, further_steps, step_words
    from kwiken.apps.report.page_of_advice import settings_table, worth_table
    from kwiken.apps.report.sections.excess import excess_table

    told = advice_sentences(found, plan_file)
    for number, (about, words) in enumerate(zip(QUESTIONS, told, strict=True), 1):
        say(f"{number}. {about}. {words}")
    say("")
    table = excess_table(found.slow)
    print_table("Who makes slow requests slow", table.head, table.body)
    if found.worth:
        say("")
        bought = worth_table(found)
        print_table("What budgets buy", bought.head, bought.body)
        say("", bought.caption)
    if found.settings:
        say("")
        settings = settings_table(found)
        print_table("Settings to change", settings.head, settings.body)
    steps = further_steps(found)
    if len(steps) > 1:
        say("", "What to measure next:")
        for step in steps:
            say(f"- {step_words(step)}.")
