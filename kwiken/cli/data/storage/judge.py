"""`kwiken storage judge`: judges a model on another trace, or on parts of its own trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kwiken.apps.console.output import print_json, print_table, progress, say
from kwiken.cli.data.storage.models import load_model, load_trace
from kwiken.cli.shared.options import json_option, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.storage.model.comparison import JudgedFeature, NearnessVerdict, StorageJudgement


@click.command(short_help="Judge a model on what it was not trained on.")
@click.argument("trace", metavar="TRACE")
@click.argument("model", metavar="MODEL")
@seed_option
@json_option
@needs_extra("plan")
def command(*, trace: str, model: str, seed: int, as_json: bool) -> None:
    """Compare I/Os drawn from MODEL with TRACE.

    A trace that the model was trained on is cut in two parts; a model of the one part, trained anew in the
    same way, is judged on the other one: on every second slice, at four phases, and on the later half, which
    adds what has drifted. fio's own generators, fitted on the same part, are judged beside it.
    """
    records, learned = load_trace(trace), load_model(model)
    import numpy as np

    from kwiken.storage.model.comparison import judge

    with progress("judging"):
        found = judge(records, learned, np.random.default_rng(seed))
    if as_json:
        print_json(found)
        return
    first, *others = found
    _show(first)
    if not others:
        say("")
        _show_nearness([first])
        return
    say("")
    _show_cuts([first, *others[:-1]])
    say("", "drift: what a model of the past misses")
    _show(others[-1])


def _show(found: StorageJudgement) -> None:
    from kwiken.storage.model.baselines import BASELINES

    trained = f"trained on {found.trained_ios:,} I/Os, " if found.trained_ios else ""
    say(f"{found.part}: {trained}judged on {found.judged_ios:,}; {found.states:,} states")
    print_table(
        "",
        (
            "feature",
            "trained",
            "judged",
            "drawn",
            "error",
            "own error",
            "parts differ",
            "by chance",
            "bound",
            "",
        ),
        (
            (
                each.name,
                _number(each.trained, 4),
                _number(each.judged, 4),
                _number(each.generated, 4),
                _number(each.error, 3),
                _number(each.own, 3),
                _number(each.apart, 3),
                _number(each.by_chance, 3),
                _number(each.bound, 3),
                _verdict(each),
            )
            for each in found.features
        ),
    )
    say("")
    print_table(
        "errors of the model and of fio's generators, fitted on the same part",
        ("feature", "kwiken", *BASELINES),
        [
            *(
                (each.name, *(f"{error:.3g}" for error in (each.error, *each.others)))
                for each in found.features
            ),
            ("mean of error over bound", *(f"{value:.2f}" for value in found.nearness[0].distances)),
        ],
    )


def _show_cuts(found: list[StorageJudgement]) -> None:
    """Print errors with slices at each phase: whether a bound holds is not to hang on where slices begin."""
    rows = []
    for each in zip(*(cut.features for cut in found), strict=True):
        bound = each[0].bound
        if bound is None:
            continue
        chances = [one.holds_by_chance for one in each if one.holds_by_chance is not None]
        rows.append(
            (
                each[0].name,
                *(f"{one.error:.3g}" for one in each),
                f"{bound:g}",
                f"{sum(one.error <= bound for one in each)} of {len(each)}",
                f"{sum(chances) / len(chances):.0%}" if chances else "-",
            )
        )
    print_table(
        "errors with slices that begin a quarter of a period later each",
        (
            "feature",
            *(f"cut {number}" for number in range(1, len(found) + 1)),
            "bound",
            "holds",
            "shuffled parts hold",
        ),
        rows,
    )
    say("")
    _show_nearness(found)


def _show_nearness(found: list[StorageJudgement]) -> None:
    """Print distances of all generators by each measure, and which one is nearest beyond chance."""
    from kwiken.storage.model.baselines import BASELINES
    from kwiken.storage.model.comparison import MEASURES, nearest

    for at, measure in enumerate(MEASURES):
        columns = [
            zip(cut.nearness[at].distances, cut.nearness[at].uncertainty, strict=True) for cut in found
        ]
        print_table(
            f"distance, lower is nearer, and its standard error over seeds: {measure}",
            ("generator", *(f"cut {number}" for number in range(1, len(found) + 1))),
            [
                (name, *(f"{distance:.3f} ± {error:.3f}" for distance, error in own))
                for name, *own in zip(("kwiken", *BASELINES), *columns, strict=True)
            ],
        )
        say("")
    for each in nearest(found):
        say(_words_of(each, tuple(BASELINES)[each.rival], len(found)))


def _words_of(each: NearnessVerdict, rival: str, cuts: int) -> str:
    """Verdict in words: a difference within chance is a tie."""
    if abs(each.difference) <= each.chance:
        found = f"a tie of kwiken and {rival}"
    else:
        found = "kwiken is nearest" if each.difference > 0 else f"{rival} is nearer than kwiken"
    words = "nearer" if each.difference > 0 else "farther"
    return (
        f"nearest ({each.measure}): {found}; kwiken is {abs(each.difference):.3f} {words} than {rival} over "
        f"{cuts} cut{'s' * (cuts > 1)}, chance of seeds {each.chance:.3f}; beyond chance nearer in "
        f"{each.nearer_cuts}, farther in {each.farther_cuts}"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _verdict(each: JudgedFeature) -> str:
    """Whether the error is within its bound; where not, whether parts differ so much by chance or in fact."""
    if each.bound is None:
        return ""
    if each.error <= each.bound:
        return "holds"
    if each.by_chance is not None and each.error <= each.by_chance:
        return "FAILS: by chance"
    return "FAILS: the parts differ" if each.apart is not None and each.apart > each.bound else "FAILS"
