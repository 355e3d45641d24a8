"""Settings of other programs from placements, provisions and plans of racks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwiken.apps.console.output import note, read_text, write_text
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.document_sizes import MAX_PLACEMENT

if TYPE_CHECKING:
    from kwiken.model.service.service import Service

MANIFESTS: Final = ("compose", "kubernetes")
POOLS: Final = ("karpenter",)
ENGINES: Final = ("spark", "yarn")  # of batch jobs; a plan of racks goes to kubernetes too
PROGRAMS: Final = (*MANIFESTS, *POOLS, *ENGINES)
MAX_PROVISION: Final = 16 * MIB
MAX_RACK_PLAN: Final = 256 * MIB
HEAD: Final = 4096  # characters by which a plan of racks is told from a placement


def kept_stages(service: Service, nodes: str, workloads: str, profiles: str) -> frozenset[str]:
    """Stages of a service whose targets an upkeep in Kubernetes keeps.

    Args:
        nodes: path of the document of nodes, of which the upkeep uses the classes.
        workloads: path of the document of workloads.
        profiles: path of their predictions.

    Raises:
        InputError: `kwiken upkeep` would refuse a document; names the file and the field.
    """
    from kwiken.cli.placing.target_inputs import refuse_best_effort, requests_of

    _, requests = requests_of(nodes, workloads, profiles, [service])
    refuse_best_effort([one.workload for one in requests], workloads)
    return frozenset(one.workload.stage for one in requests)


def write_document(path: str, program: str, out: str) -> None:
    """Write the replicas of a placement, the node pools of a provision, or racks.

    Args:
        program: name of the program to write settings for, one of PROGRAMS.
        out: path of the file to write; '-' is stdout.

    Raises:
        InputError: the document is not one that the program takes; names the file and the field.
    """
    if program in POOLS:
        _write_pools(path, out)
        return
    text = read_text(path, MAX_RACK_PLAN if program in ENGINES else MAX_PLACEMENT)
    if program in ENGINES or (program == "kubernetes" and '"minimise":' in text[:HEAD]):
        _write_racks(path, text, program, out)
        return
    from kwiken.export.placements.manifests import MANIFESTS as WRITERS
    from kwiken.model.nodes.placement import Placement

    write_text(out, WRITERS[program](Placement.from_json(text, where=path), where=path))


def _write_racks(path: str, text: str, program: str, out: str) -> None:
    """Write the racks and priorities of batch jobs, and note what the engine cannot be told."""
    from kwiken.batch.racks.document import RackPlan
    from kwiken.export.racks.settings import RACK_PROGRAMS, untold

    write_text(out, RACK_PROGRAMS[program](RackPlan.from_json(text, where=path)))
    if out != "-":
        for remark in untold(program):
            note(f"note: {remark}")


def _write_pools(path: str, out: str) -> None:
    """Write the node pools of a provision."""
    text = read_text(path, MAX_PROVISION)
    from kwiken.allocator.provisioning.document import Provision
    from kwiken.export.provisions.karpenter import karpenter_pools

    write_text(out, karpenter_pools(Provision.from_json(text, where=path), where=path))
