"""`kwiken storage judge`: judges a model on another trace, or on parts of its own trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kwiken.apps.console import print_json, print_table, progress, say
from kwiken.cli.data.storage.models import load_model, load_trace
from kwiken.cli.shared import json_option, needs_extra, seed_option

if TYPE_CHECKING:
    from kwiken.storage.model import JudgedFeature, StorageJudgement


@click.command(short_help="Judge a model on what it was not trained on.")
@click.argument("trace", metavar="TRACE")
@click.argument("model", metavar="MODEL")
@seed_option
@json_option
@needs_extra("plan")
def command(*, trace: str, model: str, seed: int, as_json: bool) -> None:
    """Compare I/Os drawn from MODEL with TRACE.

    A trace that the model was trained on is cut in two parts; a model of the one part, trained anew in the
    same way, is judged on the other one. fio's own generators are judged beside it.
    """
    records, learned = load_trace(trace), load_model(model)
    import numpy as np

    from kwiken.storage.model import judge

    with progress("judging"):
        found = judge(records, learned, np.random.default_rng(seed))
    if as_json:
        print_json(found)
        return
    for place, each in enumerate(found):
        _show(each, apart=place > 0)


def _show(found: StorageJudgement, *, apart: bool) -> None:
    from kwiken.storage.model import BASELINES

    if apart:
        say("")
    trained = f"trained on {found.trained_ios:,} I/Os, " if found.trained_ios else ""
    say(f"{found.part}: {trained}judged on {found.judged_ios:,}; {found.states:,} states")
    print_table(
        "",
        ("feature", "trained", "judged", "drawn", "error", "parts differ", "by chance", "bound", ""),
        (
            (
                each.name,
                "-" if each.trained is None else f"{each.trained:.4g}",
                f"{each.judged:.4g}",
                f"{each.generated:.4g}",
                f"{each.error:.3g}",
                "-" if each.apart is None else f"{each.apart:.3g}",
                "-" if each.by_chance is None else f"{each.by_chance:.3g}",
                "-" if each.bound is None else f"{each.bound:g}",
                _verdict(each),
            )
            for each in found.features
        ),
    )
    names = ("kwiken", *BASELINES)
    say(
        "mean of error over bound, lower is nearer: "
        + ", ".join(f"{name} {value:.2f}" for name, value in zip(names, found.nearness, strict=True))
    )


def _verdict(each: JudgedFeature) -> str:
    """Whether the error is within its bound; where not, whether parts differ so much by chance or in fact."""
    if each.bound is None:
        return ""
    if each.error <= each.bound:
        return "holds"
    if each.by_chance is not None and each.error <= each.by_chance:
        return "FAILS: by chance"
    return "FAILS: the parts differ" if each.apart is not None and each.apart > each.bound else "FAILS"
