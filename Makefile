# Works in a fresh clone, with nothing but python3 (3.11 or newer), make and a package
# registry. The suite and the demo run on wheels, as users install them: a wheel is
# built only if its contents have changed, and is then installed into build/installed.
# Tools run in .venv, where the checkout is an editable installation. It is installed
# again when a pyproject.toml changes or when the checkout has moved.
#
#   make demo                 train a classifier of digits
#   make test                 style, types, layers and the suite, as in CI; only a few of
#                             the slow tests, and of the tests on wasm, opencl and webgpu
#   make test EDITABLE=1      the same on the checkout, in .venv, without wheels
#   make test-all             everything: all tests, more random examples, longer soaks,
#                             cpu without the C extension, the Numba backend, libraries
#                             that accept tensors; with SUITE=path, also the tests of
#                             the array API standard
#   make check                only style, types and layers
#   make test ARGS="-k relu"  further arguments for pytest; JOBS=0 runs one process
#   make test CONSTRAINTS=tests/lowest.txt  with the oldest dependencies that are allowed
#   make test-consumers       scikit-learn and other libraries that accept tensors
#   make test-sanitized       plugrad-cpu's C under AddressSanitizer and UBSan: Linux, gcc
#   make test-arm64           its kernels on an arm64 that QEMU emulates
#   make test-windows         its kernels for Windows, under Wine
#   make test-examples        the Numba backend, in a separate environment
#   make dist                 build the files to upload, in dist/: see docs/releasing.md
#   make dist-check           build them again, compare, and install them
#   make installed            build the wheels that have changed, and install them
#   make test-keras SUITE=p   Keras' own tests, from a checkout p of Keras, on plugrad
#   make compat               the plugins of each release with the current core, and
#                             vice versa
#   make version NEW=0.2.0    write the version into every distribution
#   make docs                 write the generated files: docs/kernels.md, docs/names.md,
#                             types, and the tables and charts of benchmarks
#   make site                 build the documentation site in build/site, and check it
#   make site-serve           show it at http://127.0.0.1:8000 while you write
#   make notebooks            execute the notebooks of examples/notebooks
#   make test-notebooks       execute them with a smaller configuration, and write nothing
#   make peers                install the libraries for benchmarks/workloads.py --peers
#   make clean                remove whatever these targets have made

PYTHON ?= python3
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) \
	else "plugrad needs Python 3.11 or newer; make PYTHON=python3.12, say")'
ARGS ?=
JOBS ?= auto
SUITE ?=
CONSTRAINTS ?=

# Tests run on wheels, installed in a separate environment, as users install them. With
# EDITABLE=1 they run on the checkout, in .venv, which is faster while you edit it.
VENV := $(if $(CONSTRAINTS),.cache/constrained,.venv)
INSTALLED := build/$(if $(CONSTRAINTS),constrained,installed)
ifneq ($(CONSTRAINTS),)
export PIP_CONSTRAINT := $(CURDIR)/$(CONSTRAINTS)
endif
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PIP := $(RUN) -m pip --quiet --disable-pip-version-check
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard \
	core/pyproject.toml plugins/*/pyproject.toml tests/conformance/pyproject.toml \
	examples/gradient_packs/pyproject.toml))

ACCELERATORS := core/build/.accelerators plugins/cpu/build/.accelerators
WASM := plugins/wasm/src/plugrad_wasm/modules/plain/index.json

# The stamp contains the path of the checkout: after a move, the scripts in .venv would
# still run the old one.
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell cat $(STAMP)),$(CURDIR))
$(STAMP): moved
endif
endif

.PHONY: compat demo installed test test-all test-arm64 test-array-api test-consumers
.PHONY: test-examples test-keras test-windows
.PHONY: test-sanitized check clean docs
.PHONY: dist dist-check moved notebooks peers site site-serve test-notebooks version
.DELETE_ON_ERROR:

# The suite starts hundreds of processes, which should share compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE

BUILT := $(STAMP) $(WASM) $(ACCELERATORS)

ifeq ($(EDITABLE),)
ENV := $(INSTALLED)
READY := installed
WHEELS := --installed
else
ENV := $(VENV)
READY := $(BUILT)
WHEELS :=
endif
# The kit is tested where it is installed, which in a checkout is tests/conformance.
OURS := tests examples/gradient_packs/tests $(if $(EDITABLE),,--ignore tests/conformance)
KIT := --pyargs plugrad_conformance
PYTEST := $(ENV)/bin/python -m pytest --numprocesses $(JOBS) --dist worksteal
TEST := $(PYTEST) $(WHEELS) --primitives

# There is a worker for each core, so additional BLAS threads would only wait.
test test-all: export OMP_NUM_THREADS := 1
test: $(READY)
	$(TEST) $(if $(filter tests/%,$(ARGS)),$(ARGS),$(OURS) $(KIT) $(ARGS))

test-all: $(READY) $(ENV)/.group-consumers $(ENV)/.group-gallery \
		$(ENV)/.group-pyright test-examples site \
		$(if $(filter Linux,$(shell uname -s)),dist)
	PLUGRAD_COMPILED=0 $(PYTEST) --all $(KIT) --plugrad-backend cpu
	PLUGRAD_JIT_CHECK=1 $(TEST) tests/core/jit --pyargs $(JIT_KIT)
	$(TEST) --all $(OURS) $(KIT) $(ARGS)
ifeq ($(SUITE),)
	@echo "The tests of the array API standard were not run: give SUITE=path"
else
	for backend in cpu wasm opencl; do \
		$(MAKE) test-array-api BACKEND=$$backend ARGS= || exit; \
	done
endif

# The kit's tests of jit, in which test-all also compares each call with a replay.
SOURCES := tests/conformance/src/
JIT_KIT := $(wildcard $(SOURCES)plugrad_conformance/ops/test_jit*.py)
JIT_KIT := $(subst /,.,$(JIT_KIT:$(SOURCES)%.py=%))

# Numba is large, and lags behind NumPy, so only this target downloads it.
THIRD := examples/third_party_backend
THIRD_RUN := $(CURDIR)/.cache/third_party_backend/bin/python
THIRD_PACKAGES := core plugins/cpu tests/conformance $(THIRD)

test-examples: .cache/third_party_backend/.installed
	cd $(THIRD) && $(THIRD_RUN) -m pytest
	cd $(THIRD) && $(THIRD_RUN) -m pytest --quiet --pyargs plugrad_conformance

.cache/third_party_backend/.installed: $(THIRD_PACKAGES:%=%/pyproject.toml)
	$(PYTHON) -m venv $(@D)
	$(THIRD_RUN) -m pip --quiet install --upgrade "pip>=25.1"
	$(THIRD_RUN) -m pip --quiet install $(THIRD_PACKAGES:%=--editable %)
	@touch $@

# The array API consortium's tests: make test-array-api SUITE=../array-api-tests
BACKEND ?= cpu
EXAMPLES ?= 100
SKIP_DTYPES_opencl := float64,complex128
XFAILS := .cache/array_api/$(BACKEND).txt
SKIPS := $(wildcard tests/array_api/$(BACKEND)_skips.txt)

# Only the backend and its host are loaded, so no others add dtypes or devices.
test-array-api: $(BUILT) $(VENV)/.group-array-api
	@test -d "$(SUITE)/array_api_tests" || \
	{ echo "SUITE= must be the path of a checkout of array-api-tests"; exit 2; }
	@mkdir -p $(dir $(XFAILS))
	cat $(wildcard tests/array_api/xfails.txt tests/array_api/$(BACKEND).txt) > $(XFAILS)
	cd $(SUITE) && PYTHONPATH=$(CURDIR)/tests/array_api ARRAY_API_TESTS_MODULE=plugrad \
	ARRAY_API_TESTS_SKIP_DTYPES=$(SKIP_DTYPES_$(BACKEND)) \
	PLUGRAD_BACKEND=$(BACKEND) PLUGRAD_PLUGINS=plugrad-cpu,plugrad-$(BACKEND) \
	$(CURDIR)/$(RUN) -m pytest array_api_tests -q -p no:plugrad_conformance -p corrections \
	--numprocesses $(JOBS) --max-examples=$(EXAMPLES) --disable-deadline -W ignore \
	-o xfail_strict=true --xfails-file=$(CURDIR)/$(XFAILS) \
	$(SKIPS:%=--skips-file=$(CURDIR)/%) $(ARGS)

# Libraries that accept tensors: our tests of them, and their own array API tests.
test-consumers: export OMP_NUM_THREADS := 1
test-consumers: $(READY) $(ENV)/.group-consumers
	$(TEST) --all tests/consumers $(ARGS)
	$(ENV)/bin/python -m tests.consumers.sklearn_suite --numprocesses $(JOBS)
	$(ENV)/bin/python -m tests.consumers.scipy_suite --numprocesses $(JOBS)

test-sanitized: $(BUILT)
	$(RUN) -m tests.native.sanitized $(ARGS)

test-arm64 test-windows: test-%: $(BUILT)
	$(RUN) -m tests.native.replayed $*

check: $(READY)
	$(ENV)/bin/python -m pytest tests/test_style.py

# The files to upload, for each of PYTHONS: see release/build.py. SOURCE_DATE_EPOCH is
# the modification time of the files, by default the time of the commit.
PYTHONS ?= $(RUN)

dist: $(VENV)/.group-release
	$(RUN) -m release.build $(PYTHONS:%=--python %)

# Builds the files again, compares, and installs each wheel in a fresh environment.
dist-check: $(VENV)/.group-release
	@test -d dist || { echo "there is no dist: run make dist first"; exit 2; }
	$(RUN) -m release.check $(PYTHONS:%=--python %)

# Runs Keras' own tests, or those of some FILES in keras/src.
test-keras: $(STAMP)
	$(if $(SUITE),,$(error make test-keras: give a checkout, as in SUITE=../keras))
	$(RUN) -m tests.keras.suite $(SUITE) $(FILES)

# Tests the plugins of each release with the current core, and vice versa.
compat: installed
	$(INSTALLED)/bin/python -m release.compat $(ARGS)

# Lower bounds among our distributions are raised by hand: see `make compat`.
NEXT_MINOR = $(shell echo $(NEW) | awk -F. '{ print $$1 "." $$2 + 1 }')

version:
	$(if $(NEW),,$(error make version: say which, as in make version NEW=0.2.0))
	sed -i.old -E -e 's/^version = .*/version = "$(NEW)"/' \
		-e 's/"((keras-)?plugrad[a-z-]*>=[0-9.]+),<[^"]*"/"\1,<$(NEXT_MINOR)"/' \
		$(PACKAGES:%=%/pyproject.toml)
	sed -i.old -E -e 's/^version: .*/version: $(NEW)/' CITATION.cff
	rm CITATION.cff.old $(PACKAGES:%=%/pyproject.toml.old)

docs: $(STAMP)
	$(RUN) -m plugrad kernels --markdown > docs/kernels.md
	$(RUN) -m tests.docs.derived

# The site fails on any MkDocs warning. The variable hides the notice about MkDocs 2.
site site-serve: export NO_MKDOCS_2_WARNING := 1
site: $(BUILT) $(VENV)/.group-site
	$(RUN) -m mkdocs --quiet build
	$(RUN) -m docs.site.check build/site

site-serve: $(BUILT) $(VENV)/.group-site
	$(RUN) -m mkdocs serve

notebooks: $(BUILT) $(VENV)/.group-gallery
	$(RUN) -m examples.notebooks.make

test-notebooks: $(BUILT) $(VENV)/.group-gallery
	$(RUN) -m pytest tests/examples/test_notebooks.py $(ARGS)

# The demo needs only the wheels of the core and plugrad-cpu.
demo: $(ENV)/.group-demo
	$(if $(EDITABLE),,$(ENV)/bin/python -m release.host --install core plugins/cpu)
	$(ENV)/bin/python examples/digits.py

# The wheels of all distributions, built if a file has changed, and installed.
installed: $(INSTALLED)/.installed
	$(INSTALLED)/bin/python -m release.host --install

INSTALLED_PIP := $(INSTALLED)/bin/python -m pip --quiet --disable-pip-version-check

$(INSTALLED)/.created: pyproject.toml $(CONSTRAINTS)
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear $(@D)
	$(INSTALLED_PIP) install --upgrade "pip>=25.1"
	@touch $@

# The wheels are built while the tools for the tests are downloaded.
$(INSTALLED)/.installed: $(INSTALLED)/.created
	$(INSTALLED_PIP) install --group build
	$(INSTALLED)/bin/python -m release.host & builds=$$!; \
	$(INSTALLED_PIP) install --group dev || { wait $$builds; exit 1; }; \
	wait $$builds
	@echo "$(CURDIR)" > $@

$(INSTALLED)/.group-demo: $(INSTALLED)/.created
	$(INSTALLED_PIP) install --group build --group demo
	@touch $@

$(INSTALLED)/.group-%: installed
	$(INSTALLED_PIP) install --group $*
	@touch $@

$(STAMP): pyproject.toml $(PACKAGES:%=%/pyproject.toml) $(CONSTRAINTS)
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install $(PACKAGES:%=--editable %) --group dev
	@for file in $(ACCELERATORS); do mkdir -p $$(dirname $$file) && touch $$file; done
	@echo "$(CURDIR)" > $@

# The C code of the core and plugrad-cpu is compiled when they are installed, and when it
# changes.
$(ACCELERATORS): %/build/.accelerators: | $(STAMP)
	cd $* && $(CURDIR)/$(RUN) setup.py --quiet build_ext --inplace
	@touch $@

core/build/.accelerators: $(wildcard core/src_c/*) core/setup.py
# C kernels that several backends share.
NATIVE := $(wildcard native/*/*)
plugins/cpu/build/.accelerators: $(wildcard plugins/cpu/*.py) $(NATIVE) \
	$(wildcard plugins/cpu/src_c/*.* plugins/cpu/src_c/library/*)

# The modules of plugrad-wasm are built when it is installed, and when C code changes.
$(WASM): $(NATIVE) $(wildcard plugins/wasm/src_c/* plugins/wasm/hatch_build.py) | $(STAMP)
	$(RUN) plugins/wasm/hatch_build.py

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
	rm -rf $(VENV) .cache/third_party_backend

clean:
	rm -rf $(VENV) $(NPM)/node_modules out .cache .*_cache .hypothesis build dist
	rm -rf $(foreach package,$(PACKAGES),$(package)/build $(package)/dist $(package)/src/*.egg-info)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
