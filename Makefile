# `make demo` and `make test` install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it is first imported: of most installed modules, nothing is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Without bytecode, every process that a test starts compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo ask-demo test test-all test-oldest test-docs test-ci fuzz lint docs docs-check bench gpu reproduce package clean

help:
	@echo "make demo       install, then train, tune and evaluate a ranker; writes demo-output/"
	@echo "make ask-demo   install, then open a page that asks which of two patterns is better"
	@echo "make test       install, then run all tests but the slowest"
	@echo "make test-all   the slowest tests as well"
	@echo "make test-oldest  run them on the oldest versions of all dependencies"
	@echo "make test-docs  the slow tests that CI runs: examples, pages of the guide, browser, kills"
	@echo "make fuzz       read hostile inputs for a minute, or for SECONDS=3600; counts them"
	@echo "make lint       ruff, mypy and the import order"
	@echo "make docs       build the site with its gallery to docs/_build/html, and check its links"
	@echo "make docs-check read all pages and resolve their links, without running the gallery"
	@echo "make bench      measure every claim about speed; writes docs/benchmarks.md"
	@echo "make gpu        on a machine with a GPU: compare every ranker with NumPy, then measure the claims"
	@echo "make reproduce  write the papers' tables to docs/results.md (needs RANKWISE_DATA)"
	@echo "make package    build a wheel and an sdist in dist/, and try them in new environments"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[plots]'
	@touch $@

$(VENV)/.ask: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[ask]'
	@touch $@

# Loops are compiled while the packages of the tests are installed: otherwise, every process that
# runs tests would compile them.
define install_and_compile
	$(PIP) -e .
	$(BIN)/rankwise compile >/dev/null 2>&1 & $(PIP) -e '.[$(1)]' && wait
endef

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(call install_and_compile,test)
	@touch $@ $(VENV)/.demo $(VENV)/.ask

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(call install_and_compile,dev)
	@touch $@ $(VENV)/.test $(VENV)/.demo $(VENV)/.ask $(VENV)/.docs

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.reproduce: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[reproduce]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/rankwise demo --out demo-output --force

ask-demo: $(VENV)/.ask
	$(BIN)/rankwise ask --demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal

# test and test-docs in one session.
test-ci: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow or ci"

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow or not slow"

# In an environment of its own. Old versions of some packages use what newer versions of others deprecate.
OLDEST := .venv-oldest
test-oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/package/check.py --pins >$(OLDEST)/pins.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/pins.txt -e '.[test]'
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal -W default::DeprecationWarning

test-docs: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and ci"

fuzz: $(VENV)/.dev
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) $(FUZZ)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

SITE := docs/_build/html
SPHINX := $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet

docs: $(VENV)/.docs
	$(SPHINX) --jobs 2 docs $(SITE)
	$(BIN)/python docs/site_parts/check_links.py $(SITE)

docs-check: $(VENV)/.docs
	$(SPHINX) --define plot_gallery=0 --builder dummy docs docs/_build/check

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

gpu: $(VENV)/.bench
	$(PIP) -e '.[gpu]'
	$(BIN)/python -m tests.conformance cuda
	$(BIN)/python -m benchmarks gpu

reproduce: $(VENV)/.reproduce
	$(BIN)/python -m reproduce

package: | $(BIN)/python
	$(PIP) build
	$(BIN)/python tests/package/check.py

clean:
	rm -rf $(VENV) $(OLDEST) demo-output build dist docs/_build docs/auto_examples docs/api/examples docs/api/generated docs/commands.md docs/repository docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis
