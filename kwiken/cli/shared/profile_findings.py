"""Findings on a profile that several verbs tell: too few requests, calls cut short, drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwiken.apps.console.output import note

if TYPE_CHECKING:
    from kwiken.model.profile.change_over_time import Drift
    from kwiken.model.profile.profile import Profile


MIN_REQUESTS: Final = 200  # fewer say little about high percentiles


def note_few(profile: Profile) -> None:
    """Note that there are too few requests for high percentiles, if so."""
    if profile.requests < MIN_REQUESTS:
        many = "request" if profile.requests == 1 else "requests"
        note(f"only {profile.requests} {many}: their slowest tell little, so trace the service for longer")
    note_one_trace(profile)


def note_one_trace(profile: Profile) -> None:
    """Note that several files hold one trace, if so: whoever wrote them gave all requests one id."""
    files = profile.counts.get("warning_files_of_one_trace", 0)
    if files:
        note(
            f"all {files} files state one trace id, so they are read as one trace; give each request a trace "
            "id of its own"
        )


def note_contradicted(profile: Profile) -> None:
    """Note that measured request latencies contradict those of the stages, if so."""
    from kwiken.apps.console.notes import note_words
    from kwiken.model.profile.consistency import contradiction

    found = contradiction(profile)
    if found is not None:
        note(note_words(found))


def cut_short(profile: Profile) -> int:
    """Number of calls that were cancelled before they ended."""
    return sum(int(stage.censored.sum()) for stage in profile.stages)


def note_cut_short(profile: Profile, what: str) -> None:
    """Note the calls that were cancelled before they ended, if any.

    Args:
        what: text on what is shown in place of their latencies.
    """
    cut = cut_short(profile)
    if cut:
        note(f"{cut} {'call was' if cut == 1 else 'calls were'} cut short: {what}")


def drift_summary(found: tuple[Drift, ...]) -> list[dict[str, Any]]:
    """Stages whose latency changed while they were traced, as JSON."""
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


def show_drift(found: tuple[Drift, ...]) -> None:
    """Print a line for each stage that changed, on stderr."""
    from kwiken.apps.console.notes import drift_words

    for each in found:
        note(f"changed while it was traced: {drift_words(each)}")
