"""Command that finds joint optima: `python -m benchmarks.placement.joint [--again] [--limit-s S] [--jobs N]`.

Instances that are in the file already are left out. With `--again`, those without a proven optimum are
searched once more, and the better of both results is kept.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from joblib import Parallel, delayed

from benchmarks.placement.joint.instances import FAMILIES, SEEDS, cluster_of, instance
from benchmarks.placement.joint.optima import COMMAND, KnownOptimum, digest_of, read_optima, write_optima
from kwiken.allocator.placement.node_ledger import NodeLedger
from papers.worlds.schedulers.exact import solve

LIMIT_S: Final = 600.0  # longest search for one optimum


def _search(family: str, seed: int, limit_s: float) -> tuple[KnownOptimum, float]:
    """An optimum, and the seconds that the search took."""
    start = time.perf_counter()
    ledger = NodeLedger(cluster_of(FAMILIES[family], seed))
    best = solve(instance(FAMILIES[family], seed), ledger, time_limit_s=limit_s)
    known = KnownOptimum(
        family=family, seed=seed, digest=digest_of(family, seed), cost=best.cost, bound=best.bound
    )
    return known, time.perf_counter() - start


def _better(new: KnownOptimum, old: KnownOptimum | None) -> KnownOptimum:
    """The least cost and the largest bound of two searches of one instance."""
    if old is None or old.digest != new.digest:
        return new
    return replace(new, cost=min(new.cost, old.cost), bound=max(new.bound, old.bound))


def main(arguments: Sequence[str] | None = None) -> int:
    """Find the optima that the file does not have."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Find the joint optima that the file does not have."
    )
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, metavar="SECONDS", help="for each instance")
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help="processes; one a core by default")
    parser.add_argument("--again", action="store_true", help="search those that are not proven once more")
    options = parser.parse_args(arguments)
    found = read_optima()
    wanted = []
    for seed in SEEDS:
        for family in FAMILIES:
            one = found.get((family, seed))
            stale = one is None or one.digest != digest_of(family, seed)
            if stale or (options.again and one is not None and not one.proven):
                wanted.append((family, seed))
    searches = (delayed(_search)(family, seed, options.limit_s) for family, seed in wanted)
    results = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(searches)
    for number, (new, took_s) in enumerate(results, 1):
        key = new.family, new.seed
        found[key] = best = _better(new, found.get(key))
        write_optima(found.values())
        gap = f"{best.cost:.6g}, at least {best.bound:.6g}" if math.isfinite(best.cost) else "no placement"
        line = f"{number} of {len(wanted)}: {new.family}, seed {new.seed}: {gap} ({took_s:.1f} s)"
        print(line, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
