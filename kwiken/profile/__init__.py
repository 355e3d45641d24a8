"""Profiles of services learned from traces: latencies of stages, their distributions, costs, consistency."""

from __future__ import annotations

from kwiken.profile.change_over_time import IN_HISTOGRAMS, Drift, drift
from kwiken.profile.codec import profile_from_json, profile_to_json
from kwiken.profile.consistency import check_agrees, contradicted, contradiction
from kwiken.profile.copy_estimates import gateway_lag, guess_by_kind, guess_copies, unread_shares
from kwiken.profile.cost_models import CostModel, cost_of_one_call, costs, spent_by_model
from kwiken.profile.decay import decayed
from kwiken.profile.distribution import EmpiricalDistribution, call_distribution, complete_calls
from kwiken.profile.idempotence import (
    Evidence,
    http_method,
    idempotence_notes,
    kept_copyable,
    kept_single,
    says_read,
    says_write,
    taken_for,
    why_write,
)
from kwiken.profile.profile import OWN_TIME, Origin, Profile, StageProfile
from kwiken.profile.subset import part_of, rows_of
from kwiken.profile.weighting import KEPT_OF_SAMPLED, weighted

__all__ = [
    "IN_HISTOGRAMS",
    "KEPT_OF_SAMPLED",
    "OWN_TIME",
    "CostModel",
    "Drift",
    "EmpiricalDistribution",
    "Evidence",
    "Origin",
    "Profile",
    "StageProfile",
    "call_distribution",
    "check_agrees",
    "complete_calls",
    "contradicted",
    "contradiction",
    "cost_of_one_call",
    "costs",
    "decayed",
    "drift",
    "gateway_lag",
    "guess_by_kind",
    "guess_copies",
    "http_method",
    "idempotence_notes",
    "kept_copyable",
    "kept_single",
    "part_of",
    "profile_from_json",
    "profile_to_json",
    "rows_of",
    "says_read",
    "says_write",
    "spent_by_model",
    "taken_for",
    "unread_shares",
    "weighted",
    "why_write",
]
