"""Storage model: states, transitions, classes, gaps; training and generation."""

from __future__ import annotations

from kwiken.storage.model.baselines import BASELINES as BASELINES, fio_random as fio_random
from kwiken.storage.model.comparison import (
    MEASURES as MEASURES,
    JudgedFeature as JudgedFeature,
    NearnessVerdict as NearnessVerdict,
    StorageJudgement as StorageJudgement,
    judge as judge,
    nearest as nearest,
)
from kwiken.storage.model.document import (
    StorageModel as StorageModel,
    VolumeModel as VolumeModel,
    model_from_json as model_from_json,
)
from kwiken.storage.model.gap_laws import ks_distance as ks_distance
from kwiken.storage.model.generator import (
    IODrawing as IODrawing,
    generate as generate,
    thin_windows as thin_windows,
    tree_of as tree_of,
)
from kwiken.storage.model.states import (
    transitions_flat as transitions_flat,
    transitions_of_tree as transitions_of_tree,
)
from kwiken.storage.model.threads import stride_order as stride_order
from kwiken.storage.model.training import train as train
