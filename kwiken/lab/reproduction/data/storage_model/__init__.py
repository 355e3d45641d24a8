"""Storage model: hierarchical state diagrams of disk workloads, and their generator."""

from __future__ import annotations

from kwiken.lab.reproduction.data.storage_model.parts import all_parts as all_parts
