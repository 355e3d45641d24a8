"""Strategies and settings of the simulated cloud."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FULL: Final = 16  # cores of a full server
OVERPROVISION: Final = 0.15  # of reserving for the peak
RETENTION: Final = 10.0  # spin-up times for which an idle node is kept


class CloudStrategy(StrEnum):
    """Strategy of provisioning (HCloud section 3).

    Attributes:
        SR: reserved nodes only, for the peak and 15% more.
        ODF: nodes on demand, full servers only.
        ODM: nodes on demand of any size, one job each.
        HF: reserved nodes for the steady load, full servers on demand above.
        HM: reserved nodes for the steady load, nodes on demand of any size above.
    """

    SR = "SR"
    ODF = "OdF"
    ODM = "OdM"
    HF = "HF"
    HM = "HM"

    @property
    def hybrid(self) -> bool:
        """Whether it has reserved nodes and nodes on demand."""
        return self in {CloudStrategy.HF, CloudStrategy.HM}


class Keeping(StrEnum):
    """Rule for idle nodes.

    Attributes:
        MULTIPLE: for a multiple of the spin-up time.
        LEARNED: as long as the gaps so far say, by ski rental before there are any.
    """

    MULTIPLE = "multiple"
    LEARNED = "learned"


@dataclass(frozen=True, kw_only=True)
class CloudSettings:
    """Settings of one run.

    Attributes:
        policy: mapping policy of the hybrids, P1 to P8.
        profiles: whether jobs are known; without, they are sized by defaults and placed by load alone.
        reserved_cores: number of cores that a hybrid reserves; None for the lowest load.
        spin_up_factor: factor of the spin-up times; 0 for none.
        outside_load: mean load by others on the hosts of rented nodes, a share.
        retention: time for which an idle node is kept, in spin-up times.
        keeping: rule for idle nodes.
        tolerant_spot: whether tolerant batch jobs above the reserved part run on spot nodes.
    """

    policy: str = "P8"
    profiles: bool = True
    reserved_cores: float | None = None
    spin_up_factor: float = 1.0
    outside_load: float = 0.25
    retention: float = RETENTION
    keeping: Keeping = Keeping.MULTIPLE
    tolerant_spot: bool = False
