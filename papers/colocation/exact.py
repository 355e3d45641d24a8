"""Distance from the optimum on small cases: drains by use against a mixed-integer program."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from kwiken.allocator.packing.drains import after, drain_steps
from kwiken.allocator.packing.goals import PackingGoal
from kwiken.allocator.packing.tasks.packed_cluster import plain_cluster
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.figures.tables import level

TASKS, HOSTS = 20, 8
CASES: Final = 6  # for each seed
CAPACITY: Final = 1.0
TIME_LIMIT_S: Final = 20.0
NOTE: Final = f"{TASKS} random tasks of two resources on {HOSTS} hosts; no limit on moves"


def fewest_hosts(needs: Floats, hosts: int) -> int:
    """Fewest hosts of capacity 1 that hold all tasks, by HiGHS.

    Args:
        needs: (t, k) requirements of each task, as shares of a host.
        hosts: number of hosts that are there.
    """
    tasks, resources = needs.shape
    placed = tasks * hosts  # one variable for each task on each host, then one for each host
    rows, columns, values = [], [], []
    for task in range(tasks):
        for host in range(hosts):
            rows.append(task)
            columns.append(task * hosts + host)
            values.append(1.0)
    for host in range(hosts):
        for resource in range(resources):
            row = tasks + host * resources + resource
            for task in range(tasks):
                rows.append(row)
                columns.append(task * hosts + host)
                values.append(float(needs[task, resource]))
            rows.append(row)
            columns.append(placed + host)
            values.append(-CAPACITY)
    shape = (tasks + hosts * resources, placed + hosts)
    lower = np.concatenate([np.ones(tasks), np.full(hosts * resources, -np.inf)])
    upper = np.concatenate([np.ones(tasks), np.zeros(hosts * resources)])
    found = milp(
        np.concatenate([np.zeros(placed), np.ones(hosts)]),
        constraints=LinearConstraint(
            coo_matrix((values, (rows, columns)), shape=shape).tocsr(), lower, upper
        ),
        integrality=np.ones(placed + hosts),
        bounds=Bounds(0, 1),
        options={"time_limit": TIME_LIMIT_S},
    )
    return round(float(found.fun))


def hosts_by_drains(needs: Floats, hosts: int) -> int:
    """Hosts in use after all drains, from two or three tasks on each host.

    Args:
        needs: (t, k) requirements of each task, as shares of a host.
        hosts: number of hosts that are there.
    """
    cluster = Cluster(
        (NodeClass(name="host", cores=CAPACITY, memory_gb=CAPACITY),),
        tuple(Node(f"host-{at}", "host") for at in range(hosts)),
    )
    names = tuple(f"task-{at}" for at in range(len(needs)))
    packed = plain_cluster(cluster, names, names, needs[:, 0], needs[:, 1], np.arange(len(needs)) % hosts)
    goal = PackingGoal(
        hard=needs,
        capacity=np.full((hosts, needs.shape[1]), CAPACITY),
        soft=np.zeros((1, len(needs), 1)),
        penalty=lambda sums, _: np.zeros(len(sums)),
        level=None,
        node_cost=np.ones(hosts),
        spread=1.0,
        apart=packed.apart,
    )
    node = after(packed.node, list(drain_steps(packed, goal, len(needs))))
    return len(np.unique(node))


def gaps_from_optimum(seed: int) -> dict[str, float]:
    """Hosts of random cases: by drains, by the program, and the gap in percent."""
    rng = np.random.default_rng([seed, 44])
    cases = [rng.uniform(0.05, 0.3, (TASKS, 2)) for _ in range(CASES)]
    ours = sum(hosts_by_drains(needs, HOSTS) for needs in cases)
    best = sum(fewest_hosts(needs, HOSTS) for needs in cases)
    return {"drains": ours, "HiGHS": best, "gap": 100 * (ours / best - 1)}


GAPS: Final = (
    level("Optimum", f"hosts by drains, {CASES} cases", "drains"),
    level("Optimum", f"hosts by HiGHS, {CASES} cases", "HiGHS"),
    level("Optimum", "gap, %", "gap", "within 10 (aim)"),
)
