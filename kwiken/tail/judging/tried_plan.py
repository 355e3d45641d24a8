"""Results of a tried plan beside its expectation, which correct the expectation of the next plan.

A simulation supposes that copies cost the replicas nothing but what the ledger counts. Where replicas share
processors, or copies go out late, latencies are longer than that. A plan that was tried for some minutes
shows by how much: its requests, beside those that the simulation expects of it. The next plan for the same
service will be about as far off. The same holds for the copies: fewer are sent than expected where answers
come late to the gateway, or where calls of all stages are slow at the same moments.

A few minutes may hold one second in which other programs took the machine, and this second would then be the
tail. So the factors are drawn towards 1, the more the less certain they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Correction, Expected, Intervals, Ladder, Plan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.cost_models import cost_of_one_call
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.notes import ExpectationCorrected
from kwiken.tail.planning.study import PlanStudy
from kwiken.tail.simulation.expectation import INTERVAL_LEVEL, BlockBootstrap, expect
from kwiken.tail.simulation.run_range import RUN_REQUESTS, run_range

MIN_TRIED: Final = 100  # requests, of which five are among the slowest 5%

# By field of `Ladder`: ranks between which latencies are compared, by their geometric means: from three times
# as many requests beyond as beyond the percentile to a third as many. A percentile alone would rest on a
# handful of some hundred requests, and the very slowest are a matter of luck.
RANKS: Final = {
    "p50_ms": (0.25, 0.75),
    "p90_ms": (0.70, 1 - 0.10 / 3),
    "p95_ms": (0.85, 1 - 0.05 / 3),
    "p99_ms": (0.97, 1 - 0.01 / 3),
    "p999_ms": (0.97, 1 - 0.01 / 3),  # beyond p99.9 lies not one of some hundred
}

# Deviation of the logarithm of a factor before anything is measured. In runs of the demo on two machines that
# had nothing else to do, the latencies achieved were 1.2 to 1.7 times those that the simulation expected.
PRIOR_LOG_DEVIATION: Final = 0.4
Z: Final = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2)  # reach of a normal interval, in deviations


def correction_of(
    profile: Profile,
    tried: Plan,
    latency_ms: Floats,
    weight: Floats | None = None,
    *,
    copies: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Correction:
    """Compare latencies and copies under a tried plan with those that the simulation expects of it.

    Before the measurement the logarithm of a factor is normal around 0, with a deviation of
    `PRIOR_LOG_DEVIATION`. A bootstrap over blocks of time tells the deviation of the measured one. The factor
    is the median of the product of both densities, and the bounds are its quantiles.

    Args:
        profile: profile that the next plan is made from.
        latency_ms: (n,) latencies of its requests in order of time, milliseconds, at the gateway.
        weight: (n,) number of requests that each one stands for; None for one each.
        copies: by stage: mean number of copies of a request, 0 for a missing stage; None if not known.

    Raises:
        InputError: for fewer than 100 requests, or a plan for another service.
    """
    if tried.service != profile.service:
        raise InputError(
            f"is a plan for service {tried.service!r}, and the profile is of {profile.service!r}",
            where="tried",
        )
    if len(latency_ms) < MIN_TRIED:
        raise InputError(
            f"{len(latency_ms)} answered requests ran with plan {tried.digest}, and {MIN_TRIED} are needed; "
            "let the plan run for longer",
            where="tried",
        )
    simulation, told = expect(profile, tried, ledger=tried.ledger, seed=seed)
    expected = simulation.after_ms
    bases = _mean_logs(_logs(np.sort(expected)), np.ones_like(expected))
    order = np.argsort(latency_ms)
    logs = _logs(latency_ms[order])
    seen = np.ones_like(latency_ms) if weight is None else weight
    counts = BlockBootstrap(len(latency_ms), seed=seed).counts
    resampled = np.array([_mean_logs(logs, (seen * times)[order]) for times in counts])
    certainty = 1 / (1 + resampled.var(axis=0) / PRIOR_LOG_DEVIATION**2)
    center = certainty * (_mean_logs(logs, seen[order]) - bases)
    reach = Z * np.sqrt(certainty) * resampled.std(axis=0)
    factors = dict(zip(RANKS, np.exp(center).tolist(), strict=True))
    ends = zip(np.exp(center - reach).tolist(), np.exp(center + reach).tolist(), strict=True)
    bounds = dict(zip(RANKS, ends, strict=True))
    found = Correction(plan=tried.digest, requests=len(latency_ms), factors=factors, bounds=bounds)
    if copies is not None and told.spent.reissue > 0:
        spent, ends_of_spent = _spend_factor(profile, tried, copies, told.spent.reissue, len(latency_ms))
        found = msgspec.structs.replace(found, spent=spent, spent_bounds=ends_of_spent)
    return rounded(found)


def _spend_factor(
    profile: Profile, tried: Plan, copies: Mapping[str, float], expected: float, requests: int
) -> tuple[float, tuple[float, float]]:
    """Factor of the spend with its bounds: a Poisson number of copies, and a gamma prior around 1.

    Args:
        profile: profile that the next plan is made from.
        copies: by stage: mean number of copies of a request.
        expected: spend that the simulation expects, as a share of the work, above 0.

    Returns:
        The factor, and its lower and upper bound.
    """
    cost = {name: cost_of_one_call(profile, tried.cost, name) for name in tried.cost.stages}
    work = sum(number * cost.get(name, 0.0) for name, number in copies.items())
    sent = sum(copies.values())
    # As many copies as the expected spend would be at the mean cost of those that were sent, or of any.
    mean_cost = work / sent if work > 0 else sum(cost.values()) / len(cost)
    sent, wanted = requests * sent, requests * expected / mean_cost
    shape = 1 / PRIOR_LOG_DEVIATION**2
    factor = (shape + sent) / (shape + wanted)
    reach = Z / np.sqrt(shape + sent)
    return factor, (factor * float(np.exp(-reach)), factor * float(np.exp(reach)))


def corrected_expectation(expected: Expected, correction: Correction) -> Expected:
    """An expectation, its latencies with the plan and its spend multiplied by the factors of a correction.

    Bounds widen: the logarithms of the distances from the figure to its bound and of the factor to its own
    are added in quadrature.
    """
    after, bounds, longest = {}, {}, 0.0
    for name in Ladder.__struct_fields__:
        factor = correction.factors.get(name, 1.0)
        was = getattr(expected.after, name)
        longest = max(longest, was * factor)  # a percentile is at least as long as the lower ones
        after[name] = longest
        if name in expected.bounds.after and was > 0:
            ends = zip(
                expected.bounds.after[name], correction.bounds.get(name, (factor, factor)), strict=True
            )
            low, high = (np.hypot(np.log(max(end, 1e-9) / was), np.log(own / factor)) for end, own in ends)
            bounds[name] = (longest * float(np.exp(-low)), longest * float(np.exp(high)))
    spent = dict(expected.bounds.spent)
    if "reissue" in spent:
        low, high = spent["reissue"]
        least, most = correction.spent_bounds
        spent["reissue"] = (_share(low * least), _share(high * most))
    return msgspec.structs.replace(
        expected,
        after=Ladder(**after),
        spent=msgspec.structs.replace(
            expected.spent, reissue=_share(expected.spent.reissue * correction.spent)
        ),
        bounds=Intervals(before=expected.bounds.before, after=bounds, spent=spent),
        by_spend=(
            *expected.by_spend[:1],
            *(
                (share, p99_ms * correction.factors.get("p99_ms", 1.0))
                for share, p99_ms in expected.by_spend[1:]
            ),
        ),
        correction=correction,
    )


def corrected(study: PlanStudy, correction: Correction, *, recorded: int, seed: int = 0) -> PlanStudy:
    """The study of a plan with a corrected expectation, and a note on it.

    Args:
        recorded: number of requests that the plan was made from, 1 or more.
    """
    assert study.plan.expected is not None  # `study_plan` states it
    expected = corrected_expectation(study.plan.expected, correction)
    after_ms = study.simulation.after_ms
    run_ms = run_range(after_ms, expected, RUN_REQUESTS, recorded=recorded, seed=seed)
    expected = msgspec.structs.replace(expected, run_ms=run_ms)
    low, high = correction.bounds["p99_ms"]
    factor = correction.factors["p99_ms"]
    note = ExpectationCorrected(correction.plan, correction.requests, factor, low, high, correction.spent)
    plan = msgspec.structs.replace(study.plan, expected=rounded(expected))
    return replace(study, plan=plan, notes=(note, *study.notes))


def _share(value: float) -> float:
    return min(value, 1.0)


def _logs(latency_ms: Floats) -> Floats:
    """(n,): logarithms of latencies, in their order."""
    return np.asarray(np.log(np.maximum(latency_ms, 1e-6)))


def _mean_logs(logs: Floats, weight: Floats) -> Floats:
    """(5,): for each percentile of `RANKS` the mean of the logarithms between its two ranks.

    Args:
        logs: (n,) logarithms of the latencies, ascending.
        weight: (n,) weight of each latency, of any sum.
    """
    top = np.cumsum(weight)
    mass, top = weight / top[-1], top / top[-1]
    found = []
    for low, high in RANKS.values():
        inside = np.clip(np.minimum(top, high) - np.maximum(top - mass, low), 0.0, None)
        found.append(inside @ logs / inside.sum())
    return np.array(found)
