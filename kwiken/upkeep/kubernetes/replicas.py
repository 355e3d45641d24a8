"""Replicas of a service as pods: scales of its Deployments, and the nodes that their pods are let onto.

Each stage has one Deployment whose pods wait at a gate. To start a replica, the scale is raised by one and
the new pod is let onto a node of a class, of which it prefers one; to stop one, its pod is marked as the
first to end and the scale lowered. A size is changed in place. So pods that end by themselves are still
replaced by their Deployment, and the replacement prefers the node of the one that it replaces. Where no node
has room, pods pend without a gate and prefer none, so that an autoscaler of nodes brings one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from kwiken.base.errors import KwikenError
from kwiken.model.service.service import Service
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.upkeep.kubernetes.api import KubernetesApi, KubernetesError
from kwiken.upkeep.kubernetes.nodes import KubernetesNodes
from kwiken.upkeep.kubernetes.pods import CONTAINER, Pod, giving_up, noting, placing, pod_of, taken_cores

LOG = logging.getLogger("kwiken.upkeep")
POLL_S: Final = 1.0  # interval of looks at pods and nodes
STEP_S: Final = 0.2  # interval of looks at a pod that is waited for
CREATED_S: Final = 30.0  # for a Deployment to make a pod
RESIZED_S: Final = 10.0  # for a kubelet to resize a pod, or to say why not
UNFIT_S: Final = 20.0  # for room that ending pods leave, before a pod is given up that fits nowhere
READY_S: Final = 180.0  # for a pod to become ready, its image fetched
SAME_CORES: Final = 0.0005  # Kubernetes counts in thousandths of a core


class PodReplicas:
    """Replicas of one service as pods.

    Args:
        name: name of the service in Kubernetes: the value of its pods' label, and how its Deployments begin.
        components: name of each stage in Kubernetes, by stage.
        nodes: nodes, which are kept as they are seen.
    """

    def __init__(
        self,
        service: Service,
        api: KubernetesApi,
        gateway: ControlClient,
        nodes: KubernetesNodes,
        *,
        name: str,
        components: Mapping[str, str],
    ) -> None:
        self.service = service
        self._api = api
        self._gateway = gateway
        self._nodes = nodes
        self._name = name
        self._components = components
        self._stages = {component: stage for stage, component in components.items()}
        self._pods: dict[str, Pod] = {}
        self._own: dict[str, tuple[str, ReplicaPlace]] = {}  # what an upkeep counts on, by its first pod
        self._now: dict[str, str] = {}  # by first pod, the one that replaced it, if another one did
        # One claim of a waiting pod, or one removal, at a time: two would take the same pod.
        self._turns = {stage: asyncio.Lock() for stage in components}
        # Class and cores of pods that pend, by stage and name.
        self._pending: dict[str, dict[str, tuple[str, float]]] = {stage: {} for stage in components}
        self.joined = asyncio.Event()  # there are nodes, or pods on nodes, that the upkeep does not place on
        self.learned: Callable[[], Mapping[str, float]] = dict  # by stage, noted at its pods

    @property
    def places(self) -> Mapping[str, tuple[str, ReplicaPlace]]:
        """Stage and place of the replicas that the upkeep counts on, by the name of their first pod."""
        return dict(self._own)

    @property
    def lost_nodes(self) -> list[str]:
        """Nodes of these pods that are not ready, or cordoned."""
        return sorted({place.node for _, place in self._own.values()} - self._nodes.usable)

    async def look(self) -> None:
        """Look at pods and nodes once.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        self._nodes.see(await self._api.nodes())
        found = await self._api.pods(f"app.kubernetes.io/name={self._name}")
        self._pods = {pod.name: pod for pod in map(pod_of, found) if pod.component in self._stages}

    async def watch(self) -> None:
        """Look at intervals until cancelled, and let replacements onto the nodes of what they replace."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.look()
                self._follow()
                await self._replace()
                await self._note_learned()
            except KwikenError as error:
                LOG.warning("%s", error, extra=about(Event.UPKEEP_FAILED))

    async def _note_learned(self) -> None:
        """Note at pods what was learned of their stages, so that it outlasts this process."""
        learned = self.learned()
        for name, (stage, _) in list(self._own.items()):
            pod, factor = self._pods.get(self._now.get(name, name)), round(learned.get(stage, 1.0), 4)
            if pod is not None and not pod.ends and pod.learned != factor:
                await self._api.patch_pod(pod.name, noting(factor))

    async def settle(
        self, wanted: Mapping[str, Sequence[tuple[str, ReplicaPlace]]]
    ) -> dict[str, str | KwikenError]:
        """Bring the pods to what is wanted at the start: those on the right nodes stay, the others end.

        Args:
            wanted: key and place of each replica, by stage.

        Returns:
            Name of the pod of each replica by its key, or why it was not started.
        """
        await self.look()
        found: dict[str, str | KwikenError] = {}
        for stage, replicas in wanted.items():
            there = [pod for pod in self._of(stage) if not pod.waits and pod.node in self._nodes.usable]
            missing: list[tuple[str, ReplicaPlace]] = []
            for key, place in replicas:
                same = min(
                    (pod for pod in there if pod.node == place.node),
                    key=lambda pod: abs(pod.cores - place.cores),
                    default=None,
                )
                if same is None:
                    missing.append((key, place))
                    continue
                there.remove(same)
                self._own[same.name] = stage, ReplicaPlace(place.node, same.cores)
                await self.resize_replica(same.name, place.cores)
                found[key] = same.name
            # Pods that pend are made anew: which node a pod prefers cannot be said once its gate is gone.
            await self._give_up(self._pending_of(stage), stage)
            waiting = [pod for pod in self._of(stage) if pod.waits]
            # Those that wait already are used before any is added. The scale is not lowered before the rest
            # has a node: the controller chooses what ends, and might choose a pod that gets a node here.
            await self._rescale(stage, max(0, len(missing) - len(waiting)))
            for key, place in missing:
                try:
                    found[key] = await self._take(stage, place)
                except KwikenError as error:
                    found[key] = error
            for pod in there:
                self._own[pod.name] = stage, ReplicaPlace(pod.node, pod.cores)
                await self.remove_replica(pod.name)
            # Of several pods those without a node end first.
            await self._rescale(stage, min(0, len(missing) - len(waiting)))
        return found

    async def status(self) -> dict[str, Any]:
        """Figures of the gateways as `runtime`; replicas are named by their pods.

        Raises:
            InputError: the gateways refuse, or do not answer.
        """
        figures = await self._gateway.status()
        first = {pod: name for name, pod in self._now.items()}
        names = {pod.address: first.get(pod.name, pod.name) for pod in self._pods.values() if pod.address}
        for stage in figures["stages"].values():
            for replica in stage["replicas"]:
                replica["id"] = names.get(replica["node"], replica["id"])
        return {"runtime": figures}

    async def add_replica(self, stage: str, place: ReplicaPlace) -> str:
        """Raise the scale of a stage by one, let the new pod onto its node, and wait until it is ready.

        Raises:
            KwikenError: the API refuses, there is no new pod, or it is not ready in time.
        """
        async with self._turns[stage]:
            await self._rescale(stage, 1)
            return await self._take(stage, place)

    async def remove_replica(self, name: str) -> None:
        """Mark a pod as the first to end, and lower the scale of its stage by one.

        Args:
            name: name of the pod; nothing happens if the upkeep does not count on it.
        """
        if name not in self._own:
            return
        stage, _ = self._own.pop(name)
        async with self._turns[stage]:  # a pod that is not ready yet would end in its place
            await self._give_up([name], stage)

    async def resize_replica(self, name: str, cores: float) -> None:
        """Change the size of a pod in place; nothing happens if the upkeep does not count on it.

        Args:
            cores: number of cores, above 0.

        Raises:
            KwikenError: the API refuses, or the kubelet has no room; the pod keeps the size that it has.
        """
        if name not in self._own or abs(self._own[name][1].cores - cores) <= SAME_CORES:
            return
        pod = self._now.get(name, name)
        await self._resize(pod, cores)
        async for _ in _looks(RESIZED_S):
            await self.look()
            found = self._pods.get(pod)
            if found is None or abs(found.cores - cores) <= SAME_CORES:
                break
            if found.pending:
                raise KubernetesError(f"pod {pod} has {found.cores:g} cores, not {cores:g}: {found.pending}")
        self._follow()

    def _follow(self) -> None:
        """Take note of nodes and sizes of pods: the scheduler chooses a node, and a kubelet resizes late."""
        for name, (stage, place) in self._own.items():
            pod = self._pods.get(self._now.get(name, name))
            if pod is None or pod.ends:
                continue
            if (pod.node or place.node) != place.node or abs(pod.cores - place.cores) > SAME_CORES:
                LOG.info("%s: pod %s has %g cores on %s now", stage, pod.name, pod.cores, pod.node)
                self._own[name] = stage, ReplicaPlace(pod.node or place.node, pod.cores)
        pending = [self._pods[name] for each in self._pending.values() for name in each if name in self._pods]
        if self._nodes.joined or any(pod.node for pod in pending):
            self.joined.set()

    async def pend(self, wanted: Mapping[str, Sequence[tuple[str, float]]]) -> None:
        """Let pods pend for which no node has room; those that are not wanted any more are given up.

        There are none where a node has the cores, and its neighbours' pressure forbids it: the scheduler of
        Kubernetes knows no pressure, and would let a pod onto it.

        Args:
            wanted: class of node and number of cores of each replica without room, by stage.

        Raises:
            KwikenError: the API refuses, or a Deployment makes no pod.
        """
        taken: dict[str, float] = {}
        for found in await self._api.all_pods() if any(wanted.values()) else ():
            node = found["spec"].get("nodeName", "")
            taken[node] = taken.get(node, 0.0) + taken_cores(found)
        for stage in self._components:
            new = [one for one in wanted.get(stage, ()) if not self._nodes.has_cores(*one, taken)]
            there = self._pending[stage]
            if sorted(new) == sorted(one for name, one in there.items() if name in self._pods):
                continue
            async with self._turns[stage]:
                there.clear()
                await self.look()
                await self._give_up(self._pending_of(stage), stage)
                await self._rescale(stage, len(new))
                for node_class, cores in new:
                    pod = await self._waiting(stage)
                    await self._open(pod, cores, placing(node_class))
                    there[pod.name] = node_class, cores
                    LOG.info("%s: pod %s pends for a node of class %s", stage, pod.name, node_class)

    def _pending_of(self, stage: str) -> list[str]:
        """Names of the pods that pend for a node of a class."""
        return [pod.name for pod in self._of(stage) if not pod.waits and not pod.node]

    async def drop_node(self, node: str) -> list[str]:
        """Give a node up: the scales are lowered by its pods; returns their names."""
        dropped = [name for name, (_, place) in self._own.items() if place.node == node]
        by_stage: dict[str, list[str]] = {}
        for name in dropped:
            by_stage.setdefault(self._own.pop(name)[0], []).append(name)
        for stage, names in by_stage.items():
            await self._give_up(names, stage)
        return dropped

    def note_action(self, line: str) -> None:
        """Nothing: the upkeep's log has every action, and Kubernetes shows what became of it."""

    def _of(self, stage: str) -> list[Pod]:
        component = self._components[stage]
        return [pod for pod in self._pods.values() if pod.component == component and not pod.ends]

    async def _rescale(self, stage: str, by: int) -> None:
        if by:
            deployment = f"{self._name}-{self._components[stage]}"
            await self._api.set_scale(deployment, max(0, await self._api.scale(deployment) + by))

    async def _resize(self, pod: str, cores: float) -> None:
        await self._api.resize_pod(pod, CONTAINER, {"cpu": f"{max(1, round(cores * 1000))}m"})

    async def _give_up(self, names: Sequence[str], stage: str) -> None:
        for name in names:
            with contextlib.suppress(KwikenError):  # it may be gone
                await self._api.patch_pod(self._now.pop(name, name), giving_up())
        await self._rescale(stage, -len(names))

    async def _take(self, stage: str, place: ReplicaPlace) -> str:
        """Let a waiting pod onto a node, and wait until it is ready; what is not is given up."""
        pod = await self._waiting(stage)
        self._own[pod.name] = stage, place
        try:
            await self._place(pod, place)
            await self._ready(pod.name)
            self._follow()
        except BaseException:
            self._own.pop(pod.name, None)
            with contextlib.suppress(KwikenError):
                await self._give_up([pod.name], stage)
            raise
        return pod.name

    async def _place(self, pod: Pod, place: ReplicaPlace) -> None:
        await self._open(pod, place.cores, placing(self._nodes.classes[place.node], place.node))

    async def _open(self, pod: Pod, cores: float, patch: dict[str, Any]) -> None:
        """Give a waiting pod its size, then open its gate: a kubelet takes none without room."""
        if abs(pod.cores - cores) > SAME_CORES:
            await self._resize(pod.name, cores)
        await self._api.patch_pod(pod.name, patch)

    async def _waiting(self, stage: str) -> Pod:
        async for _ in _looks(CREATED_S):
            await self.look()
            for pod in self._of(stage):
                if pod.waits:
                    return pod
        await self._rescale(stage, -1)
        raise KubernetesError(f"the Deployment of stage {stage!r} made no pod within {CREATED_S:g} s")

    async def _ready(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        fits_s = loop.time()  # when the scheduler had no objection last
        async for _ in _looks(READY_S):
            await self.look()
            pod = self._pods.get(name)
            if pod is None or pod.ends:
                raise KubernetesError(f"pod {name} has ended before it was ready")
            if pod.ready:
                return
            if not pod.unfit:
                fits_s = loop.time()
            elif loop.time() > fits_s + UNFIT_S:
                raise KubernetesError(f"pod {name} fits on no node of its class: {pod.unfit}")
        raise KubernetesError(f"pod {name} was not ready within {READY_S:g} s")

    async def _replace(self) -> None:
        """Let waiting pods that replace others onto their nodes; the upkeep knows them by the old names.

        There are two cases: 1. a pod has ended, as by an eviction, and its Deployment has made another one.
        2. The Deployment has another version, and makes the new pods before it ends the old ones.
        """
        for name, (stage, place) in list(self._own.items()):
            if self._turns[stage].locked() or place.node not in self._nodes.usable:
                continue  # a pod that waits is another one's, or the upkeep gives the node up
            waiting = next((one for one in self._of(stage) if one.waits), None)
            before = self._now.get(name, name)
            pod = self._pods.get(before)
            ended = pod is None or pod.ends
            if waiting is None or not (ended or (pod is not None and pod.version != waiting.version)):
                continue
            await self._place(waiting, place)
            self._now[name] = waiting.name
            if not ended:
                await self._api.patch_pod(before, giving_up())
            await self.look()  # it waits no longer
            LOG.info("%s: pod %s replaces %s on %s", stage, waiting.name, before, place.node)


async def _looks(within_s: float) -> AsyncIterator[None]:
    """Moments at which to look, until a time has passed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while loop.time() < until:
        yield
        await asyncio.sleep(STEP_S)
