"""`kwiken init`: write a new project that runs, is tested and can be deployed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError


@click.command(short_help="Write a new project: a service, a test, a load, a deployment.")
@click.argument("name")
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    metavar="FILE",
    help="Wheel of kwiken for the image, where kwiken was not installed from a wheel; repeatable.",
)
def command(*, name: str, wheels: tuple[str, ...]) -> None:
    """Write a service of three stages, its test, a Locust file, a Compose file and a README to a new folder.

    The folder and the service are called NAME. The Compose file and its image are those of `kwiken export`.
    """
    from kwiken.apps.new_project.write import write_project
    from kwiken.cli.study.export_service import ServiceOptions, write_service

    given = tuple(str(Path(wheel).resolve()) for wheel in wheels)
    write_project(name, Path(name))
    with contextlib.chdir(name):
        try:
            write_service(f"{name}:{name}", "compose", ServiceOptions(wheels=given), "deploy")
        except InputError as error:
            export = f"kwiken export {name}:{name} --to compose --wheel FILE -o deploy"
            note(f"no Compose file was written: {error.problem}; in {name}/, run: {export}")
    note(f"{name}/ is written; next: cd {name} && pytest; README.md has the rest")
