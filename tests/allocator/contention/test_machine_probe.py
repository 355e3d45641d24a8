"""Document of a machine probe: what is written is read, and every wrong field is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kwiken.allocator.contention.calibration import CALIBRATION_LEVELS, calibrate
from kwiken.allocator.contention.crosstalk import Crosstalk
from kwiken.allocator.contention.machine_probe import MachineProbe, probe_from_json, probe_to_json
from kwiken.base.errors import InputError


def probe() -> MachineProbe:
    calibrations = {
        name: calibrate(name, CALIBRATION_LEVELS, [peak * level for level in CALIBRATION_LEVELS])
        for name, peak in (("l2", 5.0), ("disk", 8e8))
    }
    cross = Crosstalk(("l2", "disk"), 0.5, np.array([[0.4, 0.01], [0.02, 0.5]]))
    return MachineProbe(2, {"l2": 1 << 20, "disk": 1 << 26}, ("tlb",), calibrations, cross)


def test_what_is_written_is_read() -> None:
    written = probe_to_json(probe())
    read = probe_from_json(written, where="m.json")
    assert read.calibrations == probe().calibrations
    assert (read.processors, read.sizes, read.assumed) == (2, {"l2": 1 << 20, "disk": 1 << 26}, ("tlb",))
    assert read.crosstalk is not None
    assert read.crosstalk.losses.tolist() == [[0.4, 0.01], [0.02, 0.5]]
    assert probe_to_json(read) == written


def changed(change: Callable[[dict[str, Any]], None]) -> str:
    document = json.loads(probe_to_json(probe()))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(version=2), "m.json: version must be 1, not 2"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d["sources"].update(l9=d["sources"]["l2"]), "sources.l9: no such source; known: cpu-int"),
        (lambda d: d["sources"]["l2"].update(peak=0), "sources.l2.peak: must be a finite number above 0"),
        (lambda d: d["sources"]["l2"].update(drives=[0.0, 1.0]), "sources.l2.drives: has 2 values for 9"),
        (
            lambda d: d["sources"]["l2"]["drives"].__setitem__(1, 1.5),
            "sources.l2.drives: must be from 0 to 1",
        ),
        (lambda d: d["sources"]["l2"]["reached"].__setitem__(1, -1), "sources.l2.reached: must be finite"),
        (lambda d: d["sources"]["l2"]["levels"].__setitem__(1, 0.9), "sources.l2.levels: must rise"),
        (lambda d: d["crosstalk"].update(losses=[[0.1]]), "crosstalk.losses: must be 2 rows of 2"),
        (lambda d: d["crosstalk"].update(sources=["l2", "x"]), "crosstalk.sources: no source 'x'"),
    ],
)
def test_wrong_documents_are_refused(change: Callable[[dict[str, Any]], None], told: str) -> None:
    with pytest.raises(InputError, match=told):
        probe_from_json(changed(change), where="m.json")
