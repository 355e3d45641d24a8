"""Replica choice of one stage: the rule, what is known of each replica, and ejection of those that fail."""

from __future__ import annotations

from kwiken.runtime.decisions.choice.picker import Picker as Picker
from kwiken.runtime.decisions.choice.replica_state import ReplicaState as ReplicaState
