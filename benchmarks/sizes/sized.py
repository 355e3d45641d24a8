"""Sizes to compare in benchmarks: a target that replicas alone can reach, and the answers for it."""

from __future__ import annotations

from benchmarks.sizes.arms import Arm, compared
from kwiken.allocator.capacity.outcomes import REISSUES_ONLY, REPLICAS_ONLY, SizeOutcome, checked
from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import VERIFY_SEED, SizeStudy, study_size
from kwiken.allocator.capacity.supply import Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.load.decompose import load_model

SPARE = 2.0  # cost of the sizes whose p99 is the target, as a multiple of the cheapest that serve at all
MIN_SAVING = 20.0  # % of cost at equal p99, or of p99 at equal cost
CREATED = "2026-01-01T00:00:00Z"


def study_beside_replicas(
    profile: Profile, rate_per_s: float, seed: int, cluster: Cluster | None = None, *, spare: float = SPARE
) -> tuple[SizeStudy, SizeOutcome, list[Arm]]:
    """Size a service, as `kwiken size` does and in other ways, for a p99 that replicas alone reach.

    Args:
        profile: recorded requests.
        rate_per_s: requests a second.
        seed: seed of all draws.
        cluster: nodes; None for cores of one kind.
        spare: cost of the sizes whose p99 is the target, as a multiple of the cheapest that serve at all.

    Returns:
        A sizing; the sizes of replicas alone whose p99 is the target: the least that was found at `spare`
        times the cost of the cheapest sizes that can serve at all; and the alternatives.
    """
    supply = Supply([stage.name for stage in profile.stages], {}, cluster)
    trials = StageTrials(load_model(profile, seed=seed), rate_per_s, supply, seed=seed)
    alone = Search(trials, costs(profile), 0.0, REPLICAS_ONLY)
    cost = spare * trials.supply.cost(alone.cheapest_start())
    outcome = checked(trials, alone.least_p99(cost).sizes, seed=seed + VERIFY_SEED)
    assert outcome is not None
    settings = SizeSettings(
        target_p99_ms=outcome.p99_ms,
        rate_per_s=rate_per_s,
        created=CREATED,
        cluster=cluster,
        seed=seed,
    )
    study = study_size(profile, settings)
    arms = compared(study.search, study.given, study.outcome, outcome.p99_ms, seed=seed + VERIFY_SEED)
    return study, outcome, arms


def least_p99(study: SizeStudy, cost: float, seed: int) -> SizeOutcome:
    """The least p99 that replicas and reissues together reach at a cost, as far as the trials know.

    Args:
        study: sizing with the search to go on with.
        cost: most that the replicas may cost in an hour, at least that of the study's answer.
        seed: seed of the study.
    """
    search = study.search
    alone, copies = search.only(REPLICAS_ONLY), search.only(REISSUES_ONLY)
    starts = (alone.least_p99(cost).sizes, study.outcome.sizes)
    found = min((copies.least_p99(cost, start) for start in starts), key=lambda one: one.p99_ms)
    outcome = checked(search.trials, found.sizes, seed=seed + VERIFY_SEED)
    return study.outcome if outcome is None else outcome  # never the lower p99: a promise is not chosen


def percent_less(ours: float, theirs: float) -> float:
    """By how much ours is below theirs, %."""
    return 100.0 * (1.0 - ours / theirs)
