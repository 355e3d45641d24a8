"""Documents and logs from outside, damaged as in `test_decoders`: they are read, or refused by an error of ours."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.contention.machine_probe import probe_from_json
from kwiken.allocator.packing.documents.kubernetes import cluster_from_kubectl
from kwiken.allocator.packing.documents.usage_files import usage_from_csv, usage_from_prometheus
from kwiken.allocator.provisioning.document import Provision
from kwiken.allocator.provisioning.interruptions import recording_from_json
from kwiken.allocator.provisioning.load_curve import load_from_text
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import profiles_from_json
from kwiken.allocator.workloads.workload import workloads_from_toml
from kwiken.base.errors import DefinitionError, InputError
from kwiken.batch.jobs.job import BatchJobs
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.racks.document import RackPlan
from kwiken.export.plans.calls import read_targets
from kwiken.model.nodes.document import cluster_from_toml
from kwiken.model.nodes.placement import Placement
from kwiken.storage.consolidation.document import datasets_from_toml, history_from_csv
from kwiken.storage.model.document import StorageModel
from kwiken.storage.trace.formats import trace_from_text
from kwiken.tail.queueing.load.queues_document import queues_from_toml
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.span_flows.logs import read_flow_logs
from tests.runtime.fuzz.test_decoders import check_refusal, damaged

EXAMPLES: Final = {
    path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "documents").iterdir())
}
NAMES: Final = ("a", "b")


def _flows(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flows"
        path.write_bytes(data)
        read_flow_logs([str(path)], {})


def _text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """What reads text gets it as its command does: bytes that are no UTF-8 are replaced."""
    return lambda data: read(data.decode(errors="replace"))


def _usage(data: bytes) -> None:
    with contextlib.suppress(InputError):
        usage_from_csv(data, NAMES, NAMES, where="usage")
    with contextlib.suppress(InputError):
        usage_from_prometheus(data, data, NAMES, where="usage")


DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "block_trace": _text(lambda text: trace_from_text(text, where="trace")),
    "datasets": lambda data: datasets_from_toml(data, where="datasets"),
    "flows": _flows,
    "history": _text(lambda text: history_from_csv(text, list(NAMES), 60.0, where="history")),
    "job_log": lambda data: read_log(data.splitlines(keepends=True), name="job", where="log"),
    "jobs": lambda data: BatchJobs.from_json(data, where="jobs"),
    "kubectl": lambda data: cluster_from_kubectl(data, where="kubectl"),
    "load": lambda data: load_from_text(data, where="load"),
    "measurements": lambda data: measurements_from_text(data, where="measurements"),
    "placement": lambda data: Placement.from_json(data, where="placement"),
    "prices": lambda data: prices_from_toml(data, where="prices"),
    "probe": lambda data: probe_from_json(data, where="probe"),
    "profiles": lambda data: profiles_from_json(data, where="profiles"),
    "provision": lambda data: Provision.from_json(data, where="provision"),
    "queues": queues_from_toml,
    "rack_plan": lambda data: RackPlan.from_json(data, where="plan"),
    "racks": lambda data: cluster_from_toml(data, where="racks"),
    "recording": lambda data: recording_from_json(data, where="recording"),
    "storage_model": lambda data: StorageModel.from_json(data, where="model"),
    "targets": read_targets,
    "traffic": lambda data: TrafficModel.from_json(data, where="traffic"),
    "usage": _usage,
    "workloads": lambda data: workloads_from_toml(data, where="workloads"),
}


def _examples(decoder: str) -> list[bytes]:
    return [data for name, data in EXAMPLES.items() if name.startswith(f"{decoder}-")]


def test_every_decoder_has_examples_and_every_example_a_decoder() -> None:
    assert {name.rsplit("-", 1)[0] for name in EXAMPLES} == set(DECODERS)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_examples_are_read(decoder: str) -> None:
    for data in _examples(decoder):
        DECODERS[decoder](data)


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=st.data())
@settings(max_examples=400)
def test_damaged_input_is_read_or_refused(decoder: str, data: st.DataObject) -> None:
    text = data.draw(damaged(_examples(decoder)))
    try:
        DECODERS[decoder](text)
    except (InputError, DefinitionError) as error:
        check_refusal(error)
