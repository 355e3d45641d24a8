"""Budget for gains that the requests seen prove: the fewer there are, the less goes to what may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwiken.apportion.sum_of_variances import HulledCurve, sumvar
from kwiken.curves import TRUST, Curve, CurveBounds, curve_bounds
from kwiken.profile import Profile

DOUBT = 0.5  # certainty below which a reader should know of it
SHOWN = 5


class Caution:
    """Timid curves to apportion by; learns the bounds of those stages that would get anything.

    Args:
        profile: what was learned.
        curves: by stage that may be reissued.
        seed: of the draws that stand for cancelled calls.

    Attributes:
        bounds: by stage that was looked at: how sure its curve is.
    """

    def __init__(self, profile: Profile, curves: Mapping[str, Curve], *, seed: int = 0) -> None:
        self._profile, self._curves, self._seed = profile, curves, seed
        self._hulls: dict[str, HulledCurve] = dict(curves)
        self.bounds: dict[str, CurveBounds] = {}

    def hulls(self, prices: Mapping[str, float], budget: float) -> Mapping[str, HulledCurve]:
        """By stage: the hull to apportion a budget by.

        Stages that were not looked at keep their own curves, which promise at least as much; so once nobody
        gets anything of the sum of variances who was not looked at, the rest would get nothing either.

        Args:
            prices: by stage: what reissuing all of its calls costs.
            budget: the most that may be spent.
        """
        while True:
            found = sumvar(self._hulls, prices, budget).fractions
            fresh = [name for name, share in found.items() if share > 0 and name not in self.bounds]
            if not fresh:
                return self._hulls
            self._look_at(fresh)

    def _look_at(self, names: Iterable[str]) -> None:
        some = {name: self._curves[name] for name in names}
        found = curve_bounds(self._profile, some, seed=self._seed)
        self.bounds.update(found)
        self._hulls.update({name: found[name].timid(curve.hull) for name, curve in some.items()})


def caution_notes(bounds: Mapping[str, CurveBounds]) -> tuple[str, ...]:
    """What a reader should know of gains that are not sure, in words.

    Args:
        bounds: of the stages that were looked at.
    """
    unsure = [name for name, each in bounds.items() if not each.certainty > 0]
    doubtful = [f"{name} {each.certainty:.0%}" for name, each in bounds.items() if 0 < each.certainty < DOUBT]
    notes = []
    if unsure:
        notes.append(
            f"chance may explain all that copies seem to gain at {_listed(unsure)}: {TRUST:.0%} of it counts "
            "until more requests tell"
        )
    if doubtful:
        notes.append(
            "the fewer slow requests were seen, the less their gain counts; sure of it is: "
            + _listed(doubtful)
        )
    return tuple(notes)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
