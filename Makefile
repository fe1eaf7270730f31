# Two commands do everything on a machine with python3 (3.11 or newer), make and a compiler:
#   make demo   writes, reads and compares one dataset in all four formats
#   make test   style, types, layers, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml setup.py src/kernel/* | cksum | cut -d" " -f1)

.PHONY: demo test lint types layers tests format clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py demo-data

test: lint types layers tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP)
	$(BIN)/pytest -q -n auto --dist worksteal

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# pip before 25.1 cannot read dependency groups, so it is brought up to date first.
$(STAMP): pyproject.toml setup.py $(wildcard src/kernel/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group test
	rm -f $(VENV)/.installed-*
	touch $@

clean:
	rm -rf $(VENV) demo-data .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
