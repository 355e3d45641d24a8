"""Tail latency bought for services of many stages: one budget of reissues, partial answers and catch-up.

Importing this package loads nothing heavy; each name loads its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.base.errors import (
        DefinitionError as DefinitionError,
        InputError as InputError,
        KwikenError as KwikenError,
    )
    from kwiken.model.plan import (
        Budgets as Budgets,
        Plan as Plan,
        SpanMatch as SpanMatch,
        StagePlan as StagePlan,
    )
    from kwiken.model.profile import (
        Profile as Profile,
        StageProfile as StageProfile,
        decayed as decayed,
        profile_from_json as profile_from_json,
        profile_to_json as profile_to_json,
    )
    from kwiken.model.service import (
        Following as Following,
        GrpcCall as GrpcCall,
        HttpCall as HttpCall,
        Partial as Partial,
        Reissue as Reissue,
        Service as Service,
        Stage as Stage,
        service_from_dict as service_from_dict,
        service_from_graph as service_from_graph,
        service_from_json as service_from_json,
        service_from_yaml as service_from_yaml,
        service_to_dict as service_to_dict,
        service_to_graph as service_to_graph,
        service_to_json as service_to_json,
        service_to_yaml as service_to_yaml,
        to_dot as to_dot,
        to_mermaid as to_mermaid,
    )
    from kwiken.tail.diagnosis import by_class as by_class, explain as explain, heat_maps as heat_maps
    from kwiken.tail.judging import judge as judge, judge_blocks as judge_blocks
    from kwiken.tail.planning import (
        PlanSettings as PlanSettings,
        make_plan as make_plan,
        study_plan as study_plan,
    )
    from kwiken.tail.queueing.load import QueueSettings as QueueSettings
    from kwiken.tail.simulation import simulate as simulate

__getattr__ = lazy_names(__name__, __file__)
