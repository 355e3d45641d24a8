"""Predictions of a job over executors: their report and their picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.batch.predictions.predict_picture import draw_prediction as draw_prediction
    from kwiken.cli.batch.predictions.predict_report import (
        PredictedCurve as PredictedCurve,
        show as show,
        summary as summary,
    )

__getattr__ = lazy_names(__name__, __file__)
