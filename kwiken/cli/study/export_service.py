"""Options of `kwiken export` for a service: what runs it in containers or in Kubernetes."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kwiken.apps.console.output import note, read_text
from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.additions import document_exports
from kwiken.cli.shared.document_sizes import MAX_PLACEMENT
from kwiken.cli.shared.options import load_plan, load_service

if TYPE_CHECKING:
    from kwiken.apps.deploy.write import ImageFiles
    from kwiken.export.deployments.deployment import Deployment
    from kwiken.model.service.service import Service

F = TypeVar("F", bound=Callable[..., Any])
MAX_DOCUMENT: Final = MIB  # of a file that goes into a ConfigMap, which holds no more
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class ServiceOptions:
    """Values of the options for a service.

    Attributes:
        placement: path of a placement; None for the service's own numbers of replicas.
        gateways: number of gateways, 1 or more.
        image: name of the image with its tag; None for one by the service's name.
        otlp: collector for spans; None for a Jaeger beside the service.
        wheels: wheels to install in the image from files.
        include: further files of the service, relative to this folder.
        autoscale: whether Kubernetes scales the stages.
        upkeep: whether an upkeep runs beside the service.
        nodes: path of the document of nodes that the upkeep reads; None for none.
        workloads: path of the document of workloads that the upkeep reads; None for none.
        profiles: path of the predictions that the upkeep reads; None for none.
        tls: whether gateways and replicas speak TLS.
        namespace: namespace in Kubernetes; None for the one of who applies the folder.
    """

    placement: str | None = None
    plan: str | None = None
    gateways: int = 1
    image: str | None = None
    otlp: str | None = None
    wheels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    autoscale: bool = False
    upkeep: bool = False
    nodes: str | None = None
    workloads: str | None = None
    profiles: str | None = None
    tls: bool = False
    namespace: str | None = None

    @property
    def documents(self) -> tuple[str | None, str | None, str | None]:
        """Paths of what an upkeep reads."""
        return self.nodes, self.workloads, self.profiles

    def words(self) -> list[str]:
        """Words of these options on the command line."""
        options = {
            "--placement": self.placement,
            "--plan": self.plan,
            "--image": self.image,
            "--otlp": self.otlp,
            "--nodes": self.nodes,
            "--workloads": self.workloads,
            "--profiles": self.profiles,
            "--namespace": self.namespace,
        }
        words = [word for name, value in options.items() if value is not None for word in (name, value)]
        words += ["--gateways", str(self.gateways)] if self.gateways > 1 else []
        words += [word for path in self.wheels for word in ("--wheel", path)]
        words += [word for path in self.include for word in ("--include", path)]
        flags = {"--autoscale": self.autoscale, "--upkeep": self.upkeep, "--tls": self.tls}
        return words + [flag for flag, wanted in flags.items() if wanted]


def service_options(callback: F) -> F:
    """Add the options for a service to a verb, which gets them as `deployed`."""

    @functools.wraps(callback)
    def with_options(**values: Any) -> Any:
        own = {name: values.pop(name) for name in ServiceOptions.__dataclass_fields__}
        return callback(deployed=ServiceOptions(**own), **values)

    decorated: Callable[..., Any] = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast("F", decorated)


_OPTIONS: Final = (
    click.option(
        "--placement", metavar="FILE", help="Service: sizes, nodes and replicas, from kwiken place."
    ),
    click.option("--plan", metavar="FILE", help="Service: plan to be in force from the start."),
    click.option(
        "--gateways",
        type=click.IntRange(1, 500),
        default=1,
        show_default=True,
        help="Service: number of gateways.",
    ),
    click.option(
        "--image", metavar="NAME", help="Service: name of its image.  [default: the service's, with :local]"
    ),
    click.option(
        "--otlp",
        metavar="URL",
        help="Service: collector for spans.  [default: a Jaeger beside the service; with Compose, Prometheus "
        "and Grafana too]",
    ),
    click.option(
        "--wheel",
        "wheels",
        multiple=True,
        metavar="FILE",
        help="Service: wheel to install in its image; repeatable.",
    ),
    click.option(
        "--include",
        multiple=True,
        metavar="PATH",
        help="Service: file or folder that its image needs beside the code; repeatable.",
    ),
    click.option(
        "--autoscale",
        is_flag=True,
        help="Service: let Kubernetes scale stages by processor use, but for those that --upkeep scales.",
    ),
    click.option(
        "--upkeep",
        is_flag=True,
        help="Service: run kwiken upkeep beside it, which keeps the targets of --workloads.",
    ),
    click.option("--nodes", metavar="FILE", help="Service, with --upkeep: classes of nodes."),
    click.option("--workloads", metavar="FILE", help="Service, with --upkeep: targets of its stages."),
    click.option("--profiles", metavar="FILE", help="Service, with --upkeep: predictions of the workloads."),
    click.option("--tls", is_flag=True, help="Service: speak TLS, with certificates that you put beside it."),
    click.option(
        "--namespace",
        metavar="NAME",
        help="Service: namespace in Kubernetes.  [default: that of who applies it; default with --upkeep]",
    ),
)


def is_service(source: str) -> bool:
    """Whether the argument of `kwiken export` names a service, not a document."""
    return (":" in source or source.endswith((".yaml", ".yml"))) and Path(source).suffix != ".json"


def write_service(source: str, program: str, options: ServiceOptions, out: str) -> None:
    """Write a folder that runs a service by Compose or in Kubernetes.

    Args:
        program: what will run the service: `compose` or `kubernetes`.

    Raises:
        InputError: an option or a file does not fit; names it.
    """
    _check(program, options, out)
    service = load_service(source)
    from kwiken.apps.deploy.write import ImageFiles, refuse_foreign, write_files
    from kwiken.export.deployments.compose import compose_files
    from kwiken.export.deployments.kubernetes import kubernetes_files
    from kwiken.export.deployments.load import LOCUST

    image = ImageFiles(folder=Path(out), context=Path.cwd())
    deployment = _deployment(service, source, program, options, image)
    made_by = shlex.join(["kwiken", "export", source, "--to", program, *options.words(), "-o", out])
    if program == "compose":
        files = compose_files(deployment, made_by=made_by)
    else:
        files = kubernetes_files(deployment, made_by=made_by) | _documents(options)
    refuse_foreign(Path(out), files, image=deployment.build is not None and not image.kept)
    if deployment.build is not None:
        _write_image(source, options, image, load=deployment.load_image is not None)
    write_files(Path(out), files)
    _note_foreign(service)
    if options.autoscale and options.upkeep:
        scaled = [each.stage for each in deployment.stages if each.stage not in deployment.managed]
        by_use = ", ".join(scaled) or "no stage"
        note(f"the upkeep scales {', '.join(sorted(deployment.managed))}; processor use, {by_use}")
    if program == "kubernetes" and deployment.build is not None:
        words = ["docker", "build", "-f", deployment.build.dockerfile, "."]
        for tag, more in ((deployment.image, []), (deployment.load_image, ["--target", LOCUST])):
            if tag is not None:
                built = shlex.join([*words, "-t", tag, *more])
                note(f"build the image by: {built}; push it to where your nodes pull from")


def _note_foreign(service: Service) -> None:
    """Warn of foreign stages that no container reaches: its loopback is its own."""
    from kwiken.runtime.gateway.live_page.allowed_origins import is_loopback, name_of

    for name, stage in service.stages.items():
        call = stage.remote_call
        ends = [] if call is None else [each.removeprefix("grpc://") for each in call.endpoints]
        local = [each for each in ends if is_loopback(name_of(each) or "")]
        if local:
            note(
                f"warning: stage {name!r} is called at {', '.join(local)}, which in a container is the "
                "container itself; name a host that gateways reach"
            )


def _check(program: str, options: ServiceOptions, out: str) -> None:
    """Refuse options that do not go together."""
    if out == "-":
        raise click.UsageError("a service is written to a folder; give -o DIR")
    if program not in {"compose", "kubernetes"}:
        raise click.UsageError(f"a service goes to compose or kubernetes; {program} takes a document")
    if program == "compose" and (options.autoscale or options.upkeep):
        raise click.UsageError("--autoscale and --upkeep go with --to kubernetes")
    if program == "compose" and options.namespace is not None:
        raise click.UsageError("--namespace goes with --to kubernetes")
    if options.namespace is not None and not _NAMESPACE.fullmatch(options.namespace):
        raise click.UsageError(f"--namespace: no name of a namespace: {options.namespace!r}")
    if options.upkeep and options.placement is not None:
        raise click.UsageError("an upkeep places replicas itself; leave out --placement or --upkeep")
    if options.upkeep and None in options.documents:
        raise click.UsageError("--upkeep needs --nodes, --workloads and --profiles")
    if not options.upkeep and any(one is not None for one in options.documents):
        raise click.UsageError("--nodes, --workloads and --profiles go with --upkeep")


def _deployment(
    service: Service, source: str, program: str, options: ServiceOptions, image: ImageFiles
) -> Deployment:
    from kwiken.export.deployments.deployment import Build, Deployment, replicas_of
    from kwiken.export.placements.groups import check_host_names, name_in_kubernetes
    from kwiken.model.nodes.placement import Placement

    placement = None
    where = options.placement or "the service"
    if options.placement is not None:
        placement = Placement.from_json(read_text(options.placement, MAX_PLACEMENT), where=where)
        if program == "kubernetes":
            check_host_names(placement, where)
    name = options.image or f"{name_in_kubernetes(service.name)}:local"
    return Deployment(
        service=service,
        target=source,
        image=name,
        load_image=_load_image(image, name),
        build=Build(
            context=_context(image), dockerfile=image.path("Dockerfile"),
        ),
        stages=replicas_of(service, placement, where=where),
        gateways=options.gateways,
        otlp=options.otlp,
        plan=_plan(options.plan, service),
        autoscale=options.autoscale,
        managed=_managed(service, options),
        namespace=options.namespace,
        tls=options.tls,
    )  # fmt: skip


def _load_image(image: ImageFiles, name: str) -> str | None:
    """Name of the image with Locust; None where it cannot be built."""
    from kwiken.export.deployments.load import LOCUST, image_of_load

    if image.kept and not image.builds(LOCUST):
        note(f"no Locust beside the service: the Dockerfile, which is yours, has no target {LOCUST}")
        return None
    if not image.kept and find_spec("locust") is None:
        note("no Locust beside the service: install kwiken[load] to have it")
        return None
    return image_of_load(name)


def _managed(service: Service, options: ServiceOptions) -> frozenset[str]:
    """Stages that the upkeep manages; empty without one. What the upkeep would refuse is refused here."""
    if not options.upkeep:
        return frozenset()
    nodes, workloads, profiles = options.documents
    assert nodes is not None
    assert workloads is not None
    assert profiles is not None
    exports = document_exports()
    if exports is None:
        raise InputError("needs the half of kwiken that places, which is not installed", where="--upkeep")
    return exports.kept_stages(service, nodes, workloads, profiles)


def _context(image: ImageFiles) -> str:
    """Path of the folder that is sent to the builder, as the Compose file names it."""
    depth = len(Path(image.path("Dockerfile")).parts) - 1
    return "/".join([".."] * depth) or "."


def _plan(path: str | None, service: Service) -> str | None:
    """Text of a plan that fits the service; None for none."""
    if path is None:
        return None
    plan = load_plan(path)
    try:
        plan.check(service)
    except (InputError, DefinitionError) as error:
        raise InputError(str(error), where=path) from error
    import msgspec

    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode() + "\n"


def _write_image(source: str, options: ServiceOptions, image: ImageFiles, *, load: bool) -> None:
    """Write what the image is built from, unless there is a Dockerfile of the user's own.

    Args:
        load: whether there is an image with Locust beside.
    """
    if image.kept:
        note(f"left as it is: {image.folder / 'Dockerfile'}")
        return
    from kwiken.apps.deploy.code import code_of
    from kwiken.apps.deploy.installed import pinned

    code = code_of(source, image.context, options.include)
    extras = ("otel", "plan") if options.upkeep else ("otel",)
    pins = pinned(code.modules, extras, [Path(path) for path in options.wheels])
    own = [wheel for wheel in pins.wheels if wheel.name.startswith("kwiken-")]
    image.write(code, pins, pinned((), ("load",), own).lines if load else ())
    note(f"the image holds {', '.join(code.paths)} with what is installed here")


def _documents(options: ServiceOptions) -> dict[str, str]:
    """What an upkeep reads, by the names of its files."""
    if not options.upkeep:
        return {}
    from kwiken.export.deployments.upkeep import UPKEEP_FILES

    return {
        name: read_text(path, MAX_DOCUMENT)
        for name, path in zip(UPKEEP_FILES, options.documents, strict=True)
        if path is not None
    }
