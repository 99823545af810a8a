# Every target sets up what it needs by itself the first time; the second call starts at once.
JOB ?= jobs/genomics.yaml
ARGS ?=
PYTHON ?= $(shell for p in python3.12 python3.13 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# Extras that shipped jobs take beside .[cpu]: libraries that few want.
EXTRAS_align := align
EXTRAS_images := images neural
RAPIDS := .venv-rapids
AUDIT := .venv-audit
SHIPPED := .venv-shipped
PIP_AUDIT := $(AUDIT)/bin/pip-audit --disable-pip --no-deps --progress-spinner off
INSTALL := -m pip install --quiet --disable-pip-version-check
# Of what tests alone take, most modules are never imported: each is compiled when it first is, and kept. Where bytecode may not
# be written, as many containers have it, each of the thousand processes that tests start would compile all it imports once more.
LAZILY := --no-compile
export PYTHONDONTWRITEBYTECODE :=
# Each process takes a stretch of the suite, and an idle one takes from the other's end: a module's fixtures are made once or twice.
SPREAD := --numprocesses logical --maxprocesses 8 --dist worksteal
# Reading the tests of GPUs and of the contract takes seconds, and none of them runs here.
PYTEST = $(BIN)/python -m pytest $(SPREAD) --ignore=tests/gpu --ignore=tests/contract

.DEFAULT_GOAL := help
.PHONY: help setup run quick test lint types layers unit soak contract contract-soak test-gpu schema ptx wheel audit clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.dev $(RAPIDS)/.gpu  ## both environments, side by side with --jobs 2

run: $(VENV)/.cpu $(addprefix $(VENV)/.with-,$(EXTRAS_$(basename $(notdir $(JOB)))))  ## run a job: make run JOB=jobs/loans.yaml ARGS="--set seed=2"
	@$(BIN)/python -m pipeline.run $(JOB) $(ARGS)

quick: schema lint types layers  ## while you work: all checks, and the tests that start no processes and are not long
	$(PYTEST) -m "not gpu and not contract and not process and not long and not soak"

test: lint types layers unit  ## before you hand in: all checks and tests of this machine

lint: $(VENV)/.dev  ## formatting and ruff
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev  ## mypy
	$(BIN)/mypy

layers: $(VENV)/.dev  ## who may import whom
	$(BIN)/lint-imports

unit: $(VENV)/.dev  ## all tests but those of GPUs and of the contract
	$(PYTEST) -m "not gpu and not contract and not soak"

soak: $(VENV)/.dev  ## before a release: more of what the other tests show once, some minutes
	$(PYTEST) -m "soak and not gpu and not contract"

contract: $(RAPIDS)/.gpu  ## every query translates for cuDF, in an environment with RAPIDS; no GPU needed
	$(RAPIDS)/bin/python -m pytest $(SPREAD) -m "contract and not soak" --require-rapids tests/contract

contract-soak: $(RAPIDS)/.gpu  ## before a release: all shipped jobs over UCX between two hosts, some minutes; no GPU needed
	$(RAPIDS)/bin/python -m pytest -m "contract and soak" --require-rapids tests/contract

test-gpu:  ## on a machine with a GPU, where '.[gpu,test]' is installed: every stage against the CPU
	python -m pytest -m gpu --require-gpu tests/gpu

schema: $(VENV)/.dev  ## write jobs/schema.json and docs/stages.md anew from the code
	@$(BIN)/python -m pipeline.run --schema > $(VENV)/schema.json
	@$(BIN)/python -c "from pipeline.job.describe import stage_reference; print(stage_reference(), end='')" > $(VENV)/stages.md
	@cmp -s $(VENV)/schema.json jobs/schema.json || { cp $(VENV)/schema.json jobs/schema.json; echo "jobs/schema.json was rewritten: commit it"; }
	@cmp -s $(VENV)/stages.md docs/stages.md || { cp $(VENV)/stages.md docs/stages.md; echo "docs/stages.md was rewritten: commit it"; }

ptx: $(RAPIDS)/.gpu  ## compile the CUDA kernels whose source has changed; no GPU needed
	@$(RAPIDS)/bin/python -m pipeline.testing.device

wheel: $(AUDIT)/.done  ## the wheel in dist/, and beside it what it was installed with (CycloneDX): dist/sbom.cdx.json
	rm -rf dist $(SHIPPED)
	$(AUDIT)/bin/python -m build --wheel --outdir dist .
	$(PYTHON) -m venv $(SHIPPED)
	$(SHIPPED)/bin/python $(INSTALL) "$$(ls dist/*.whl)[cpu]"
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-file dist/sbom.cdx.json $(SHIPPED)/bin/python
	rm -rf $(SHIPPED)

audit: $(AUDIT)/.done $(VENV)/.cpu  ## whether anything installed here has a hole that is known (pip-audit); says where it cannot ask
	@echo pip==25.0 > $(AUDIT)/known.txt  # it has holes that are known: a service that names none of them has no advisories
	@if $(PIP_AUDIT) --format json -r $(AUDIT)/known.txt 2>/dev/null | grep -q '"vulns": \[{'; then \
		$(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable > $(AUDIT)/audited.txt && \
		$(PIP_AUDIT) --strict -r $(AUDIT)/audited.txt; \
	else echo "the index that pip-audit asks does not answer with advisories: NOTHING was audited"; fi

clean:  ## remove the environments and what tools keep
	rm -rf $(VENV) $(RAPIDS) $(AUDIT) $(SHIPPED) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed: install one, or name it: make run PYTHON=/path/to/python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cpu: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) -e '.[cpu]'
	$(BIN)/python -m compileall -q pipeline
	@touch $@

$(VENV)/.with-%: pyproject.toml | $(VENV)/.cpu
	$(BIN)/python $(INSTALL) -e '.[$*]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) $(LAZILY) -e '.[cpu,dev]'
	@$(BIN)/python $(INSTALL) -e '.[align]' || echo "mappy was not built (it wants a C compiler and zlib): tests of alignment are skipped"
	$(BIN)/python -m compileall -q pipeline
	@touch $@ $(VENV)/.cpu

# Tools that look at what is shipped stand apart, so that they are no part of it.
$(AUDIT)/.done: Makefile
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed"; exit 2; }
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python $(INSTALL) 'build==1.6.*' 'cyclonedx-bom==7.5.*' 'pip-audit==2.10.*'
	@touch $@

$(RAPIDS)/.gpu: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed"; exit 2; }
	$(PYTHON) -m venv $(RAPIDS)
	$(RAPIDS)/bin/python $(INSTALL) $(LAZILY) -e '.[gpu,test]'
	@touch $@
