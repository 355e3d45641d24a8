"""Profiles of services learned from traces: latencies of stages, their distributions, costs, consistency."""

from __future__ import annotations

from kwiken.model.profile.change_over_time import (
    IN_HISTOGRAMS as IN_HISTOGRAMS,
    Drift as Drift,
    drift as drift,
)
from kwiken.model.profile.codec import (
    profile_from_json as profile_from_json,
    profile_to_json as profile_to_json,
)
from kwiken.model.profile.consistency import (
    check_agrees as check_agrees,
    contradicted as contradicted,
    contradiction as contradiction,
)
from kwiken.model.profile.copy_estimates import (
    gateway_lag as gateway_lag,
    guess_by_kind as guess_by_kind,
    guess_copies as guess_copies,
    unread_shares as unread_shares,
)
from kwiken.model.profile.cost_models import (
    CostModel as CostModel,
    cost_of_one_call as cost_of_one_call,
    costs as costs,
    spent_by_model as spent_by_model,
)
from kwiken.model.profile.decay import decayed as decayed
from kwiken.model.profile.distribution import EmpiricalDistribution as EmpiricalDistribution
from kwiken.model.profile.idempotence import (
    Evidence as Evidence,
    idempotence_notes as idempotence_notes,
    kept_copyable as kept_copyable,
    kept_single as kept_single,
    taken_for as taken_for,
    why_write as why_write,
)
from kwiken.model.profile.profile import (
    OWN_TIME as OWN_TIME,
    Instance as Instance,
    Origin as Origin,
    Profile as Profile,
    StageProfile as StageProfile,
    complete_calls as complete_calls,
)
from kwiken.model.profile.subset import part_of as part_of
from kwiken.model.profile.weighting import KEPT_OF_SAMPLED as KEPT_OF_SAMPLED, weighted as weighted
