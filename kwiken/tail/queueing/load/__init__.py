"""Load model: a profile decomposed into work and waiting, and simulated at another load."""

from __future__ import annotations

from kwiken.tail.queueing.load.copies_at_load import CopiesAtLoad as CopiesAtLoad
from kwiken.tail.queueing.load.decompose import (
    QueueSettings as QueueSettings,
    known_utilisation as known_utilisation,
    load_model as load_model,
)
from kwiken.tail.queueing.load.guard import (
    QUIET as QUIET,
    Guard as Guard,
    guards as guards,
    plan_hurts_above as plan_hurts_above,
    tail_hurts as tail_hurts,
)
from kwiken.tail.queueing.load.loaded_profile import profile_under_load as profile_under_load
from kwiken.tail.queueing.load.queues_document import queues_from_toml as queues_from_toml
from kwiken.tail.queueing.load.simulate import (
    LoadSimulation as LoadSimulation,
    policies_of as policies_of,
    reissuing as reissuing,
    simulate_load as simulate_load,
)
from kwiken.tail.queueing.load.stage_model import LoadModel as LoadModel
from kwiken.tail.queueing.load.stalls import stalls_of as stalls_of
