"""Image of a user's code: a Dockerfile with pinned dependencies, and what is sent to its builder. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.export.deployments.deployment import GATEWAY_PORT, STAGE_PORT
from kwiken.export.deployments.load import LOCUST

# Names of files and folders that never go into an image: hidden ones, such as .env and .git, and keys.
NEVER_SENT: Final = (
    ".*",
    "*.key",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.keystore",
    "*.token",
    "id_rsa",
    "id_ed25519",
)


@dataclass(frozen=True, kw_only=True)
class ImageContent:
    """Content of an image. Paths are relative to the folder that is sent to the builder.

    Attributes:
        python: version of Python, as `3.12`.
        requirements: file with the pinned dependencies.
        wheels: folder with wheels that no package index has; None for none.
        code: files and folders of the user's code.
        load: file with the pinned dependencies of Locust, for an image of its own; None for none.
    """

    python: str
    requirements: str
    wheels: str | None
    code: Sequence[str]
    load: str | None = None


def dockerfile(content: ImageContent) -> str:
    """Dockerfile of an image that runs every process of a service; its target `locust` is Locust's own."""
    base = f"python:{content.python}-slim"
    install = "RUN pip --python=/venv/bin/python install --no-cache-dir"
    if content.wheels is not None:
        install += " --find-links=/build/wheels"
    user = "RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin kwiken"
    environment = "ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1"
    lines = [
        "# One image for every process: `kwiken serve` is a gateway, `kwiken stage` one replica.",
        "",
        f"FROM {base} AS build",
        "ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore",
        "RUN python -m venv --without-pip /venv",
        "# The pinned dependencies first: they change less often than the code.",
        f"COPY {_words(content.requirements, '/build/requirements.txt')}",
    ]
    if content.wheels is not None:
        lines.append(f"COPY {_words(content.wheels, '/build/wheels')}")
    lines.append(f"{install} --requirement=/build/requirements.txt")
    if content.load is not None:
        lines += [
            "",
            "# Locust has an image of its own: services do without its packages.",
            f"FROM build AS build-{LOCUST}",
            f"COPY {_words(content.load, '/build/load.txt')}",
            f"{install} --requirement=/build/load.txt",
            "",
            f"FROM {base} AS {LOCUST}",
            user,
            f"COPY --from=build-{LOCUST} /venv /venv",
            environment,
            "USER 10001",
            f'ENTRYPOINT ["{LOCUST}"]',
        ]
    lines += [
        "",
        f"FROM {base}",
        user,
        "COPY --from=build /venv /venv",
        "WORKDIR /app",
        environment,
        *(f"COPY {_words(path, f'/app/{path}')}" for path in content.code),
        "USER 10001",
        f"EXPOSE {GATEWAY_PORT} {STAGE_PORT}",
        'ENTRYPOINT ["kwiken"]',
        'CMD ["--help"]',
    ]
    return "\n".join(lines) + "\n"


def dockerignore(content: ImageContent) -> str:
    """Ignore file beside a Dockerfile: only what the image copies is sent to the builder, and no secrets."""
    wanted = (content.requirements, content.load, content.wheels)
    installed = [path for path in wanted if path is not None]
    lines = [
        "*",
        *(f"!{path}" for path in content.code),
        "**/__pycache__",
        *(f"**/{name}" for name in NEVER_SENT),
        *(f"!{path}" for path in installed),  # last, as they may lie in a hidden folder
    ]
    return "".join(f"{line}\n" for line in lines)


def _words(*paths: str) -> str:
    """Paths as Docker reads them with blanks in their names."""
    return json.dumps(list(paths)) if any(" " in path for path in paths) else " ".join(paths)
