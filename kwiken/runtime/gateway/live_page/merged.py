"""Data of the live pages of several gateways as one page's. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kwiken.runtime.engine.status_document import combined, gateway_lines

View = Mapping[str, Any]


def merged_view(own: View, others: Sequence[View]) -> dict[str, Any]:
    """Data of one page that shows all gateways.

    Counts, rates and stages are of all. Single slow requests are those of the gateway that answers, because
    the page asks for those that it does not have by that gateway's numbers.

    Args:
        own: data of the gateway that answers.
        others: data of its siblings, of samples after the same number.
    """
    views = [own, *others]
    statuses = [{"gateway": view.get("gateway", ""), **view["status"]} for view in views]
    # The newest second that every gateway has told of; later ones come with the next request.
    known = min(max((one["number"] for one in view["samples"]), default=0) for view in views)
    by_number: dict[int, list[View]] = {}
    for view in views:
        for sample in view["samples"]:
            by_number.setdefault(sample["number"], []).append(sample)
    return {
        **own,
        "started_s": min(view["started_s"] for view in views),
        "status": combined(statuses),
        "gateways": gateway_lines(statuses),
        "samples": [
            _combined_sample(by_number[sample["number"]])
            for sample in own["samples"]
            if sample["number"] <= known
        ],
    }


def _combined_sample(samples: Sequence[View]) -> View:
    """One sample of the gateways that have one of its second."""
    first = samples[0]
    return combined(samples) | {"number": first["number"], "at_s": first["at_s"]}
