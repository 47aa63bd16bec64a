# Works in a fresh clone, with nothing but python3 (3.11 or newer), make and a package
# registry. Everything is installed into .venv, once, and again when a pyproject.toml
# changes or when the checkout has moved.
#
#   make demo                 train a classifier of digits
#   make test                 style, types, layers and the suite: what CI runs
#   make test-all             the same with every case, soaks and fuzz
#   make test ARGS="-k relu"  further arguments of pytest
#   make docs                 write docs/kernels.md anew
#   make peers                install what benchmarks/workloads.py --peers compares with
#   make clean                remove whatever these targets have made

PYTHON ?= python3
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
PYTEST := $(RUN) -m pytest --primitives
STAMP := $(VENV)/.installed
PIP := $(RUN) -m pip --quiet --disable-pip-version-check
ROOMS := $(patsubst %/pyproject.toml,%,$(wildcard \
	core/pyproject.toml plugins/*/pyproject.toml tests/conformance/pyproject.toml \
	examples/gradient_packs/pyproject.toml))

# The stamp says where it was made: the scripts of a moved .venv run the old checkout.
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell cat $(STAMP)),$(CURDIR))
$(STAMP): moved
endif
endif

.PHONY: demo test test-all check clean docs moved peers
.DELETE_ON_ERROR:

test: check
	$(PYTEST) $(ARGS)

test-all: check
	$(PYTEST) --all $(ARGS)

check: $(STAMP)
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-logo

docs: $(STAMP)
	$(RUN) -m plugrad kernels --markdown > docs/kernels.md

demo: $(VENV)/.group-demo
	$(RUN) examples/digits.py

$(STAMP): pyproject.toml $(ROOMS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else \
		"plugrad needs Python 3.11 or newer; make PYTHON=python3.12, say")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install $(ROOMS:%=--editable %) --group dev
	@echo "$(CURDIR)" > $@

# Tools that few targets need: make .venv/.group-bench
$(VENV)/.group-%: $(STAMP)
	$(PIP) install --group $*
	@touch $@

NPM := benchmarks/peers
peers: $(VENV)/.group-bench $(NPM)/node_modules

$(NPM)/node_modules: $(NPM)/package-lock.json
	npm ci --prefix $(NPM) --no-audit --no-fund
	@touch $@

moved:
	rm -rf $(VENV)

clean:
	rm -rf $(VENV) $(NPM)/node_modules out .cache .*_cache .hypothesis build dist
	rm -rf $(foreach room,$(ROOMS),$(room)/build $(room)/dist $(room)/src/*.egg-info)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
