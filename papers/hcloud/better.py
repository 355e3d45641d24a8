"""Beyond the source: reserving by expected cost, idle nodes by gaps, spot, and savings out of sample."""

from __future__ import annotations

from typing import Final

from kwiken.allocator.provisioning.document import study_provision
from kwiken.allocator.provisioning.load_curve import curve_of
from kwiken.allocator.provisioning.offers import NodeOffer, PriceList, Terms
from kwiken.allocator.provisioning.strategies import HINDSIGHT, Market, ProvisioningSettings, market
from papers.hcloud.runs import RATIO, Figures, cloud_figures
from papers.worlds.cloud.load_shapes import drawn_load
from papers.worlds.cloud.scenarios import draw_jobs
from papers.worlds.cloud.settings import CloudSettings, Keeping

FIRST_SEED: Final = 1000  # of load curves; the seeds before were used while the rule was built
DAYS: Final = 34  # half of them decide, half are paid


def prices(ratio: float) -> PriceList:
    """Cores on demand at 1, reserved for a year at a share of that."""
    common = {"node_class": "core", "cores": 1.0}
    return PriceList(
        "unit",
        "2026-11-01",
        "normalised",
        (
            NodeOffer(name="on demand", terms=Terms.ON_DEMAND, price_per_hour=1.0, boot_s=15.0, **common),  # type: ignore[arg-type]
            NodeOffer(name="year", terms=Terms.RESERVED, price_per_hour=1 / ratio, term_days=365, **common),  # type: ignore[arg-type]
        ),
    )


def _market(ratio: float) -> Market:
    return market(prices(ratio), {}, ProvisioningSettings(horizon_s=DAYS / 2 * 86_400.0))


def out_of_sample(shape: str, ratio: float, seed: int) -> Figures:
    """Cost above that in hindsight of each strategy: decided on half of a drawn load, paid on the other."""
    cores = drawn_load(shape, DAYS, FIRST_SEED + seed)
    half = len(cores) // 2
    study = study_provision(
        curve_of(0.0, 3600.0, cores[:half]),
        _market(ratio),
        later=curve_of(half * 3600.0, 3600.0, cores[half:]),
    )
    best = study.judged[HINDSIGHT].total
    found = {name: one.total / best - 1 for name, one in study.judged.items()}
    return found | {"mean": float(cores[half:].mean())}


def beyond(scenario: str, seed: int) -> dict[str, Figures]:
    """HM as it is, and with one thing changed: reserved nodes, idle times, spot for tolerant batch jobs.

    Reserved nodes are decided on another draw of the scenario.
    """
    history = draw_jobs(scenario, FIRST_SEED + seed).ideal_cores()[60:]
    study = study_provision(curve_of(0.0, 10.0, history), _market(RATIO))
    cores = float(sum(one.nodes for one in study.provision.offers))
    base = cloud_figures(scenario, "HM", CloudSettings(), seed)
    return {
        "minimum": base,
        "decided": cloud_figures(scenario, "HM", CloudSettings(reserved_cores=cores), seed),
        "learned": cloud_figures(scenario, "HM", CloudSettings(keeping=Keeping.LEARNED), seed),
        "spot": cloud_figures(scenario, "HM", CloudSettings(tolerant_spot=True), seed),
    }
