"""Nodes that are sold beyond their cores by use: what stands there stays where it has to."""

from __future__ import annotations

import random

from tests.allocator.adaptation.test_live_repacking import Machine, idle


def packed() -> Machine:
    """A machine after repacking that has sold nodes beyond their cores."""
    machine = Machine(6, dial=0.0)
    for _ in range(120):
        machine.window(idle(machine))
    return machine


def packed_without_room_elsewhere() -> Machine:
    """The same machine once the nodes that repacking emptied are lost."""
    machine = packed()
    empty = [node.name for node in machine.cluster.nodes if node.name not in machine.nodes_in_use()]
    machine.apply(machine.adaptation.nodes_lost(empty, machine.now_s), 0.0, random.Random(0))
    return machine


def test_a_straggler_stays_on_a_node_that_is_sold_beyond_its_cores_where_no_other_has_room() -> None:
    machine = packed_without_room_elsewhere()
    ledger = machine.adaptation.replicas.ledger
    before = dict(machine.running)
    for slow in machine.of("front"):
        assert ledger.free_cores[ledger.cluster.index_of[before[slow]]] < 0
        for _ in range(12):
            assert machine.window(idle(machine), slow=slow) == []
        assert machine.running == before
        machine.check()


def test_best_effort_work_stays_on_a_node_that_is_sold_beyond_its_cores_where_its_end_wins_nothing() -> None:
    machine = packed_without_room_elsewhere()
    before = machine.of("nap")
    for _ in range(4):
        machine.window(idle(machine), p99_ms=20.0)
    assert machine.of("nap") == before
    assert machine.running == {key: node for node, key in machine.placed()}


def test_a_job_that_runs_already_on_a_node_that_is_sold_beyond_its_cores_takes_none() -> None:
    machine = packed()
    ledger = machine.adaptation.replicas.ledger
    beyond = next(at for at in range(6) if ledger.free_cores[at] < 0)
    before = float(ledger.free_cores[beyond])
    rooms = machine.adaptation.job_room(dict.fromkeys((one.name for one in machine.cluster.nodes), 1.0))
    rooms.take("job", machine.cluster.nodes[beyond].name, 1.0, 1.0, {})
    assert ledger.free_cores[beyond] == before
    rooms.release("job")
    machine.check()


def test_a_node_that_is_sold_beyond_its_cores_is_blocked_as_it_is() -> None:
    machine = packed()
    replicas = machine.adaptation.replicas
    ledger = replicas.ledger
    before = ledger.free_cores.copy()
    beyond = int(before.argmin())
    assert before[beyond] <= -2.0
    with replicas.without(machine.cluster.nodes[beyond].name):
        assert ledger.free_cores[beyond] == before[beyond]
        assert ledger.free_memory_gb[beyond] == 0.0
    assert ledger.free_cores.tolist() == before.tolist()
