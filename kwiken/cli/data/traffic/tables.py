"""Tables and summaries of traffic models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kwiken.apps.console.output import print_table, say
from kwiken.traffic.maps import MapLevel, levels_of

if TYPE_CHECKING:
    from kwiken.traffic.document import TrafficModel
    from kwiken.traffic.maps import TrafficMap

MAX_PAIRS_SHOWN: Final = 12
MAX_TALKERS: Final = 8


def summary(model: TrafficModel) -> dict[str, Any]:
    """What a model says, for `--json`: windows, levels with locality, busiest pairs, talkers."""
    return {
        "unit": model.unit.value,
        "from": _instant(model.from_s),
        "until": _instant(model.until_s),
        "endpoints": len(model.endpoints),
        "services": len({one.service for one in model.endpoints}),
        "pairs_with_traffic": sum(amount > 0 for amount in model.seen),
        "prior_weights": {"service": model.prior.service, "instance": model.prior.instance},
        "windows": [
            {
                "window": each.window.name,
                "seconds": each.seconds,
                "per_s": each.amount / each.seconds if each.seconds > 0 else 0.0,
            }
            for each in model.windows
        ],
        "levels": [
            {
                "level": level.value,
                "places": len(found.names),
                "inside": locality(found),
                "pairs": [
                    {"from": sender, "to": receiver, "per_s": rate}
                    for sender, receiver, rate in busiest(found, len(found.amount))
                ],
            }
            for level, found in _maps(model)
        ],
        "talkers": [
            {"service": name, "partners": partners, "share": share}
            for name, partners, share in talkers(model)
        ],
    }


def show_model(model: TrafficModel, *, to_stderr: bool = False) -> None:
    """Print windows, locality by level, the busiest pairs of services and the services with most partners."""
    rates = [
        (
            each.window.name,
            f"{each.seconds / 3600:.4g} h",
            f"{each.amount / each.seconds if each.seconds > 0 else 0.0:.4g}",
        )
        for each in model.windows
    ]
    title = f"traffic in {model.unit} from {_instant(model.from_s)} to {_instant(model.until_s)}"
    print_table(title, ("window (UTC)", "with traffic", f"{model.unit}/s"), rates, to_stderr=to_stderr)
    levels = [
        (level.value, str(len(found.names)), str(np.count_nonzero(found.amount)), f"{locality(found):.1%}")
        for level, found in _maps(model)
    ]
    print_table("levels", ("level", "places", "pairs", "inside"), levels, to_stderr=to_stderr)
    found = model.traffic_map(MapLevel.SERVICE)
    total = float(found.amount.sum())
    pairs = [
        (sender, receiver, f"{rate:.4g}", f"{rate / total:.1%}")
        for sender, receiver, rate in busiest(found, MAX_PAIRS_SHOWN)
    ]
    print_table(
        "busiest pairs of services", ("from", "to", f"{model.unit}/s", "share"), pairs, to_stderr=to_stderr
    )
    talk = [(name, str(partners), f"{share:.1%}") for name, partners, share in talkers(model)]
    print_table(
        "services that talk to most others",
        ("service", "partners", "of the traffic"),
        talk,
        to_stderr=to_stderr,
    )
    if not to_stderr:
        say(_prior_words(model))


def _prior_words(model: TrafficModel) -> str:
    prior = model.prior
    if prior.service == 0 and prior.instance == 0:
        return "held-out bins chose no prior: every pair was seen often enough to keep its own share"
    return (
        f"weight of what a pair's parent says: {prior.service:.3g} {model.unit} by services, "
        f"{prior.instance:.3g} by instances, as held-out bins chose them"
    )


def _maps(model: TrafficModel) -> list[tuple[MapLevel, TrafficMap]]:
    return [(level, model.traffic_map(level)) for level in levels_of(model.endpoints)]


def locality(found: TrafficMap) -> float:
    """Share of the traffic that stays inside of a place."""
    total = float(found.amount.sum())
    return float(found.amount[found.source == found.target].sum()) / total if total > 0 else 0.0


def busiest(found: TrafficMap, most: int) -> list[tuple[str, str, float]]:
    """Sender, receiver and rate of the busiest pairs."""
    order = np.argsort(-found.amount, kind="stable")[:most]
    return [
        (found.names[int(found.source[k])], found.names[int(found.target[k])], float(found.amount[k]))
        for k in order
        if found.amount[k] > 0
    ]


def talkers(model: TrafficModel) -> list[tuple[str, int, float]]:
    """Services with the most partners: name, number of other services, share of the traffic at one end."""
    found = model.traffic_map(MapLevel.SERVICE)
    count, inside = len(found.names), found.source == found.target
    some = (found.amount > 0) & ~inside
    low, high = np.minimum(found.source, found.target)[some], np.maximum(found.source, found.target)[some]
    linked = np.unique(low * count + high)
    partners = np.bincount(np.concatenate((linked // count, linked % count)), minlength=count)
    share = (
        np.bincount(found.source, found.amount, count)
        + np.bincount(found.target, found.amount, count)
        - np.bincount(found.source[inside], found.amount[inside], count)
    ) / max(float(found.amount.sum()), 1e-300)
    order = np.lexsort((-share, -partners))[:MAX_TALKERS]
    return [(found.names[int(k)], int(partners[k]), float(share[k])) for k in order if partners[k]]


def _instant(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
