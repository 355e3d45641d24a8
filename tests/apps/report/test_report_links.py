"""Links from a report's requests to their traces in Jaeger."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kwiken.apps.report.build import build_page
from kwiken.apps.report.charts.gantt import GanttRequest
from kwiken.apps.report.model.page import render
from kwiken.apps.report.sections.views import Material
from kwiken.cli.study.report import command

REQUEST = GanttRequest(trace_id="ab" * 16, arm="before", total_ms=44.5, tracks=())


def page(jaeger: str | None) -> str:
    return render(build_page(Material(requests=(REQUEST,), jaeger=jaeger), made="now"))


def test_a_request_is_linked_to_its_trace() -> None:
    link = f'<a href="http://127.0.0.1:16686/trace/{"ab" * 16}">Open it in Jaeger.</a>'
    assert link in page("http://127.0.0.1:16686")
    assert "Jaeger" not in page(None)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:16686", "javascript:alert(1)", "http://", "http://h/?q=1", "http://h h", "http://["],
)
def test_what_is_no_address_of_a_page_is_refused(address: str) -> None:
    found = CliRunner().invoke(command, ["nothing.json", "--jaeger", address])
    assert found.exit_code == 2
    assert "--jaeger" in found.output
    assert "http://HOST:PORT" in found.output
