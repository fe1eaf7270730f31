# Two commands do everything on a machine with python3 (3.11 or newer), make and a compiler:
#   make demo   writes, reads and compares one dataset in all four formats
#   make test   style, types, layers, tests
# make test-newest runs the half of the tests that is quick, and where other packages matter, on the
# newest Python that is installed, with the packages that are newest there.
# make test-pure runs a part of the tests without the compiled modules.
# make dist builds the source distribution and wheels into dist/, and tries to install them.
# make soak runs for hours what must never go wrong: all cases of which make test takes samples.
# make docs builds the documentation site into site/; python3 -m http.server -d site shows it.
# make man writes manual pages of the commands into build/man, or into the folder of MAN=.
# make bench (make bench QUICK=1: under three minutes) compares with other Zarr libraries.
PYTHON ?= python3
VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
SOURCES := pyproject.toml setup.py $(wildcard $(addprefix src/,$(addsuffix /*.[ch], \
	kernel kernel/* files strings json blocks include)))
SUM := $(shell cat $(SOURCES) | cksum | cut -d" " -f1)
STAMP := $(VENV)/.installed-$(SUM)
LIGHT := $(VENV)/.package-$(SUM)

.PHONY: demo test test-newest test-pure dist lint types layers bytecode tests servers sanitize format bench soak docs changelog clean man

demo: $(LIGHT)
	$(BIN)/python examples/demo.py demo-data

test: lint types layers tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# Writes the bytecode of the package, and, by collecting them, of the tests. Where
# PYTHONDONTWRITEBYTECODE is set, each worker of `tests`, and each Python that a test starts, would
# compile them again; .ci/run does it once. Errors of collecting are reported by `tests`.
bytecode: $(STAMP)
	$(BIN)/python -m compileall -q src/omnizarr
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -qq --collect-only > /dev/null || true

# The package's bytecode first, also where nobody else may write it: tests start many Pythons.
tests: $(STAMP) servers
	$(BIN)/python -m compileall -q src/omnizarr
	$(BIN)/pytest -q -n auto --dist worksteal

# Azurite stands for Azure in the tests; they skip what needs it where it cannot be installed.
# Every environment uses the one copy.
SERVERS := .servers

servers:
	@test -x $(SERVERS)/node_modules/.bin/azurite-blob || ! command -v npm >/dev/null || \
		npm install --silent --no-audit --no-fund --prefix $(SERVERS) azurite || true

# The compiled parts under gcc's sanitizers: their tests and a minute of fuzzing.
sanitize: $(STAMP)
	.ci/sanitize $(BIN)/python

# For a part of it: make soak SOAK=tests/crash
soak: $(STAMP)
	OMNIZARR_ALL_CASES=1 $(BIN)/pytest -q -n auto --dist worksteal --hypothesis-profile=thorough $(SOAK)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The demo needs the package alone, as a user installs it.
$(LIGHT): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	rm -f $(VENV)/.package-*
	touch $@

# Tests need their packages, and a build of the compiled modules in which warnings are errors and
# nothing is left out. uv installs the hundred packages in a quarter of pip's time.
STRICT := OMNIZARR_STRICT_BUILD=1
uv = $(1)/python -m pip install --quiet uv && \
	$(2) $(1)/uv pip install --quiet --compile-bytecode --python $(1)/python

$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call uv,$(BIN),$(STRICT)) --editable . --group test
	rm -f $(VENV)/.package-* $(VENV)/.installed-*
	touch $(LIGHT) $@

NEWEST_PYTHON = $(firstword $(foreach v,3.14 3.13 3.12 3.11, \
	$(wildcard $(HOME)/.pyenv/versions/$(v).*/bin/python3) \
	$(shell sh -c 'command -v python$(v)')) $(PYTHON))
NEWEST := .venv-newest
NEWEST_STAMP := $(NEWEST)/$(notdir $(STAMP))
QUICK_HALF := $(addprefix tests/,interop viewer compatibility hierarchy codecs data_types bulk conventions cli golden test_aio.py \
	$(addprefix peers/test_,zarr_python.py tensorstore.py ome.py))

test-newest: $(NEWEST_STAMP) servers
	$(NEWEST)/$(SCRIPTS)/pytest -q -n auto --dist worksteal $(QUICK_HALF)

test-pure: $(STAMP)
	$(BIN)/python -m tests.pure

dist:
	$(PYTHON) -m tests.dist

$(NEWEST_STAMP): $(SOURCES)
	test -x $(NEWEST)/$(SCRIPTS)/python || $(NEWEST_PYTHON) -m venv $(NEWEST)
	$(call uv,$(NEWEST)/$(SCRIPTS),$(STRICT)) --editable . --group test
	rm -f $(NEWEST)/.installed-*
	touch $@

# The peers are newest on the newest Python, so the benchmark has an environment of its own. Their
# modules are compiled when they are installed, and ours here, or imports would not compare.
BENCH := .venv-bench
BENCH_STAMP := $(BENCH)/$(notdir $(STAMP))

bench: $(BENCH_STAMP)
	$(BENCH)/$(SCRIPTS)/python -m compileall -q src/omnizarr
	$(BENCH)/$(SCRIPTS)/python -m benchmarks $(if $(QUICK),--quick)

$(BENCH_STAMP): $(SOURCES)
	test -x $(BENCH)/$(SCRIPTS)/python || $(NEWEST_PYTHON) -m venv $(BENCH)
	$(call uv,$(BENCH)/$(SCRIPTS)) --editable . --group bench
	rm -f $(BENCH)/.installed-*
	touch $@

MAN ?= build/man

man: $(STAMP)
	$(BIN)/python -m tests.cli.man $(MAN)

# The reference is read from the sources, so the package need not be built or installed.
DOCS := .venv-docs
DOCS_STAMP := $(DOCS)/.installed-$(shell cksum < pyproject.toml | cut -d" " -f1)

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/$(SCRIPTS)/mkdocs build --strict --quiet
	$(DOCS)/$(SCRIPTS)/python docs/theme/check_site.py site

$(DOCS_STAMP): pyproject.toml
	test -x $(DOCS)/$(SCRIPTS)/python || $(PYTHON) -m venv $(DOCS)
	$(call uv,$(DOCS)/$(SCRIPTS)) --group docs
	rm -f $(DOCS)/.installed-*
	touch $@

# The fragments of changes/ into CHANGELOG.md; with VERSION=0.2.0 also a release of that name.
changelog:
	$(PYTHON) changes/merge.py $(VERSION)

clean:
	rm -rf dist $(VENV) $(NEWEST) $(BENCH) $(DOCS) $(SERVERS) build site demo-data .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
