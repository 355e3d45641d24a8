"""Data of a report: reads its files, and fits or plans what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kwiken.apps.console.notes import note_sentences
from kwiken.apps.console.output import read_text
from kwiken.apps.report.charts.curves import CurveView
from kwiken.apps.report.charts.gantt import GanttRequest
from kwiken.apps.report.charts.requests import pauses_of, pick_requests
from kwiken.apps.report.inputs import MAX_BYTES, Found
from kwiken.apps.report.model.result import DemoResult, read_result
from kwiken.apps.report.model.rows import Loads, read_rows
from kwiken.apps.report.sections.views import Material, curve_views
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.codec import profile_from_json
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.http.query_address import scheme_of
from kwiken.otel.trace.recorded_requests import read_requests
from kwiken.otel.write.records import RequestRecord
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.diagnosis.explanation import Explanation, explain
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

MIN_REQUESTS_TO_PLAN = 10
DEFAULT_BUDGET = 0.05
Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Settings for data that are missing in the files.

    Attributes:
        reissue: budget of a plan to make, as a share from 0 to 1.
        root: operation of the requests' root span, for a fit of traces; None for the most frequent.
        service: service of the requests' root span, for a fit of traces; None for any.
        jaeger: address of the Jaeger that the page links requests to; None for no links.
    """

    reissue: float = 0.05
    seed: int = 0
    root: str | None = None
    service: str | None = None
    jaeger: str | None = None


def gather(found: Found, wishes: Wishes, *, tell: Tell | None = None) -> Material:
    """Read the files; fit traces if there is no profile, and plan if there is no plan.

    Args:
        tell: receives the progress of reading traces: amount done, and total.

    Raises:
        InputError: for a file that is invalid or about another service than the others; names it.
    """
    result = read_result(_text(found.result), where=str(found.result)) if found.result is not None else None
    plan, even = _plans(found)
    loads = _loads(found)
    profile = _profile(found, wishes, tell) if _needs_profile(found) else None
    notes: list[str] = []
    if profile is not None and plan is None:
        plan, notes = _planned(profile, wishes)
    _check(profile, plan, even, result)
    if loads.unanswered:
        notes.append(f"{loads.unanswered} requests had no answer; they count as 10 s or more.")
    return Material(
        profile=profile,
        plan=plan,
        even=even,
        result=result,
        arms=loads.latencies(),
        requests=_requests(found, loads, result) if profile is not None and _ours(profile) else (),
        curves=_curves(profile, plan, even, wishes) if profile is not None else (),
        story=_story(profile, plan, wishes, where=str(found.profile or found.traces[0]))
        if profile is not None
        else None,
        notes=tuple(notes),
        jaeger=wishes.jaeger,
    )


def _story(profile: Profile, plan: Plan | None, wishes: Wishes, *, where: str) -> Explanation:
    """Explain slow requests, with the plan's budget (else that in the settings) tried at each stage alone."""
    budget = plan.budgets.reissue if plan is not None else 0.0
    try:
        return explain(profile, plan, budget=budget or wishes.reissue or DEFAULT_BUDGET, seed=wishes.seed)
    except InputError as error:
        raise InputError(error.problem, where=where) from error


def _text(path: Path) -> str:
    return read_text(str(path), MAX_BYTES)


def _needs_profile(found: Found) -> bool:
    return found.profile is not None or bool(found.traces)


def _profile(found: Found, wishes: Wishes, tell: Tell | None) -> Profile:
    if found.profile is not None:
        profile = profile_from_json(_text(found.profile), where=str(found.profile))
        if not profile.requests:
            raise InputError("the profile has no requests", where=str(found.profile))
        return profile
    return fit_profile(found.traces, root=wishes.root, service=wishes.service, on_progress=tell)


def _plans(found: Found) -> tuple[Plan | None, Plan | None]:
    """Read the plan, and the one that is spread evenly."""
    read = {path: Plan.from_json(_text(path), where=str(path)) for path in found.plans}
    even = [plan for path, plan in read.items() if "even" in path.stem]
    own = [plan for path, plan in read.items() if "even" not in path.stem]
    if len(own) > 1 or len(even) > 1:
        raise InputError(
            "a report has one plan, and one spread evenly with `even` in its name", where=str(found.plans[-1])
        )
    return own[0] if own else None, even[0] if even else None


def explored(profile: Profile, plan: Plan | None, story: Explanation, wishes: Wishes) -> Material:
    """Data of a page that explores a profile; without a plan one is made, so that its budgets are seen.

    Args:
        story: what makes the profile's slow requests slow.
    """
    notes: list[str] = []
    if plan is None:
        plan, notes = _planned(profile, wishes)
    curves = _curves(profile, plan, None, wishes)
    return Material(profile=profile, plan=plan, curves=curves, story=story, notes=tuple(notes))


def _curves(profile: Profile, plan: Plan | None, even: Plan | None, wishes: Wishes) -> tuple[CurveView, ...]:
    return curve_views(stage_curves(profile, seed=wishes.seed), plan, even)


def _planned(profile: Profile, wishes: Wishes) -> tuple[Plan | None, list[str]]:
    """Plan of a profile with notes on it; None for too few requests."""
    if profile.requests < MIN_REQUESTS_TO_PLAN:
        return None, []
    created = datetime.now(UTC).isoformat(timespec="seconds")
    settings = PlanSettings(budgets=Budgets(reissue=wishes.reissue), created=created, seed=wishes.seed)
    study = study_plan(profile, settings)
    made = f"No plan was given, so one was made for {wishes.reissue:.1%} extra work."
    return study.plan, [made, *note_sentences(study.notes)]


def _loads(found: Found) -> Loads:
    loads = Loads()
    for path in found.loads:
        for row in read_rows(path):
            loads.add(row, path.stem)
    return loads


def _check(profile: Profile | None, plan: Plan | None, even: Plan | None, result: DemoResult | None) -> None:
    """Check that all documents are about one service."""
    named = {"profile": profile, "plan": plan, "even plan": even, "demo": result}
    services = {what: thing.service for what, thing in named.items() if thing is not None}
    if len(set(services.values())) > 1:
        said = ", ".join(f"{what} {service!r}" for what, service in services.items())
        raise InputError(f"these are about different services: {said}")


def _ours(profile: Profile) -> bool:
    """Tell whether a profile is from kwiken's own traces; requests of others cannot be drawn."""
    stages = [stage for stage in profile.stages if not stage.own_time]
    return all(stage.match.service == f"{profile.service}-{stage.name}" for stage in stages)


def _requests(found: Found, loads: Loads, result: DemoResult | None) -> tuple[GanttRequest, ...]:
    """Requests to draw, if traces of kwiken's gateway are among the files."""
    files = [name for name in found.traces if scheme_of(name) is None]
    if not files:
        return ()
    wanted = loads.traces.__contains__ if loads.traces else None
    by_arm: dict[str, list[RequestRecord]] = {}
    for record in read_requests(files, wanted=wanted):
        by_arm.setdefault(_arm(record, loads.traces), []).append(record)
    return pick_requests(by_arm, pauses_of(result) if result is not None else None)


def _arm(record: RequestRecord, known: Mapping[int, str]) -> str:
    """Arm of a request: from its load record, else by whether a plan was in force."""
    arm = known.get(record.trace_id)
    if arm in {"before", "after", "even", "p95"}:
        return arm
    return "before" if record.plan is None else "after"
