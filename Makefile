# Every target sets up what it needs, on a machine with Python 3.11 and pip. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests start many short processes; where nothing compiled is kept, each compiles all that it imports
unexport PYTHONDONTWRITEBYTECODE

# Only used to create .venv: make setup PYTHON=python3.13
PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV_REQUIREMENT := uv>=0.9,<0.14
EXTRAS := authority,cli,dev

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
SCHEMATHESIS := .venv-schemathesis
SCHEMATHESIS_READY := $(SCHEMATHESIS)/.ready
FUZZ := .venv-fuzz
FUZZ_READY := $(FUZZ)/.ready

PYTEST_ARGS := -n 2 --dist worksteal
# What the fast suite measures, and so what makes its data old
MEASURED := $(shell find src tests examples vectors docs README.md -type f -not -path '*/__pycache__/*' 2>/dev/null)
BUILT := dist/.built

# Rooms that decide whether a call may act, or carry its facts: every branch of them is tested
GATED := _core gate rules_file drive calling sessions stores results rest wire preflight pipeline audit
comma := ,
empty :=
space := $(empty) $(empty)
GATED_FILES := $(subst $(space),$(comma),$(foreach room,$(GATED),src/preaction/$(room).py src/preaction/$(room)/*))

# ---------------------------------------------------------------- setting up

.PHONY: help
help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY)  ## create .venv with everything needed (again when pyproject.toml changed)

$(UV):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("preaction needs Python 3.11 or later: make setup PYTHON=…")'
	$(PYTHON) -m venv $(VENV) || $(PYTHON) -m venv --clear --without-pip $(VENV)
	if $(BIN)/python -m pip --version > /dev/null 2>&1; \
	then $(BIN)/python -m pip install --quiet '$(UV_REQUIREMENT)'; \
	else $(PYTHON) -m pip --python $(BIN)/python install --quiet '$(UV_REQUIREMENT)'; fi

$(READY): pyproject.toml | $(UV)
	$(UV) pip install --quiet --python $(BIN)/python -e '.[$(EXTRAS)]'
	@touch $@

$(DOCS_READY): pyproject.toml | $(READY)
	$(UV) pip install --quiet --python $(BIN)/python --group docs
	@touch $@

# Schemathesis needs an older jsonschema-rs than the authority does
$(SCHEMATHESIS_READY): Makefile | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(SCHEMATHESIS)
	$(UV) pip install --quiet --python $(SCHEMATHESIS)/bin/python 'schemathesis>=4.32,<5'
	@touch $@

# Atheris has wheels for few versions of Python
$(FUZZ_READY): pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(FUZZ)
	$(UV) pip install --quiet --python $(FUZZ)/bin/python -e . 'atheris>=3,<4'
	@touch $@

.PHONY: schemathesis
schemathesis: $(SCHEMATHESIS_READY)  ## the environment of tests/authority/test_schemathesis.py

# ---------------------------------------------------------------- every day

.PHONY: demo
demo: $(READY)  ## a help desk's agent: calls denied, then allowed
	$(BIN)/python examples/helpdesk/demo.py

.PHONY: test
test: $(READY)  ## the fast suite, measured
	@rm -f .coverage
	@$(MAKE) --no-print-directory .coverage

.coverage: $(READY) $(MEASURED)
	$(BIN)/pytest $(PYTEST_ARGS) --cov --cov-report=

.PHONY: check
check: lint types imports coverage  ## all that must hold besides the tests: lint, types, imports, coverage

.PHONY: lint
lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: format
format: $(READY)  ## let ruff repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: types
types: $(READY)  ## mypy: the package strictly, the tests where they are annotated
	$(BIN)/mypy
	$(BIN)/mypy --config-file .ci/mypy-tests.ini

.PHONY: imports
imports: $(READY)  ## who may import whom
	$(BIN)/lint-imports --no-logo

.PHONY: coverage
coverage: $(READY) .coverage  ## every branch of the gate's rooms; runs the tests only if the data is older than the code
	$(BIN)/coverage report --include='$(GATED_FILES)' --fail-under=100

.PHONY: bench
bench: $(READY)  ## what the gate costs, as ratios
	$(BIN)/python bench/run.py

.PHONY: bench-authority
bench-authority: $(READY)  ## what a served authority does in a second, as ratios to a bare endpoint
	$(BIN)/python bench/load.py

.PHONY: docs
docs: $(DOCS_READY)  ## build the site into site/, and try its links, and pages of it in Chromium
	$(BIN)/zensical build --clean --strict
	PREACTION_SITE=site $(BIN)/pytest -q tests/docs/test_site.py

.PHONY: schema
schema: $(READY)  ## write docs/gate.schema.json again, after a change of what a rules file may hold
	$(BIN)/python .ci/write-schema

.PHONY: api
api: $(READY)  ## write tests/public_api.txt again, after a change of what users may import
	$(BIN)/python tests/public_api.py

.PHONY: build
build:  ## build wheel and sdist into dist/, look at both, and list in dist/ what an installation brings (CycloneDX)
	@rm -rf dist
	@$(MAKE) --no-print-directory $(BUILT)

$(BUILT): pyproject.toml $(MEASURED) $(wildcard bench/* .ci/* *.md) | $(READY)
	rm -rf dist
	$(UV) build --quiet --out-dir dist
	$(UV) tool run --quiet --from 'twine>=7,<8' --with 'readme-renderer[md]' twine check --strict dist/*
	.ci/try-wheel $(UV) dist/*.whl
	$(BIN)/python .ci/write-sbom $(UV) dist/*.whl
	@touch $@

# ---------------------------------------------------------------- long

.PHONY: test-long
test-long: test-nightly test-lowest test-built  ## what takes longer: many more generated examples; what was built

.PHONY: test-nightly
test-nightly: $(READY) $(SCHEMATHESIS_READY)  ## property tests with many more examples, and tests marked `long`
	HYPOTHESIS_PROFILE=nightly $(BIN)/pytest $(PYTEST_ARGS) -m 'hypothesis or long'

# Seconds for each reader: make fuzz SECONDS_EACH=600
SECONDS_EACH ?= 60
.PHONY: fuzz
fuzz: $(FUZZ_READY)  ## coverage-guided fuzzing of what reads foreign bytes; what it finds is kept as crash-…
	for reader in strict results addresses; do mkdir -p $(FUZZ)/seen/$$reader; \
	$(FUZZ)/bin/python tests/fuzz.py $$reader -max_total_time=$(SECONDS_EACH) -max_len=20000 -print_final_stats=1 \
	$(FUZZ)/seen/$$reader vectors; done

.PHONY: test-built
test-built: $(BUILT)  ## the fast suite of the sdist, without src/, against the wheel; the newest dependencies
	.ci/test-built newest $(UV) dist $(PYTEST_ARGS)

.PHONY: test-lowest
test-lowest: $(BUILT)  ## the same with the oldest dependencies that pyproject.toml allows
	.ci/test-built lowest $(UV) dist $(PYTEST_ARGS)

# Some of them, or with options: make test-runtimes RUNTIMES='langchain --newest'
RUNTIMES ?=
.PHONY: test-runtimes
test-runtimes: $(READY)  ## the adapters, each in an environment with its own runtime, newest and oldest
	$(BIN)/python tests/adapters/run_runtimes.py $(RUNTIMES)

# A room of tests/mutation/rooms.toml, or functions: make mutation MUTATE='results preaction._core.call.*'
MUTATE ?=
.PHONY: mutation
mutation: $(READY)  ## change the code in one place at a time: a test must fail, or survivors.toml say why none does
	PYTHONHASHSEED=0 HYPOTHESIS_PROFILE=mutation $(BIN)/python tests/mutation/run.py $(foreach one,$(MUTATE),'$(one)')

.PHONY: clean
clean:  ## remove what was built, measured and cached; keep .venv and .venv-runtimes
	rm -rf dist site mutants crash-* $(FUZZ) .coverage .coverage.* .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache $(SCHEMATHESIS)
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
