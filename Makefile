# `make` prints the targets. Everything happens in .venv; nothing else on the machine is touched.

PYTHON ?= python3
BIN := .venv/bin
# Two at a time: the tests are many small ones, and a machine has at least two cores.
PYTEST := $(BIN)/python -m pytest -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test chromium test-soak test-gpu check lint format bench docs clean

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/ready ## train FedAvg on real MNIST to 97%, write the curve and a report (minutes)
	$(BIN)/stayput run examples/demo.toml

test: .venv/ready-for-tests chromium ## install what the tests need, then run all of them
	$(PYTEST) -m "not soak"

test-soak: .venv/ready-for-tests ## the longest tests: hundreds of kills, thousands of clients (an hour)
	$(BIN)/python -m pytest -m soak

test-gpu: ## the engines' tests on CUDA, with the Python that has torch and pytest there (PYTHON=...)
	STAYPUT_TEST_DEVICE=cuda PYTHONPATH=src $(PYTHON) -m pytest -q -p no:randomly tests/contracts tests/unit/engines

chromium: ## the browser that tests of pages drive; installed where it is missing and apt-get may
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && apt-get install -y -qq chromium chromium-driver > /dev/null; } \
		|| { echo "The tests need Debian's chromium: apt-get install chromium chromium-driver (as root)"; exit 1; }

check: .venv/ready-for-tests format lint ## format, lint, check types and imports, run the fast tests (under a minute)
	$(PYTEST) -q -m "not slow and not network and not soak"

lint: .venv/ready-for-tests ## lint, check types and imports, change nothing
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready-for-tests ## format the code
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

.PHONY: fuzz
FUZZ_SECONDS ?= 30
FUZZ_TARGETS := message json_object tensor_file tensor_header update manifest headers token
fuzz: .venv/ready-for-tests ## fuzz every parser of the deployment, FUZZ_SECONDS each (30); what is found is kept in .fuzz
	@set -e; for target in $(FUZZ_TARGETS); do echo "$$target"; \
		$(BIN)/python tests/fuzz/fuzz.py $$target $(FUZZ_SECONDS) .fuzz 2>&1 | tail -n 5; done

bench: .venv/ready-for-tests ## measure the engines against plain loops on this machine
	$(BIN)/python benchmarks/seconds_per_round.py

docs: .venv/ready-for-tests ## build the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## remove .venv and what tools left behind (runs/ stays)
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "stayput needs Python 3.11 or later; say which with: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$@ -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

.venv/ready: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

.venv/ready-for-tests: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[data,postgres,ray,track]' --group test --group lint --group docs
	@touch $@ .venv/ready
