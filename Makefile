# Everything installs into .venv, from nothing but Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiled modules are kept whatever the environment says: the tests start hundreds of processes, and compiling
# is two thirds of an import.
export PYTHONDONTWRITEBYTECODE :=
READY := $(VENV)/.ready

.PHONY: demo demo-place test test-slow test-stack soak mutants check bench papers docs pictures clean setup

setup: $(READY)

$(READY): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit("kwiken needs Python 3.11 or later; this is " + sys.version.split()[0] + ": make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/uv || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet uv; }
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --frozen --quiet
	@touch $@

demo: $(READY)
	@$(BIN)/kwiken demo --out demo-out

demo-place: $(READY)
	@$(BIN)/python -m benchmarks.command.demo_place --out demo-place-out

test: $(READY)
	@$(BIN)/pytest --numprocesses 3 --dist worksteal -m "not slow and not stack" --durations 20 --durations-min 1

# What takes long, and every property with many times as many examples. A file stays with one process: what its
# tests share takes minutes. Examples are fresh each time; EXAMPLES=1 draws those of seed 1.
EXAMPLES ?= $(shell date +%s)
test-slow: $(READY)
	@$(BIN)/pytest --numprocesses 2 --dist loadfile -m "(slow or hypothesis) and not stack" --hypothesis-profile thorough --hypothesis-seed $(EXAMPLES) --durations 20 --durations-min 1

# With programs that are not Python's: a browser, Prometheus, Jaeger, Docker. What is missing is skipped, and named.
# The site is looked at too, so its generator is installed.
test-stack: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --frozen --quiet --group stack --group docs
	@$(BIN)/pytest -m stack

# Load with random faults and the autopilot on, by default for half an hour over HTTP: SOAK_S=300 for five minutes,
# SOAK_TRANSPORT=grpc for gRPC, SOAK_SEED for other faults. What was done and measured is printed.
SOAK_S ?= 1800
SOAK_TRANSPORT ?= http
soak: $(READY)
	@SOAK_S=$(SOAK_S) $(BIN)/pytest -q -k $(SOAK_TRANSPORT) tests/runtime/faults/test_soak.py

# Do tests notice? COUNT small changes of the code, drawn by SEED, each against the fast tests of its room and those
# that import what is changed. ROOM=allocator/packing, or ROOM=storage for a wing; all rooms of kwiken/ by default.
# One line for each, then how many were caught. A survivor is a missing test, or an equivalent that a person marks.
# ONLY="3 7" tries these of the set again. LIMIT_S=150 bounds the processor time of each, instead of four times that
# of the tests without a mutant, which are then not run first.
SEED ?= 1
COUNT ?= 25
ROOM ?=
LIMIT_S ?= 0
mutants: $(READY)
	@nice -n 19 $(BIN)/python -m tests.support.project.mutants --seed $(SEED) --count $(COUNT) --room '$(ROOM)' --only $(ONLY) \
		--limit-s $(LIMIT_S)

check: $(READY)
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy

# Ray (250 MB), which a benchmark compares with, is in no other target's way; without it that comparison is skipped.
bench: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --frozen --quiet --group ray || echo "Ray cannot be installed here" >&2
	@$(BIN)/python -m benchmarks --out benchmarks/results

# Tables and figures of every published system beside the source's values, as JSON, and one table of verdicts: PAPER=quasar for one of them.
PAPER ?= $$($(BIN)/python -m papers --list --json | $(BIN)/python -c 'import json, sys; print(*json.load(sys.stdin))')
papers: $(READY)
	@mkdir -p papers/results
	@for name in $(PAPER); do $(BIN)/python -m papers $$name --json > papers/results/$$name.json || exit 1; done
	@$(BIN)/python -m papers --summary | tee papers/results/summary.md

# The site: open build/site/index.html. A warning, such as a link that leads nowhere, ends the build.
docs: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --frozen --quiet --group docs
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs/site docs build/site
	@echo build/site/index.html

# The pictures in the pages, with Chromium: the live page under load, and the report of the last `make demo`.
pictures: $(READY)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(BIN)/uv sync --frozen --quiet --group stack
	@$(BIN)/python docs/site/pictures.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis demo-out demo-place-out racks-live-out dist build
