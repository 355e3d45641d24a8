"""Event logs of a running Spark History Server, fetched through its REST interface."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Final

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.cli.batch.inputs.log_files import MAX_FILES, JobLog, logs_at
from kwiken.otel.http.bounded_answers import SPARK_HISTORY
from kwiken.otel.http.download import StatusError, downloaded

SCHEME: Final = "spark://"
ADDRESS: Final = re.compile(
    r"spark://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
    r"(?:/(?P<app>[A-Za-z0-9._-]+)(?:/(?P<attempt>[A-Za-z0-9._-]+))?)?/?",
    re.ASCII,
)
PLAIN: Final = re.compile(r"(?!\.+$)[A-Za-z0-9._-]+", re.ASCII)  # id of an application
PORT: Final = 18080  # of a history server, where the address names none
MAX_PORT: Final = 65_535
MAX_APPLICATIONS: Final = 1000  # that are fetched where none is named
MAX_LIST_BYTES: Final = 256 << 20  # of the list of applications
MAX_UNPACKED: Final = 16 << 30  # bytes of the logs of one application; they are kept as the server keeps them
CHUNK: Final = 1 << 20
NOT_FOUND: Final = 404
WHO: Final = "the history server"


def fetched_logs(address: str, folder: Path) -> list[JobLog]:
    """Fetch the event logs of one application, or of all that a history server lists.

    Of several applications, one whose logs the server refuses is noted and left out: servers list runs whose
    logs they have deleted.

    Args:
        address: `spark://HOST:PORT`, with `/APP` or `/APP/ATTEMPT` behind for one application.
        folder: empty folder to keep the logs in.

    Raises:
        InputError: the address, a server that does not answer or knows no such application, or an answer that
            holds no logs or too many.
    """
    found = ADDRESS.fullmatch(address)
    port = int(found["port"] or PORT) if found else 0
    if found is None or not 1 <= port <= MAX_PORT:
        raise InputError("is no history server; write spark://HOST:18080/APP", where=printable(address))
    base = f"http://{found['host']}:{port}/api/v1/applications"
    server = f"{SCHEME}{found['host']}:{port}"
    applications = [found["app"]] if found["app"] else _applications(base, server)
    logs: list[JobLog] = []
    without: list[InputError] = []
    for number, application in enumerate(applications):
        attempt = f"/{found['attempt']}" if found["attempt"] else ""
        where = f"{server}/{application}{attempt}"
        own = folder / str(number)
        own.mkdir()
        try:
            with downloaded(
                f"{base}/{application}{attempt}/logs", who=WHO, where=where, bounds=SPARK_HISTORY
            ) as packed:
                _unpack(packed, own, where)
        except StatusError as error:
            refused: InputError = error
            if error.status == NOT_FOUND:
                refused = InputError(f"{WHO} has no logs of this application", where=where)
            without.append(refused)
            continue
        logs += [JobLog(log.name, log.files, source=where) for log in logs_at(str(own))]
    if without and not logs:
        raise without[0]
    note(*(f"{one}; it is left out" for one in without))
    return logs


def _applications(base: str, server: str) -> list[str]:
    """Ids of the applications that a server lists."""
    with downloaded(
        f"{base}?limit={MAX_APPLICATIONS + 1}", who=WHO, where=server, bounds=SPARK_HISTORY
    ) as body:
        text = body.read(MAX_LIST_BYTES)
    try:
        found = [one["id"] for one in json.loads(text)]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{WHO} answered with no list of applications", where=server) from error
    strange = next((one for one in found if not (isinstance(one, str) and PLAIN.fullmatch(one))), None)
    if strange is not None:
        raise InputError(f"{WHO} lists an application without a plain id", where=server)
    if not found:
        raise InputError(f"{WHO} lists no application", where=server)
    if len(found) > MAX_APPLICATIONS:
        raise InputError(
            f"{WHO} lists more than {MAX_APPLICATIONS} applications; name one: {server}/APP", where=server
        )
    return list(dict.fromkeys(found))


def _unpack(packed: IO[bytes], folder: Path, where: str) -> None:
    """Write the entries of an answer to a folder; of their paths the last two names count."""
    left = MAX_UNPACKED
    try:
        with zipfile.ZipFile(packed) as archive:
            entries = [one for one in archive.infolist() if not one.is_dir()]
            if not entries:
                raise InputError(f"{WHO} sent no log", where=where)
            if len(entries) > MAX_FILES:
                raise InputError(f"holds {len(entries)} files; {MAX_FILES} is the most", where=where)
            for entry in entries:
                names = PurePosixPath(entry.filename).parts[-2:]
                if any(name in {"..", "/"} or "\\" in name for name in names):
                    raise InputError(f"{WHO} sent a file that names no log", where=where)
                path = folder.joinpath(*names)
                path.parent.mkdir(exist_ok=True)
                with archive.open(entry) as source, path.open("wb") as target:
                    while chunk := source.read(CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            bound = f"{MAX_UNPACKED >> 30} GiB"
                            raise InputError(f"holds more than {bound} of logs, the most", where=where)
                        target.write(chunk)
    except (
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,  # another way of compression
        RuntimeError,  # an encrypted file
        EOFError,
        OSError,
        ValueError,
    ) as error:
        raise InputError(f"{WHO} sent no zip of logs: {error}", where=where) from error
