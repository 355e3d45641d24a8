"""Image of a user's code: a Dockerfile with pinned dependencies, and what is sent to its builder. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.export.deployments.deployment import GATEWAY_PORT, STAGE_PORT

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
    """

    python: str
    requirements: str
    wheels: str | None
    code: Sequence[str]


def dockerfile(content: ImageContent) -> str:
    """Dockerfile of an image that runs every process of a service, as an ordinary user."""
    base = f"python:{content.python}-slim"
    install = "RUN pip --python=/venv/bin/python install --no-cache-dir"
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
        lines += [
            f"COPY {_words(content.wheels, '/build/wheels')}",
            f"{install} --find-links=/build/wheels --requirement=/build/requirements.txt",
        ]
    else:
        lines.append(f"{install} --requirement=/build/requirements.txt")
    lines += [
        "",
        f"FROM {base}",
        "RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin kwiken",
        "COPY --from=build /venv /venv",
        "WORKDIR /app",
        "ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1",
        *(f"COPY {_words(path, f'/app/{path}')}" for path in content.code),
        "USER 10001",
        f"EXPOSE {GATEWAY_PORT} {STAGE_PORT}",
        'ENTRYPOINT ["kwiken"]',
        'CMD ["--help"]',
    ]
    return "\n".join(lines) + "\n"


def dockerignore(content: ImageContent) -> str:
    """Ignore file beside a Dockerfile: only what the image copies is sent to the builder, and no secrets."""
    installed = [content.requirements, *([content.wheels] if content.wheels is not None else [])]
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
