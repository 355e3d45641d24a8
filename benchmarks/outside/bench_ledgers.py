"""Benchmark of the ledger's terms, on the recordings of `outside`: what each bound costs where faults come.

By data set, budget and terms: mean p99 cut and spend of the default plan on later requests, with a ledger on
those terms replayed in the order of time. Peak 1 without a floor is a budget that holds over every 10 s.
"""

from __future__ import annotations

from benchmarks.harness import Row
from benchmarks.outside.bench_tried import BUDGETS, TOO_SMALL_SETS, cut_row
from benchmarks.outside.outside_data import recordings
from benchmarks.outside.outside_judge import judged
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.tail.judging.judged_plans import PLAN

TERMS = {
    "peak 1, no floor": LedgerTerms(peak_factor=1.0, floor_per_s=0.0),
    "peak 4, no floor": LedgerTerms(floor_per_s=0.0),
    "peak 2, floor 3": LedgerTerms(peak_factor=2.0),
    "peak 4, floor 3 (the default)": LedgerTerms(),
    "peak 8, floor 3": LedgerTerms(peak_factor=8.0),
    "peak 4, floor 1": LedgerTerms(floor_per_s=1.0),
    "horizon 10 min, peak 4, floor 3": LedgerTerms(horizon_s=600.0),
}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rows: dict[tuple[str, float], list[Row]] = {}
    for words, terms in TERMS.items():
        chosen = (
            each for each in recordings(quick=quick, services=1) if not TOO_SMALL_SETS & each.data_sets.keys()
        )
        cases = judged(chosen, budgets=BUDGETS, ledger=terms)
        for name in dict.fromkeys(case.data_set for case in cases):
            for budget in BUDGETS:
                some = [case for case in cases if (case.data_set, case.budget) == (name, budget)]
                row = cut_row(f"{name}, {budget:.1%}: {words}", PLAN, some)
                rows.setdefault((name, budget), []).append(row)
    return [row for group in rows.values() for row in group]
