# Everything a fresh clone needs, from nothing but Python 3.11 and git. `make help` lists the commands.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Tools are found in the environment, activated or not, and call nobody.
export PATH := $(abspath $(BIN)):$(PATH)
export DO_NOT_TRACK := 1
export DVC_NO_ANALYTICS := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help env repro preset sweep test soak lint format bench ui screenshots clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(READY)  ## set the environment up (once; about 4 minutes and 6 GB)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "outclass needs Python 3.11 or later; try: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what pyproject.toml asks for, at the versions of constraints.txt ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,ray]' > $(VENV)/install.log 2>&1 \
		|| { cat $(VENV)/install.log; echo "installation failed; the above is $(VENV)/install.log"; exit 1; }
	@touch $@

repro: env  ## run the pipeline on params.yaml, up to report/index.html
	@python -m flows.pipeline

preset: env  ## NAME=...: put presets/NAME.yaml in place of params.yaml, and say what changes
	@python -m stages.preset "$(NAME)"

sweep: env  ## GRID=...: every combination of a grid of parameters, e.g. GRID=sweeps/theta.yaml, compared
	@python -m flows.sweep "$(GRID)"

test: env lint  ## lint, types, and the whole test suite
	@python -m pytest -n 2 --dist worksteal

soak: env  ## kill runs at random moments (TRIES=20) and see that they go on where they stopped
	@SOAK_TRIES=$(or $(TRIES),20) python -m pytest -v -n 2 --dist worksteal tests/flows/test_soak.py

lint: env  ## ruff and mypy
	@ruff check .
	@ruff format --check .
	@mypy

format: env  ## let ruff mend what it can
	@ruff check --fix .
	@ruff format .

bench: env  ## how fast the parts are, beside what one would otherwise write
	@python benchmarks/method.py
	@python benchmarks/loader.py
	@python benchmarks/extraction.py
	@python benchmarks/cost.py
	@python benchmarks/baselines.py
	@python benchmarks/knfst.py
	@python -m benchmarks.orchestration

ui: env  ## Prefect UI with the project's runs, and the pipeline ready to start or schedule
	@python -m flows.ui

screenshots: env  ## drive the UI in Chromium and take the pictures of docs/scheduling.md (needs Playwright)
	@python -m docs.screenshots

clean:  ## remove what the pipeline wrote and all finished chunks (DVC's cache and the environment stay)
	rm -rf data splits features runs .outclass
	find report -mindepth 1 ! -name metrics.json -delete 2> /dev/null || true
