"""Demonstration of batch jobs beside a service: racks with limited links, a plan, and a rack that is lost."""

from __future__ import annotations

from kwiken.apps.demo_batch.outcome import BatchDemo as BatchDemo, verdict as verdict
from kwiken.apps.demo_batch.run import run_demo_batch as run_demo_batch
