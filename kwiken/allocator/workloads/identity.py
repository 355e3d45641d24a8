"""Identity cache: profiles of workloads that were classified before, found by fingerprint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kwiken.allocator.workloads.measurements import Measured, Measurements
from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.base.errors import InputError


class KnownProfiles:
    """Profiles by identity, so that a program that was seen before need not be measured (Paragon, A-12).

    Args:
        profiles: profiles of earlier classifications; those without an identity are not found again.
    """

    def __init__(self, profiles: Iterable[WorkloadProfile] = ()) -> None:
        self._by_identity = {profile.identity: profile for profile in profiles if profile.identity}

    def find(self, measured: Measured, known: Measurements) -> WorkloadProfile | None:
        """Profile of a workload that has an identity and no measurements; None where it must be classified.

        Args:
            measured: the workload; one with measurements of its own is classified anew.
            known: history, whose columns the profile must have.

        Raises:
            InputError: the profile is of another measure, or of other sizes, counts, classes or sources.
        """
        if not measured.identity or measured.runs or measured.tolerated or measured.caused:
            return None
        profile = self._by_identity.get(measured.identity)
        if profile is None:
            return None
        where = f"workload {measured.name!r}"
        if profile.measure != measured.measure:
            raise InputError(
                f"is told as {measured.measure}, and was known as {profile.measure}", where=where
            )
        for kind, then, now in (
            ("sizes", profile.sizes, known.up.labels),
            ("numbers of replicas", tuple(profile.replicas.tolist()), known.out.labels),
            ("classes", profile.classes, known.het.labels),
        ):
            if then != now:
                raise InputError(
                    f"was classified for other {kind} than the history's; measure the workload again",
                    where=where,
                )
        return replace(profile, name=measured.name)
