"""Quasar: classification by four matrices, and managers of workloads with targets compared."""
