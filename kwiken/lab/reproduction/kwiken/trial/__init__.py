"""Trial of one synthetic DAG: requests to learn from, and requests to judge by."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.trial.dag_trial import DagTrial as DagTrial, Sample as Sample
