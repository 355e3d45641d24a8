"""Findings of `plan` beyond latencies: confidence of gains, drift, outcomes by request class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kwiken.apps.console.output import note, print_table
from kwiken.cli.shared.profile_findings import drift_summary

if TYPE_CHECKING:
    from kwiken.model.plan.plan import Plan
    from kwiken.model.profile.profile import Profile
    from kwiken.tail.diagnosis.classes import ClassOutcome
    from kwiken.tail.planning import notes as planning
    from kwiken.tail.planning.study import PlanStudy


def learned_summary(study: PlanStudy, profile: Profile) -> dict[str, Any]:
    """Confidence of the curves, drift, and the plan's effect on each class of requests, as JSON."""
    from kwiken.tail.curves.confidence import curve_bounds

    unseen = {name: curve for name, curve in study.curves.items() if name not in study.bounds}
    known = {**study.bounds, **curve_bounds(profile, unseen)}
    return {
        "curves": {
            name: {
                "certainty": bounds.certainty,
                "fraction": bounds.fraction.tolist(),
                "variance_ms2": study.curves[name].variance.tolist(),
                "low_ms2": bounds.low.tolist(),
                "high_ms2": bounds.high.tolist(),
                "level": bounds.level,
                "correlation": study.curves[name].correlation,
            }
            for name, bounds in known.items()
        },
        "drift": drift_summary(study.drift),
        "classes": [_class(each) for each in outcomes(profile, study.plan)],
    }


def gain_between(study: PlanStudy, name: str) -> tuple[float, float] | None:
    """Confidence interval of the gain of a stage's copies, ms²; None if it gets none or they gain nothing."""
    stage = study.plan.stages.get(name)
    return study.between.get(name) if stage is not None and stage.reissue is not None else None


def outcomes(profile: Profile, plan: Plan) -> tuple[ClassOutcome, ...]:
    """Effect of the plan on each class of requests; empty if the requests are not classified."""
    from kwiken.tail.diagnosis.classes import by_class

    return by_class(profile, plan) if profile.classes is not None else ()


def _class(each: ClassOutcome) -> dict[str, Any]:
    return {
        "class": each.name,
        "requests": each.requests,
        "share": each.share,
        "before": each.before,
        "after": each.after,
        "p99_cut": each.p99_cut,
        "spent_share": each.spent,
    }


def show_classes(profile: Profile, plan: Plan, *, to_stderr: bool) -> None:
    """Print the effect of the plan on each class of requests; nothing if there are no classes."""
    rows = [
        (
            each.name,
            f"{each.share:.1%}",
            f"{each.before.p99_ms:.2f}",
            f"{each.after.p99_ms:.2f}",
            f"{-each.p99_cut:+.1%}",
            f"{each.spent:.1%}",
        )
        for each in outcomes(profile, plan)
    ]
    if rows:
        columns = ("requests", "share", "p99 before", "p99 after", "change", "of the spend")
        print_table("By kind of request, ms", columns, rows, to_stderr=to_stderr, apart=True)


def show_notes(notes: Iterable[planning.Note]) -> None:
    """Print a line for each note on a plan or on a simulation at a load, on stderr."""
    from kwiken.apps.console.notes import note_words

    for each in notes:
        note(f"note: {note_words(each)}")


MIN_PASSED: Final = 1.05  # ratio of spend to budget from which the budget was passed


def passed_budget(spent: float, budget: float) -> str | None:
    """Sentence that says that a plan passed its budget; None where it did not, but for noise.

    Args:
        spent: extra work, as a share of all work.
        budget: budget for it, as a share of all work.
    """
    if spent <= MIN_PASSED * budget:
        return None
    return f"the plan passed its budget: {spent:.2%} spent of {budget:.2%}"


WORDS: Final = {
    "calls": "of the calls",
    "typical": "of typical work",
    "mean": "of mean work",
    "busy": "of measured work",
}


def by_every_count(spent: Mapping[str, float]) -> str:
    """Line with the cost of copies by every cost model.

    Args:
        spent: share of the cost by cost model, as `spent_by_model` returns it.
    """
    return ", ".join(f"{spent[model]:.2%} {words}" for model, words in WORDS.items() if model in spent)
