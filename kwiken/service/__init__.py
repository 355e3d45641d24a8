"""Service definitions: a DAG of stages with handlers, its document formats and its drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.service.codec import (
        service_from_dict,
        service_from_graph,
        service_from_json,
        service_from_yaml,
        service_to_dict,
        service_to_graph,
        service_to_json,
        service_to_yaml,
    )
    from kwiken.service.drawing import Box, to_dot, to_mermaid
    from kwiken.service.remote import (
        GrpcCall,
        HttpCall,
        Templates,
        input_names,
        templates_of,
    )
    from kwiken.service.service import MAX_STAGES, Service
    from kwiken.service.stage import MAX_FANOUT, MAX_MS, MAX_REPLICAS, Partial, Reissue, Stage
    from kwiken.service.template import Place

__all__ = [
    "MAX_FANOUT",
    "MAX_MS",
    "MAX_REPLICAS",
    "MAX_STAGES",
    "Box",
    "GrpcCall",
    "HttpCall",
    "Partial",
    "Place",
    "Reissue",
    "Service",
    "Stage",
    "Templates",
    "input_names",
    "service_from_dict",
    "service_from_graph",
    "service_from_json",
    "service_from_yaml",
    "service_to_dict",
    "service_to_graph",
    "service_to_json",
    "service_to_yaml",
    "templates_of",
    "to_dot",
    "to_mermaid",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.service.codec": (
            "service_from_dict",
            "service_from_graph",
            "service_from_json",
            "service_from_yaml",
            "service_to_dict",
            "service_to_graph",
            "service_to_json",
            "service_to_yaml",
        ),
        "kwiken.service.drawing": (
            "Box",
            "to_dot",
            "to_mermaid",
        ),
        "kwiken.service.remote": (
            "GrpcCall",
            "HttpCall",
            "Templates",
            "input_names",
            "templates_of",
        ),
        "kwiken.service.service": (
            "MAX_STAGES",
            "Service",
        ),
        "kwiken.service.stage": (
            "MAX_FANOUT",
            "MAX_MS",
            "MAX_REPLICAS",
            "Partial",
            "Reissue",
            "Stage",
        ),
        "kwiken.service.template": ("Place",),
    },
)
