"""Registry of reproductions, by name of the source."""

from __future__ import annotations

import importlib

from kwiken.base.errors import InputError
from papers.figures.rows import Reproduction

NAMES = {
    "kwiken": "Kwiken (Jalaparti et al., SIGCOMM 2013): reissues, partial answers, catch-up",
    "paragon": "Paragon (Delimitrou and Kozyrakis, ASPLOS 2013): classification and placement",
    "quasar": "Quasar (Delimitrou and Kozyrakis, ASPLOS 2014): classification and management by targets",
    "tarcil": "Tarcil (Delimitrou, Sanchez and Kozyrakis, SoCC 2015): sampled placement with guarantees",
    "hcloud": "HCloud (Delimitrou and Kozyrakis, ASPLOS 2016): reserved and on-demand nodes",
    "arq": "ARQ (Delimitrou, Bambos and Kozyrakis, ICAC 2013): lines of waiting by the quality of node",
    "ibench": "iBench (Delimitrou and Kozyrakis, IISWC 2013): tunable contention and its scores",
    "colocation": "Colocation at a hyperscaler (Chakraborti et al.): packing by percentiles and sensitivity",
    "echo": "ECHO (Delimitrou, Sankar, Kansal and Kozyrakis, IISWC 2012): network traffic of data centres",
    "mrcute": "MRCute (Jalaparti): completion times of MapReduce jobs over machines, bandwidth and racks",
    "corral": "Corral (Jalaparti et al., SIGCOMM 2015): reserved tuples, and batch jobs planned on racks",
    "lsh": "LSH (Islam, Gibson and Muzahid): characterisation and placement by locality-sensitive hashing",
    "storage-model": "Storage model: hierarchical state diagrams of disk workloads, and their generator",
    "bloc": "BLOC: data sets packed on few storage nodes by bandwidth, interference and load",
}


def reproduction(name: str, *, seeds: int = 8) -> Reproduction:
    """Reproduction of a source.

    Args:
        seeds: number of synthetic populations to average over.

    Raises:
        InputError: for an unknown name or no seed.
    """
    if name not in NAMES:
        raise InputError(f"nothing reproduces {name!r}; known: {', '.join(NAMES)}")
    if seeds < 1:
        raise InputError(f"seeds must be 1 or more, not {seeds}")
    parts = importlib.import_module(f"papers.{name.replace('-', '_')}.parts")
    return Reproduction(name, NAMES[name], parts.all_parts(seeds))
