"""Joint optima of the instances, found once by a command and kept in a file.

A search for an optimum takes seconds to many minutes, and on a busy machine it ends with less. So the optima
are not searched while schedulers are compared.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.placement.joint.instances import FAMILIES, cluster_of, instance

OPTIMA: Final = Path(__file__).with_name("optima.csv")
PROVEN: Final = 2e-6  # relative difference of cost and bound below which the optimum is proven
COMMAND: Final = "python -m benchmarks.placement.joint"


@dataclass(frozen=True, kw_only=True)
class KnownOptimum:
    """The least cost of one instance, as far as it is known.

    Attributes:
        digest: digest of the instance, by which a change of the generators is noticed.
        cost: least cost that was found, in an hour; infinite where all targets together cannot be met.
        bound: cost that no placement is below.
    """

    family: str
    seed: int
    digest: str
    cost: float
    bound: float

    @property
    def proven(self) -> bool:
        """Whether nothing cheaper than `cost` is possible."""
        return self.cost == self.bound or self.cost <= self.bound * (1 + PROVEN)


def known_optima() -> dict[tuple[str, int], KnownOptimum]:
    """Optima by family and seed; those of other instances than the generators draw now are left out."""
    found = read_optima()
    return {key: one for key, one in found.items() if one.digest == digest_of(*key)}


def digest_of(family: str, seed: int) -> str:
    """Digest of an instance: of its figures to six digits, which are the same on every machine."""
    parts = [
        f"{node.name} {node.node_class} {node.zone}" for node in cluster_of(FAMILIES[family], seed).nodes
    ]
    for one in instance(FAMILIES[family], seed):
        arrays = (one.cores, one.memory_gb, one.rate, one.cost, one.efficiency, one.tolerated, one.caused)
        sums = [float(np.dot(each.ravel(), np.arange(1, each.size + 1))) for each in arrays]
        parts.append(" ".join(f"{value:.6g}" for value in (one.required, *sums)))
    return f"{zlib.crc32(chr(10).join(parts).encode()):08x}"


def read_optima() -> dict[tuple[str, int], KnownOptimum]:
    """What the file has, by family and seed."""
    if not OPTIMA.exists():
        return {}
    with OPTIMA.open(encoding="utf-8", newline="") as file:
        rows = [
            KnownOptimum(
                family=row["family"],
                seed=int(row["seed"]),
                digest=row["digest"],
                cost=float(row["cost"]),
                bound=float(row["bound"]),
            )
            for row in csv.DictReader(file)
        ]
    return {(one.family, one.seed): one for one in rows}


def write_optima(found: Iterable[KnownOptimum]) -> None:
    """Write the file anew."""
    order = {family: place for place, family in enumerate(FAMILIES)}
    with OPTIMA.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(KnownOptimum)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in sorted(found, key=lambda one: (order[one.family], one.seed)))
