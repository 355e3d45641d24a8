"""Documents of clusters with racks, as TOML, for tests of batch jobs."""

from __future__ import annotations


def two_racks(*more: str) -> str:
    """A cluster of two racks with three nodes each.

    Args:
        more: further lines of the nodes' class.
    """
    return "\n".join(
        [
            *("[[classes]]", 'name = "worker"', "cores = 8", "memory_gb = 32", *more, ""),
            *("[[nodes]]", 'name = "a"', 'class = "worker"', 'rack = "east"', "count = 3", ""),
            *("[[nodes]]", 'name = "b"', 'class = "worker"', 'rack = "west"', "count = 3", ""),
        ]
    )
