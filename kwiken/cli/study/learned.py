"""What `fit` and `plan` say beyond latencies: what drifts, how sure gains are, and which requests pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwiken.cli.shared import note, print_table

if TYPE_CHECKING:
    from kwiken.diagnosis import ClassOutcome
    from kwiken.plan import Plan
    from kwiken.planning import PlanStudy
    from kwiken.profile import Drift, Profile


FEWEST: Final = 200  # requests below which the slowest tell little


def note_few(profile: Profile) -> None:
    """Say so where there are too few requests for high percentiles."""
    if profile.requests < FEWEST:
        many = "request" if profile.requests == 1 else "requests"
        note(f"only {profile.requests} {many}: their slowest tell little, so trace the service for longer")


def note_contradicted(profile: Profile) -> None:
    """Say so where whole requests took another time than their stages come to."""
    from kwiken.profile import told_contradiction

    told = told_contradiction(profile)
    if told is not None:
        note(f"{told}; what is said here goes by the stages")


def cut_short(profile: Profile) -> int:
    """How many calls were given up before they ended."""
    return sum(int(stage.censored.sum()) for stage in profile.stages)


def note_cut_short(profile: Profile, what: str) -> None:
    """Say so where calls were given up before they ended, and what stands for their times."""
    cut = cut_short(profile)
    if cut:
        note(f"{cut} {'call was' if cut == 1 else 'calls were'} cut short: {what}")


def drift_summary(found: tuple[Drift, ...]) -> list[dict[str, Any]]:
    """Stages that changed while they were traced, as JSON."""
    return [
        {
            "stage": each.stage,
            "after_ms": each.after_ms,
            "late_earlier": each.earlier,
            "late_later": each.later,
            "p_value": each.p_value,
        }
        for each in found
    ]


def learned_summary(study: PlanStudy, profile: Profile) -> dict[str, Any]:
    """How sure the curves are, what drifts, and what the plan does to each kind of requests, as JSON."""
    from kwiken.curves import curve_bounds

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
    """Low and high of what a stage's copies gain, ms²; None where it gets none, or they gain nothing."""
    stage = study.plan.stages.get(name)
    return study.between.get(name) if stage is not None and stage.reissue is not None else None


def outcomes(profile: Profile, plan: Plan) -> tuple[ClassOutcome, ...]:
    """What the plan does to each kind of requests; none where there is but one kind."""
    from kwiken.diagnosis import by_class

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


def show_classes(profile: Profile, plan: Plan) -> None:
    """The same for the eye, on stderr; nothing where there is but one kind."""
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
        note("")
        print_table("By kind of request, ms", columns, rows)


def show_drift(found: tuple[Drift, ...]) -> None:
    """A line for each stage that changed."""
    for each in found:
        note(f"changed while it was traced: {each.words}")
