"""Extra work of a plan under each cost model: calls, typical, busy and mean time."""

from __future__ import annotations

from collections.abc import Mapping

from kwiken.plan import Costs
from kwiken.profile.cost_models import MODELS, costs
from kwiken.profile.profile import Profile


def spent_by_model(profile: Profile, shares: Costs, spent: Mapping[str, float]) -> dict[str, float]:
    """Extra work of a plan under every cost model that the profile has the data for.

    A budget is enforced in the plan's own cost model. The same copies may cost much more in another: the mean
    time of a stage with a fault, for example, is mostly tail.

    Args:
        profile: profile of the service.
        shares: costs of the plan, in whose model `spent` is given.
        spent: by stage: extra work there as a share of all work, for copies, catch-up or both.

    Returns:
        By model (`calls`, `typical`, `mean`, and `busy` where busy times were measured): extra work as a
        share of all work in that model.
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
