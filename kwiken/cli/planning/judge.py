"""`kwiken judge`: a plan against requests that it has not seen, beside none, an even spread and hindsight."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from kwiken.apps.console.output import (
    IF_USUAL,
    note,
    note_written,
    print_json,
    print_table,
    progress,
    say,
    write_text,
)
from kwiken.base.errors import InputError
from kwiken.base.jobs import Spread, one_by_one
from kwiken.cli.planning.plan_findings import passed_budget
from kwiken.cli.shared.engines import engine_at, engine_options
from kwiken.cli.shared.input_files import check_apart, check_exist
from kwiken.cli.shared.options import (
    OBJECTIVES,
    Real,
    given,
    json_option,
    load_plan,
    load_profile,
    needs_extra,
    sampled_option,
    seed_option,
)
from kwiken.cli.shared.profile_findings import note_contradicted, note_few

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwiken.model.plan.plan import Plan
    from kwiken.model.profile.profile import Profile
    from kwiken.tail.judging.judgement_document import Arm, Judgement

DEFAULT_BUDGET: Final = 0.05
MAX_BLOCKS: Final = 100
WAYS: Final = {"plan": "the plan", "even": "all stages alike", "hindsight": "in hindsight"}
PERCENTILES: Final = ("p50", "p90", "p95", "p99", "p99.9")


class JudgedFit(TypedDict):
    """Options of a fit of traces, as `fit_profile` takes them."""

    like: Profile | None
    kind: str | None
    root: str | None
    service: str | None


class Replays(TypedDict):
    """Options of the replays of all judgements."""

    sampled: float
    seed: int
    spread: Spread


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="[PLAN] TRACES|PROFILE...")
@click.option(
    "--blocks",
    type=click.IntRange(2, MAX_BLOCKS),
    metavar="N",
    help="Plan on the first k of N blocks of time and judge on the next, for every k. PLAN then states the "
    "budget only, and may be left out.",
)
@click.option(
    "--reissue",
    type=Real(0, 1, above=True),
    help="Budget of the plans that --blocks makes, as a share of all work.  [default: that of PLAN, "
    "else 0.05]",
)
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="tail",
    show_default=True,
    help="Objective of the plans that --blocks makes.",
)
@click.option(
    "--from",
    "learned_file",
    metavar="FILE",
    help="The profile that PLAN was made from. The even spread learns its time-outs there, and TRACES are "
    "fitted into its stages.  [default: the judged requests, which favours the even spread]",
)
@sampled_option
@click.option("--kind", metavar="NAME", help="Requests of this kind, of TRACES, as in `kwiken fit`.")
@click.option("--root", metavar="OP", help="Requests of TRACES are spans of this operation.")
@click.option("--service", metavar="NAME", help="Only requests of this service, of TRACES.")
@click.option("-o", "--out", metavar="FILE", help="Write the judgement as a page with charts.")
@engine_options(processes="this one alone")
@seed_option
@json_option
@needs_extra("plan")
def command(
    *,
    files: tuple[str, ...],
    blocks: int | None,
    reissue: float | None,
    objective: str,
    learned_file: str | None,
    sampled: float,
    kind: str | None,
    root: str | None,
    service: str | None,
    out: str | None,
    engine: str,
    jobs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Judge PLAN on requests that it has not seen, in TRACES or a PROFILE, with the ledger in force.

    The requests are replayed in their order of time: without a plan, with PLAN, with the same budget spread
    evenly, and with a plan made in hindsight. All is judged twice: with copies correlated with their calls as
    recorded pairs show, and with a correlation of 0.5. Several profiles, such as those of the days after, are
    judged together, with a row for each in order of time.
    """
    if as_json and out == "-":
        raise click.UsageError("-o - and --json both want stdout; choose one")
    _check_options(blocks, learned_file)
    check_exist(files)
    if out is not None and out != "-":
        check_apart(out, list(files))
    earlier = None if learned_file is None else load_profile(learned_file)
    from kwiken.apps.console.notes import plan_doubts

    plan, recordings = _read(files, like=earlier, kind=kind, root=root, service=service)
    with engine_at(engine, jobs) as run, progress("judging"):
        how: Replays = {"sampled": sampled, "seed": seed, "spread": run or one_by_one}
        if blocks is None:
            found = _judged(plan, recordings, earlier, where=files[0], **how)
        else:
            found = _judged_by_blocks(plan, recordings, blocks, reissue=reissue, objective=objective, **how)
    if as_json:
        print_json(found)
    elif out != "-":
        _show(found, by_blocks=blocks is not None)
        for later in recordings.values():
            note_few(later)
            note_contradicted(later)
    for words in () if plan is None else plan_doubts(plan):
        note(f"doubt: {words}")
    for remark in remarks(found):
        note(f"note: {remark}")
    if out is not None:
        _write(out, found, by_blocks=blocks is not None)


def _check_options(blocks: int | None, learned_file: str | None) -> None:
    """Refuse options that would have no effect."""
    if blocks is not None and learned_file is not None:
        raise InputError("does not go with --blocks, which learns from the blocks before", where="--from")
    if blocks is None and (idle := given("reissue", "objective")) is not None:
        raise InputError("needs --blocks: without it PLAN is judged as it is", where=idle)


def _judged(
    plan: Plan | None,
    recordings: Mapping[str, Profile],
    earlier: Profile | None,
    *,
    where: str,
    **how: Unpack[Replays],
) -> Judgement:
    """Judge the plan as it is: a single recording by stretches of time, several as a stretch each."""
    from kwiken.tail.judging.judge_plan import judge, judge_recordings

    if plan is None:
        raise InputError("there is no plan among the files; give one, or --blocks", where=where)
    if len(recordings) > 1:
        return judge_recordings(plan, recordings, earlier=earlier, **how)
    (later,) = recordings.values()
    return judge(plan, later, earlier=earlier, **how)


def _judged_by_blocks(
    plan: Plan | None,
    recordings: Mapping[str, Profile],
    blocks: int,
    *,
    reissue: float | None,
    objective: str,
    **how: Unpack[Replays],
) -> Judgement:
    """Judge plans made block by block, with the budget and ledger of the plan if there is one."""
    from kwiken.tail.judging.blocks import judge_blocks

    first, *more = recordings
    if more:
        raise InputError(
            f"divides one profile into blocks, and {more[0]} is a second one; leave --blocks out to judge a "
            "plan on each, or fit their traces together",
            where="--blocks",
        )
    own = plan.budgets.reissue if plan is not None and plan.budgets.reissue > 0 else DEFAULT_BUDGET
    return judge_blocks(
        recordings[first],
        blocks,
        budget=own if reissue is None else reissue,
        objective=objective,
        ledger=None if plan is None else plan.ledger,
        **how,
    )


def _read(files: Sequence[str], **options: Unpack[JudgedFit]) -> tuple[Plan | None, dict[str, Profile]]:
    """Read the plan, if there is one, and the requests by name of their recording."""
    from kwiken.apps.report.inputs import find

    found = find(files, several_profiles=True)
    if len(found.plans) > 1:
        raise InputError("is a second plan; one is judged", where=str(found.plans[1]))
    if found.profile is not None and found.traces:
        raise InputError("is a profile, and traces are given too; give either", where=str(found.profile))
    plan = load_plan(str(found.plans[0])) if found.plans else None
    if found.profile is not None:
        if (idle := given("kind", "root", "service")) is not None:
            raise InputError("is for traces; a profile's requests are chosen already", where=idle)
        recordings = _profiles([str(path) for path in found.profiles])
    elif found.traces:
        from kwiken.otel.fit.fit import fit_profile

        with progress("reading traces") as bar:
            later = fit_profile(
                found.traces, on_progress=lambda done, total: bar.update(done, total=total), **options
            )
        recordings = {found.traces[0]: later}
    else:
        raise InputError("there are no traces and no profile among the files", where=files[0])
    for name, later in recordings.items():
        if plan is not None and plan.service != later.service:
            how = "; --from PROFILE takes the plan's kind of requests, --kind NAME another"
            raise InputError(
                f"is a plan for service {plan.service!r}; the requests of {name} are of {later.service!r}"
                f"{how if found.traces else ''}",
                where=str(found.plans[0]),
            )
    return plan, recordings


def _profiles(paths: Sequence[str]) -> dict[str, Profile]:
    """Profiles by the names of their files, or by their paths where files of one name are in two folders."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise InputError("is given twice; its requests would count twice", where=twice)
    names = [Path(path).name for path in paths]
    return {
        name if names.count(name) == 1 else path: load_profile(path)
        for name, path in zip(names, paths, strict=True)
    }


def _show(found: Judgement, *, by_blocks: bool) -> None:
    """Print the ways side by side, then the plan by stretches of time."""
    head = ("budget goes to", "copies", *(f"{at} cut" for at in PERCENTILES), "spent", "denied")
    before = (found.before.p50_ms, found.before.p90_ms, found.before.p95_ms, found.before.p99_ms)
    rows = [("no stage", "-", *(f"{value:.4g} ms" for value in (*before, found.before.p999_ms)), "-", "-")]
    rows += [_row(arm, shown=not found.unshown or arm.correlation is not None) for arm in found.arms]
    how = (
        f"planned block by block on those before, {found.budget:.2%}" if by_blocks else f"{found.budget:.2%}"
    )
    condition = f", {IF_USUAL}" if found.unshown else ""
    print_table(f"{found.service}: {found.requests} requests, budget {how}{condition}", head, rows)
    arms = [arm for arm in found.arms if arm.correlation is None]
    say("")
    head = (
        "block" if by_blocks else "from" if found.stretches[0].recording is None else "profile",
        "requests",
        "p99 ms",
        *(f"cut, {WAYS[arm.way]}" for arm in arms),
        "spent",
        "denied",
    )
    print_table(
        "p99 by time, and what the plan spent"
        if found.stretches[0].recording is None
        else "p99 by profile, and what the plan spent",
        head,
        list(_by_time(found, arms, by_blocks=by_blocks)),
    )
    say("", f"p99 rests on about {max(1, found.requests // 100)} requests")


def _row(arm: Arm, *, shown: bool) -> tuple[str, ...]:
    linked = f"correlated {arm.correlation:g}" if arm.correlation is not None else "as pairs show"
    cuts = [
        f"{cut.share:.1%} ({cut.low:.0%} to {cut.high:.0%})"
        if name == "p99_ms" and shown
        else f"{cut.share:.1%}"
        for name, cut in arm.cuts.items()
    ]
    return (WAYS[arm.way], linked, *cuts, f"{arm.spent:.2%}", f"{arm.denied:.0%}")


def _by_time(found: Judgement, arms: Sequence[Arm], *, by_blocks: bool) -> list[tuple[str, ...]]:
    """Rows of the table by stretches of time; the first arm is the plan."""
    rows = []
    for i, stretch in enumerate(found.stretches):
        p99 = stretch.before.p99_ms
        cuts = [f"{1 - arm.stretches[i].after.p99_ms / p99:.1%}" if p99 > 0 else "-" for arm in arms]
        plan = arms[0].stretches[i]
        start = datetime.fromtimestamp(stretch.start_s, UTC)
        when = f"{i + 2}" if by_blocks else stretch.recording or f"{start:%m-%d %H:%M}"
        spend = (f"{plan.spent:.2%}", f"{plan.denied:.0%}")
        rows.append((when, f"{stretch.requests}", f"{p99:.4g}", *cuts, *spend))
    return rows


def remarks(found: Judgement) -> list[str]:
    """Sentences on requests that the plan knows, budgets that were passed and copies that were denied."""
    arm = found.arm("plan")
    told = []
    if found.in_sample:
        told.append(
            "the plan was learned from these very requests, so its cut says little of later ones; "
            "judge it on later requests, or use --blocks"
        )
    if (passed := passed_budget(arm.spent, found.budget)) is not None:
        per_s = found.ledger.floor_per_s
        told.append(
            f"{passed}, because the ledger denies none of the first {per_s:g} copies a second; "
            "what is planned in hindsight may spend as much"
        )
    if arm.denied > 0:
        told.append(f"the ledger denied {arm.denied:.0%} of the copies that the plan asked for")
    return told


def _write(out: str, found: Judgement, *, by_blocks: bool) -> None:
    from kwiken.apps.report.model.page import render
    from kwiken.apps.report.page_of_judgement import judgement_page

    made = f"Drawn {datetime.now(UTC).isoformat(timespec='seconds')}."
    write_text(out, render(judgement_page(found, made=made, by_blocks=by_blocks)))
    if out != "-":
        note_written(str(Path(out)))
