# One image for every process of a service: `kwiken serve` is its gateway, `kwiken stage` one replica.

FROM python:3.12-slim AS build
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN pip install --no-cache-dir --root-user-action=ignore uv
WORKDIR /build
# The locked dependencies first: they change less often than the code. Of the extras only `otel`, which sends the
# spans: what plans, reports and loads runs elsewhere, and is five times as large.
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --frozen --no-dev --extra otel --no-install-project --no-cache --python /usr/local/bin/python3
COPY kwiken kwiken
RUN uv sync --frozen --no-dev --extra otel --no-editable --no-cache --python /usr/local/bin/python3

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin kwiken
COPY --from=build /build/.venv /build/.venv
WORKDIR /app
ENV PATH=/build/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 KWIKEN_CACHE=/app/cache
# The search service's index, so that no replica has to build it.
RUN python -m kwiken.services.search build && chmod -R a+rX cache
USER 10001
EXPOSE 8080 9000
ENTRYPOINT ["kwiken"]
CMD ["--help"]
