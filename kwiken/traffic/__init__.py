"""Traffic maps between senders and receivers, by level and window: learned from flows, judged, generated."""

from __future__ import annotations

from kwiken.traffic.chains import (
    Racks as Racks,
    expected_map as expected_map,
    subset as subset,
    transitions as transitions,
)
from kwiken.traffic.document import TrafficModel as TrafficModel
from kwiken.traffic.flows import (
    MAX_INSTANT_S as MAX_INSTANT_S,
    OUTSIDE as OUTSIDE,
    BinnedFlows as BinnedFlows,
    Flows as Flows,
    TrafficEndpoint as TrafficEndpoint,
    TrafficUnit as TrafficUnit,
    binned as binned,
)
from kwiken.traffic.generator import (
    generate_counts as generate_counts,
    generate_events as generate_events,
)
from kwiken.traffic.learning import learn as learn
from kwiken.traffic.maps import (
    MapLevel as MapLevel,
    TrafficMap as TrafficMap,
    levels_of as levels_of,
)
from kwiken.traffic.model_judgement import TrafficJudgement as TrafficJudgement, judge as judge
from kwiken.traffic.temporal import (
    CurveFamily as CurveFamily,
    TemporalModel as TemporalModel,
    TimedCurve as TimedCurve,
    fit_server as fit_server,
)
from kwiken.traffic.windows import WindowDays as WindowDays, windows_in as windows_in
