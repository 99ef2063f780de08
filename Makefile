# make run    the service on a free port, one real model planned, and where to look at it
# make test   everything the tests need, then all tests
# make test-long  what takes long: exhaustive counts, all cases that rotate, all examples of
#                 properties, all on PostgreSQL
# make lint   ruff, mypy, import-linter, and deptry
# make test-mindspore  what is exported, compiled by MindSpore itself (2.8 GB, an environment of its own)
# make test-frameworks  what is exported, read by Megatron-Core, torchtitan, Accelerate and DeepSpeed (70 MB)
# make test-gpu  the runtime, the agent and memory on a CUDA device
# make image-check  the image built without Docker and run with a read-only root: root, buildah, debootstrap
# make audit  known vulnerabilities of every pinned package; fails too where one could not be asked for
# make bench  the measurements of docs/
# make screenshots  the picture of the README, of a real plan in Chromium
# make docs  the documentation as a site in build/docs; warnings are errors
# make schema the JSON Schemas in docs/schema, docs/reference/operators.md and docs/reference/command-line.md
# make clean  remove what make made

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: run test test-long test-mindspore test-frameworks test-gpu image-check lint audit bench docs schema screenshots clean system-packages

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
MINDSPORE := .venv-mindspore
FRAMEWORKS := .venv-frameworks
AUDIT := .venv-audit
PROJECTS := pyproject.toml clients/pyproject.toml hatch_build.py constraints.txt

run: $(VENV)/.run
	@$(PY) -m meshwright_service.cli.demo

# three processes on two cores: the tests wait for pages and leases a third of their time
test: $(VENV)/.test system-packages
	@$(PY) -m pytest -n 3 --dist worksteal --cache-clear || { [ $$? = 1 ] && $(PY) -m tests.alone; }

# exhaustive counts, cases outside of the day's fifth, all examples of properties, the service on
# PostgreSQL: before a release
test-long: $(VENV)/.test system-packages
	$(PY) -m pytest -n 3 --dist worksteal -m long

test-mindspore: $(VENV)/.test $(MINDSPORE)/.installed
	MESHWRIGHT_MINDSPORE=$(abspath $(MINDSPORE))/bin/python $(PY) -m pytest -n 2 tests/mindspore

test-frameworks: $(VENV)/.test $(FRAMEWORKS)/.installed
	MESHWRIGHT_FRAMEWORKS=$(abspath $(FRAMEWORKS)) $(PY) -m pytest -n 2 tests/frameworks

# skipped where PyTorch finds no GPU. MESHWRIGHT_GPU_PLANS is a folder of plans, for a machine
# without the planner
test-gpu: $(VENV)/.test
	$(PY) -m pytest -rs tests/gpu

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(PY) -m deptry service solver costmodel
	cd clients && ../$(PY) -m deptry .
	$(PY) -m mypy clients/meshwright service/meshwright_service solver/meshwright_solver costmodel/meshwright_costmodel
	$(PY) -m mypy --python-version 3.10 --no-warn-return-any --no-warn-unused-ignores clients/meshwright

image-check:
	deploy/image/check.sh

# --strict: a package that the index does not know is a failure, not a line of the report
audit: | $(AUDIT)
	@for file in constraints.txt constraints-mindspore.txt; do echo "== $$file"; \
		$(AUDIT)/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement $$file; done

$(AUDIT):
	$(PYTHON) -m venv $@
	$@/bin/python -m pip --disable-pip-version-check install --quiet pip-audit

bench: $(VENV)/.test
	@for file in $$(grep -l __main__ bench/*.py); do \
		echo "== $$file"; $(PY) -m bench.$$(basename "$$file" .py); done

docs: $(VENV)/.docs
	@$(PY) -m sphinx --fail-on-warning --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

schema: $(VENV)/.test
	$(PY) docs/schema/generate.py
	$(PY) docs/generate_operators.py
	$(PY) docs/generate_command_line.py

screenshots: $(VENV)/.test system-packages
	$(PY) -m docs.screenshots

clean:
	rm -rf $(VENV) $(MINDSPORE) $(FRAMEWORKS) $(AUDIT) .meshwright .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit("Meshwright needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(PROJECTS) | $(PY)
	@echo "Installing Meshwright into $(VENV); once, and again when its dependencies change"
	@$(PIP) --editable ./clients --editable .
	@touch $@

$(VENV)/.docs: $(PROJECTS) | $(PY)
	@echo "Installing what the site needs into $(VENV)"
	@$(PIP) --editable ./clients --editable '.[docs]'
	@touch $(VENV)/.run $@

# torch first and alone: the version is exact, and nothing else may choose another one
$(VENV)/.test: $(PROJECTS) | $(PY)
	@echo "Installing what the tests need into $(VENV)"
	@$(PIP) torch==2.13.0
	@$(PIP) --editable './clients[capture,onnx]' --editable '.[test]'
	@touch $(VENV)/.run $@

# the last release whose own search and file of strategies are known here
$(MINDSPORE)/.installed: clients/pyproject.toml constraints-mindspore.txt
	@echo "Installing MindSpore into $(MINDSPORE): 2.8 GB, for Python 3.11"
	@$(PYTHON) -m venv $(MINDSPORE)
	@$(MINDSPORE)/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints-mindspore.txt mindspore --editable ./clients
	@touch $@

# packages alone, beside the PyTorch of the tests: their parsers need nothing else
$(FRAMEWORKS)/.installed: constraints-frameworks.txt | $(VENV)/.test
	@echo "Installing Megatron-Core, torchtitan, Accelerate and DeepSpeed into $(FRAMEWORKS): 70 MB"
	@rm -rf $(FRAMEWORKS) && mkdir $(FRAMEWORKS)
	@DS_BUILD_OPS=0 $(PY) -m pip --disable-pip-version-check install --quiet --no-deps \
		--no-build-isolation --target $(FRAMEWORKS) --requirement constraints-frameworks.txt
	@touch $@

# as root on Debian install what tests/apt.txt names; elsewhere say what is missing
system-packages:
	@missing=$$(sed 's/#.*//' tests/apt.txt | tr -s ' \t' '\n' | while read -r package; do \
		[ -z "$$package" ] || dpkg -s "$$package" >/dev/null 2>&1 || echo "$$package"; done); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; \
	else \
		echo "the tests need these Debian packages, which are missing:" $$missing >&2; exit 1; \
	fi
