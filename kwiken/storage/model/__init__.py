"""Storage model: states, transitions, classes, gaps; training and generation."""

from __future__ import annotations

from kwiken.storage.model.baselines import BASELINES as BASELINES
from kwiken.storage.model.comparison import (
    JudgedFeature as JudgedFeature,
    StorageJudgement as StorageJudgement,
    judge as judge,
)
from kwiken.storage.model.document import (
    IOClass as IOClass,
    StorageModel as StorageModel,
    digest_of as digest_of,
    model_from_json as model_from_json,
)
from kwiken.storage.model.generator import (
    IODrawing as IODrawing,
    generate as generate,
    thin_windows as thin_windows,
    tree_of as tree_of,
)
from kwiken.storage.model.training import train as train
