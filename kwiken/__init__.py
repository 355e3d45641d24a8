"""Tail latency bought for services of many stages: one budget of reissues, partial answers and catch-up.

Importing this package loads nothing heavy; each name loads its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwiken.base.lazy import lazy_names, names_of

if TYPE_CHECKING:
    from kwiken.base.errors import (
        DefinitionError as DefinitionError,
        InputError as InputError,
        KwikenError as KwikenError,
    )
    from kwiken.export.plans.programs import export_plan as export_plan
    from kwiken.hedge.hedger import Hedger as Hedger
    from kwiken.model.plan.plan import (
        Budgets as Budgets,
        Plan as Plan,
        SpanMatch as SpanMatch,
        StagePlan as StagePlan,
    )
    from kwiken.model.profile.codec import (
        profile_from_json as profile_from_json,
        profile_to_json as profile_to_json,
    )
    from kwiken.model.profile.profile import Profile as Profile, StageProfile as StageProfile
    from kwiken.model.profile.weighting import decayed as decayed
    from kwiken.model.service.codec import (
        service_from_dict as service_from_dict,
        service_from_graph as service_from_graph,
        service_from_json as service_from_json,
        service_from_yaml as service_from_yaml,
        service_to_dict as service_to_dict,
        service_to_graph as service_to_graph,
        service_to_json as service_to_json,
        service_to_yaml as service_to_yaml,
    )
    from kwiken.model.service.drawing import to_dot as to_dot, to_mermaid as to_mermaid
    from kwiken.model.service.remote import GrpcCall as GrpcCall, HttpCall as HttpCall
    from kwiken.model.service.service import Service as Service
    from kwiken.model.service.stage import (
        Following as Following,
        Partial as Partial,
        Reissue as Reissue,
        Stage as Stage,
    )
    from kwiken.otel.fit.fit import fit_profile as fit_profile
    from kwiken.tail.diagnosis.classes import by_class as by_class
    from kwiken.tail.diagnosis.explanation import explain as explain
    from kwiken.tail.diagnosis.heat_map import heat_maps as heat_maps
    from kwiken.tail.judging.blocks import judge_blocks as judge_blocks
    from kwiken.tail.judging.judge_plan import judge as judge
    from kwiken.tail.planning.planner import make_plan as make_plan, study_plan as study_plan
    from kwiken.tail.planning.study import PlanSettings as PlanSettings
    from kwiken.tail.queueing.load.decompose import QueueSettings as QueueSettings
    from kwiken.tail.simulation.trace_driven import simulate as simulate

_load = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return names_of(__file__)
    if name == "__version__":
        from importlib.metadata import version

        return version("kwiken")
    return _load(name)


def __dir__() -> list[str]:
    return [*globals(), "__all__", "__version__", *names_of(__file__)]
