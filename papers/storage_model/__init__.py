"""Storage model: hierarchical state diagrams of disk workloads, and their generator."""
