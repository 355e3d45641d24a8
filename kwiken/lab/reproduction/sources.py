"""Registry of reproductions, by name of the source."""

from __future__ import annotations

from kwiken.base.errors import InputError
from kwiken.lab.reproduction.allocator.arq.parts import all_parts as parts_of_arq
from kwiken.lab.reproduction.allocator.colocation.parts import all_parts as parts_of_colocation
from kwiken.lab.reproduction.allocator.hcloud.parts import all_parts as parts_of_hcloud
from kwiken.lab.reproduction.allocator.ibench.tables import all_parts as parts_of_ibench
from kwiken.lab.reproduction.allocator.lsh.parts import all_parts as parts_of_lsh
from kwiken.lab.reproduction.allocator.paragon.parts import all_parts as parts_of_paragon
from kwiken.lab.reproduction.allocator.quasar.parts import all_parts as parts_of_quasar
from kwiken.lab.reproduction.allocator.tarcil.parts import all_parts as parts_of_tarcil
from kwiken.lab.reproduction.batch.corral.parts import all_parts as parts_of_corral
from kwiken.lab.reproduction.batch.mrcute.parts import all_parts as parts_of_mrcute
from kwiken.lab.reproduction.data.bloc.parts import all_parts as parts_of_bloc
from kwiken.lab.reproduction.data.echo.parts import all_parts as parts_of_echo
from kwiken.lab.reproduction.data.storage_model.parts import all_parts as parts_of_storage_model
from kwiken.lab.reproduction.kwiken.parts import all_parts as parts_of_kwiken
from kwiken.lab.reproduction.rows import Reproduction

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
_PARTS = {
    "kwiken": parts_of_kwiken,
    "paragon": parts_of_paragon,
    "quasar": parts_of_quasar,
    "hcloud": parts_of_hcloud,
    "arq": parts_of_arq,
    "ibench": parts_of_ibench,
    "colocation": parts_of_colocation,
    "lsh": parts_of_lsh,
    "echo": parts_of_echo,
    "mrcute": parts_of_mrcute,
    "tarcil": parts_of_tarcil,
    "storage-model": parts_of_storage_model,
    "bloc": parts_of_bloc,
    "corral": parts_of_corral,
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
    return Reproduction(name, NAMES[name], _PARTS[name](seeds))
