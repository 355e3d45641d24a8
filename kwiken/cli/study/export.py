"""`kwiken export`: a plan, a placement, a provision, racks or a whole service, for other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from kwiken.apps.console.output import check_writable, note, note_written, read_text, write_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.base.printable import printable_json
from kwiken.cli.shared.additions import document_exports
from kwiken.cli.shared.options import NameChoice, given, load_plan, needs_extra
from kwiken.cli.study.export_service import ServiceOptions, is_service, service_options, write_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwiken.export.plans.calls import StageAddress
    from kwiken.model.plan.plan import Plan

PROGRAMS: Final = ("grpc", "envoy", "istio")
DOCUMENTS: Final = document_exports()  # None without the half that places
OF_SERVICES: Final = ("compose", "kubernetes")
OF_DOCUMENTS: Final = DOCUMENTS.PROGRAMS if DOCUMENTS is not None else ()
REMOVED: Final = {
    "kueue": "Kueue's own queues with priority classes",
    "dask": "kwiken batch run, which runs the plan on Dask",
}
MAX_MAP: Final = 4 * MIB


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option(
    "--to",
    "program",
    type=NameChoice(tuple(dict.fromkeys((*PROGRAMS, *OF_SERVICES, *OF_DOCUMENTS))), REMOVED),
    required=True,
    help="Whose settings to write; compose and kubernetes take a service, or a placement from kwiken place; "
    "karpenter a provision from kwiken provision; spark, yarn "
    "and kubernetes a plan from kwiken batch plan.",
)
@click.option(
    "--map",
    "targets",
    metavar="FILE",
    help="JSON, stage to call: package.Service/Method, /path, GET /path/{id}, "
    "or an object with call or prefix, host, port.",
)
@click.option(
    "--template",
    metavar="FILE",
    help="Write a map for --map with all stages whose calls the spans do not say, to be filled in, and stop.",
)
@service_options
@click.option(
    "-o",
    "--out",
    "out",
    default="-",
    metavar="FILE|FOLDER",
    help="File to write the settings to, '-' is stdout; for a service, a folder.",
)
@needs_extra("plan")
def command(
    *,
    source: str,
    program: str,
    targets: str | None,
    template: str | None,
    deployed: ServiceOptions,
    out: str,
) -> None:
    """Write SOURCE as settings for what you run already.

    SOURCE is a service (MODULE:NAME, FILE.py:NAME or FILE.yaml), which is written as a folder with an image
    of your code and all that runs it; a plan, of which the reissues are written; a placement; or a
    provision.

    The calls of a stage are known where its spans are named by a gRPC method or an HTTP path; --map names the
    others, and --template writes a map of the missing ones. What the target cannot express is reported on
    stderr, and as comments in the file where its format has comments.
    """
    if is_service(source):
        if given("targets", "template") is not None:
            raise click.UsageError("--map and --template go with a plan")
        write_service(source, program, deployed, out)
        return
    if (of_service := given(*ServiceOptions.__dataclass_fields__)) is not None:
        raise click.UsageError(f"{of_service} goes with a service, MODULE:NAME")
    check_writable(out)
    if program in OF_DOCUMENTS:
        _write_document(source, program, out)
        return
    learned = load_plan(source)
    from kwiken.apps.console.notes import plan_doubts
    from kwiken.export.plans.programs import export_plan, missing_calls

    known = _targets(targets, learned)
    if template is not None:
        _write_template(template, missing_calls(learned, known, program))
        return
    exported = export_plan(learned, to=program, targets=known, where=source)
    for words in plan_doubts(learned):
        note(f"doubt: {words}")
    write_text(out, exported.text)
    # On stdout the text itself states the notes, as remarks.
    stated = " ".join(exported.text.replace("\n#", " ").split()) if out == "-" else ""
    for remark in dict.fromkeys(exported.notes):
        if remark not in stated:
            note(f"note: {remark}")
    note_written(out)


def _write_document(path: str, program: str, out: str) -> None:
    """Write a document of the half that places: replicas, node pools, or racks."""
    if given("targets", "template") is not None:
        raise InputError(f"has no calls, so --map and --template do not go with --to {program}", where=path)
    assert DOCUMENTS is not None
    DOCUMENTS.write_document(path, program, out)
    note_written(out)


def _write_template(path: str, missing: Mapping[str, Mapping[str, object]]) -> None:
    """Write a map with all entries that are missing."""
    if not missing:
        note("the spans say which calls belong to each stage: no map is needed")
        return
    write_text(path, printable_json(json.dumps(missing, indent=1, ensure_ascii=False)) + "\n")
    note_written(path)
    note(f"fill in its {len(missing)} entries, and give it by --map {path}")


def _targets(path: str | None, plan: Plan) -> Mapping[str, StageAddress]:
    """Load the map of stages to calls; empty if no file is given."""
    from kwiken.export.plans.calls import check_known, read_targets

    if path is None:
        return {}
    found = read_targets(read_text(path, MAX_MAP), where=path)
    check_known(found, plan.stages, where=path)
    return found
