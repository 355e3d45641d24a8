"""Provisions as settings of Karpenter."""

from __future__ import annotations

from kwiken.export.provisions.karpenter import karpenter_pools as karpenter_pools
