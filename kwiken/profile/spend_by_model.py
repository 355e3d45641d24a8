"""What a plan's copies cost by every way of counting: in calls, in typical, busy and mean work."""

from __future__ import annotations

from collections.abc import Mapping

from kwiken.plan import Costs
from kwiken.profile.cost_models import MODELS, costs
from kwiken.profile.profile import Profile


def spent_by_model(profile: Profile, shares: Costs, spent: Mapping[str, float]) -> dict[str, float]:
    """The same extra work under every cost model that the profile knows enough for.

    A budget is kept in the plan's own unit; what is cheap in one may be dear in another, as the copies of a
    stage with a fault are, whose mean is mostly tail.

    Args:
        profile: what was learned.
        shares: the plan's costs, in which `spent` is told.
        spent: by stage: extra work there, as a share of all work; of copies, of help for late requests, or
            of both.

    Returns:
        By model (`calls`, `typical`, `mean`, and `busy` where busy times were measured): extra work as a
        share of all work, counted by that model.
    """
    more = {name: value / shares.stages[name] for name, value in spent.items() if shares.stages.get(name)}
    measured = all(
        stage.busy_ms is not None for stage in profile.stages if stage.reissuable and not stage.own_time
    )
    found = {}
    for model in MODELS:
        if model != "busy" or measured:
            known = costs(profile, model).stages
            found[model] = sum(known.get(name, 0.0) * extra for name, extra in more.items())
    return found
