# make run and make test set everything up by themselves the first time; the second call starts at once.
JOB ?= jobs/genomics.yaml
ARGS ?=
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
RAPIDS := .venv-rapids

.PHONY: run test lint types layers unit contract test-gpu schema clean

run: $(VENV)/.cpu
	@$(BIN)/python -m pipeline.run $(JOB) $(ARGS)

test: lint types layers unit

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not gpu and not contract"

# The RAPIDS packages in an environment of their own: every query must translate for cuDF, with no GPU.
contract: $(RAPIDS)/.gpu
	$(RAPIDS)/bin/python -m pytest -m contract --require-rapids tests/contract

# On a machine with a GPU, in an environment where '.[gpu,test]' is installed.
test-gpu:
	python -m pytest -m gpu --require-gpu tests/gpu

schema: $(VENV)/.cpu
	$(BIN)/python -m pipeline.run --schema > jobs/schema.json
	$(BIN)/python -c "from pipeline.job.describe import stage_reference; print(stage_reference(), end='')" > docs/stages.md

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed: install one, or name it: make run PYTHON=/path/to/python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cpu: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cpu]'
	$(BIN)/python -m compileall -q pipeline
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cpu,dev]'
	$(BIN)/python -m compileall -q pipeline
	@touch $@ $(VENV)/.cpu

$(RAPIDS)/.gpu: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed"; exit 2; }
	$(PYTHON) -m venv $(RAPIDS)
	$(RAPIDS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[gpu,test]'
	@touch $@

clean:
	rm -rf $(VENV) $(RAPIDS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
