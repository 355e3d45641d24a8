"""HTTP between kwiken and stores of traces and metrics: addresses, downloads, and bounds of every answer.

Importing this package loads none of its modules.
"""
