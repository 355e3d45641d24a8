"""Service definitions: a DAG of stages with handlers, its document formats and its drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.model.service.codec import (
        foreign_service_from_yaml as foreign_service_from_yaml,
        service_from_dict as service_from_dict,
        service_from_graph as service_from_graph,
        service_from_json as service_from_json,
        service_from_yaml as service_from_yaml,
        service_to_dict as service_to_dict,
        service_to_graph as service_to_graph,
        service_to_json as service_to_json,
        service_to_yaml as service_to_yaml,
    )
    from kwiken.model.service.drawing import Box as Box, to_dot as to_dot, to_mermaid as to_mermaid
    from kwiken.model.service.remote import (
        GrpcCall as GrpcCall,
        HttpCall as HttpCall,
        Templates as Templates,
        input_names as input_names,
        templates_of as templates_of,
    )
    from kwiken.model.service.request_kinds import (
        NO_LINES as NO_LINES,
        OTHER as OTHER,
        RequestKinds as RequestKinds,
    )
    from kwiken.model.service.service import MAX_STAGES as MAX_STAGES, Service as Service
    from kwiken.model.service.stage import (
        MAX_FANOUT as MAX_FANOUT,
        MAX_MS as MAX_MS,
        MAX_REPLICAS as MAX_REPLICAS,
        Following as Following,
        Partial as Partial,
        Reissue as Reissue,
        Stage as Stage,
    )
    from kwiken.model.service.template import TemplatePlace as TemplatePlace

__getattr__ = lazy_names(__name__, __file__)
