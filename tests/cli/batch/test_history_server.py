"""`kwiken batch fit spark://...`: event logs of a history server, and one line for each bad answer."""

from __future__ import annotations

import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kwiken.cli.batch.inputs import history_server
from tests.support.data.batch.spark_lines import small_log
from tests.support.project.commands import refused, run

LINES = list(small_log())
LOG = b"\n".join(LINES) + b"\n"


def packed(files: Mapping[str, bytes]) -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return found.getvalue()


WHOLE = packed({"app": LOG * 20})
BROKEN = WHOLE[:45] + b"\xff" * 40 + WHOLE[85:]  # what is packed, not the directory of the zip


@contextmanager
def serving(answers: Mapping[str, bytes]) -> Iterator[str]:
    """Address of a server that has an answer for some paths below `/api/v1/applications`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.removeprefix("/api/v1/applications").partition("?")[0])
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(answer or b"")))
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"spark://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_an_application_and_all_of_them(tmp_path: Path) -> None:
    half = len(LINES) // 2
    rolled = {
        "eventlog_v2_app-2/appstatus_app-2": b"",
        "eventlog_v2_app-2/events_1_app-2": b"\n".join(LINES[:half]) + b"\n",
        "eventlog_v2_app-2/events_2_app-2": b"\n".join(LINES[half:]) + b"\n",
    }
    answers = {
        "": json.dumps([{"id": "app-1", "name": "one"}, {"id": "app-2"}]).encode(),
        "/app-1/logs": packed({"app-1": LOG}),
        "/app-2/logs": packed(rolled),
        "/app-2/2/logs": packed({"app-2_2": LOG}),
    }
    with serving(answers) as address:
        plain = tmp_path / "plain"
        plain.write_bytes(LOG)
        expected = json.loads(run("batch", "fit", str(plain), "--json").stdout)["jobs"]
        for path, times in (("/app-1", 1), ("/app-2", 1), ("/app-2/2", 1), ("", 2)):
            result = run("batch", "fit", address + path, "--json")
            assert result.exit_code == 0, result.stderr
            assert json.loads(result.stdout)["jobs"] == expected * times
        assert run("batch", "predict", f"{address}/app-1", "--executors", "4").exit_code == 0
    plain.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"no zip", "sent no zip of logs"),
        (packed({}), "sent no log"),
        (packed({"../..": LOG}), "names no log"),
        (packed({"app": LOG})[:-30], "sent no zip of logs"),
        (BROKEN, "sent no zip of logs"),
        (None, "has no logs of this application"),
    ],
)
def test_bad_answers(answer: bytes | None, told: str, tmp_path: Path) -> None:
    with serving({} if answer is None else {"/app/logs": answer}) as address:
        refused(run("batch", "fit", f"{address}/app"), told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"[]", "lists no application"),
        (b"{", "no list of applications"),
        (b'[{"name": "one"}]', "no list of applications"),
        (b'[{"id": "../secret"}]', "without a plain id"),
        (b'[{"id": ".."}]', "without a plain id"),
        (b'[{"id": "gone"}, {"id": "gone-too"}]', "has no logs of this application"),
        (json.dumps([{"id": f"app-{n}"} for n in range(1001)]).encode(), "more than 1000 applications"),
    ],
)
def test_bad_lists(answer: bytes, told: str) -> None:
    with serving({"": answer}) as address:
        refused(run("batch", "fit", address), told)


def test_an_application_without_logs_is_left_out() -> None:
    listed = json.dumps([{"id": one} for one in ("gone", "app-1", "app-1", "late")]).encode()
    with serving({"": listed, "/app-1/logs": packed({"app-1": LOG})}) as address:
        found = run("batch", "fit", address, "--json")
    assert found.exit_code == 0, found.stderr
    for name in ("gone", "late"):
        assert (
            f"{address}/{name}: the history server has no logs of this application; it is left"
            in found.stderr
        )
    assert len(json.loads(found.stdout)["jobs"]) == 1


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(history_server, "MAX_UNPACKED", 100)
    with serving({"/app/logs": packed({"app": LOG})}) as address:
        refused(run("batch", "fit", f"{address}/app"), "of logs, the most")
    assert list(tmp_path.iterdir()) == []


def test_addresses() -> None:
    for address in (
        "spark://",
        "spark://host:0/app",
        "spark://host:99999",
        "spark://host/a/b/c",
        "spark://a b",
    ):
        refused(run("batch", "fit", address), "write spark://HOST:18080/APP")
    refused(run("batch", "fit", "spark://127.0.0.1:9/app"), "does not answer")
    refused(run("batch", "fit", "http://127.0.0.1:9/app"), "a history server is named spark://HOST:18080")
