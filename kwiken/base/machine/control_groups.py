"""Control groups of this process, versions 1 and 2: the folders that may hold limits of a resource."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def group_folders(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    """Folders of this process's control groups and of their parents, and the version of each.

    Inside a container the path in /proc/self/cgroup may be the host's, and the container's own group is
    mounted as the root: the root is tried too.

    Args:
        controller: name of the controller in version 1: `cpu`, `memory`.
    """
    mount = root / "sys/fs/cgroup"
    yield mount, 2
    yield mount / controller, 1
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            here, version = mount, 2
        elif controller in controllers.split(","):
            here, version = mount / controller, 1
        else:
            continue
        for part in Path(group).parts[1:]:
            here /= part
            yield here, version
