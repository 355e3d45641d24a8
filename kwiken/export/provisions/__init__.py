"""Provisions as settings of Karpenter."""
