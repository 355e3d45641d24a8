"""Metrics of this process: processor time and memory, and what OpenTelemetry calls its resource."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Family, family
from kwiken.otel.write.observer import resource as span_resource

STATM: Final = Path("/proc/self/statm")


def process_families() -> Iterator[Family]:
    """Read the metrics of this process; without the memory where the system does not tell it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield family(catalog.PROCESS_CPU, [(("user",), usage.ru_utime), (("system",), usage.ru_stime)])
    with contextlib.suppress(OSError):
        pages = int(STATM.read_bytes().split()[1])
        yield family(catalog.PROCESS_MEMORY, [((), pages * os.sysconf("SC_PAGE_SIZE"))])


def resource_of(service: str, instance: str) -> dict[str, str]:
    """Attributes of a process as OpenTelemetry's resource: service, instance and this project's version.

    Finding out the version takes 30 ms, so call this once, and not at the start.

    Args:
        service: name of the service, as on its spans.
        instance: name of the process, unique among those of the service.
    """
    attributes = {name: str(value) for name, value in span_resource(service).items()}
    return {**attributes, "service.instance.id": instance}


def target_family(resource_attributes: Mapping[str, str]) -> Family:
    """Resource of this process as a metric, for readers that have no resources."""
    labels = catalog.TARGET_INFO.labels
    return family(catalog.TARGET_INFO, [(tuple(resource_attributes.get(label, "") for label in labels), 1)])
