# Every command of the project; `make` alone lists them. Needs Python 3.11 or newer, nothing else.

PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
BENCHMARKS := $(sort $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))

.DEFAULT_GOAL := help
.PHONY: help reproduce demo test check bench docs clean
# Where bytecode is not kept, each of the hundreds of processes that tests and experiments start
# compiles torch anew, which is half of its time.
unexport PYTHONDONTWRITEBYTECODE
# Two installs into one .venv at a time would spoil it, so `make -j` runs the targets in turn.
.NOTPARALLEL:

help:
	@echo "make reproduce  the paper's figures and tables with verdicts: about 8 minutes on 2 cores"
	@echo "make demo       a first example: a spectrum, a bound, a compiled Transformer; draws demo.png"
	@echo "make test       the tests"
	@echo "make check      format, lint and types"
	@echo "make bench      the benchmarks, each beside its rival"
	@echo "make docs       the documentation, into site/"
	@echo "make clean      remove .venv and everything that was made"
	@echo ""
	@echo "Each command first creates .venv and installs what it needs."
	@echo "Another Python: make demo PYTHON=/path/to/python3.12"

reproduce: $(READY)-report
	@$(VENV)/bin/attnrate reproduce --preset quick

demo: $(READY)-core
	@$(PY) examples/first.py

test: $(READY)-test
	@OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(PY) -m pytest -n 2 --dist worksteal --durations=10 --durations-min=1

check: $(READY)-check
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m basedpyright

bench: $(READY)-test
	@for script in $(BENCHMARKS); do echo "== $$script"; $(PY) $$script || exit 1; done

# Not --quiet: mkdocs would then not count the warnings that --strict turns into a failure.
docs: $(READY)-docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "read it in site/index.html"

clean:
	rm -rf $(VENV) site dist build demo.png reproduction-quick .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written only after its install has succeeded, and is out of date as soon as what is
# to be installed has changed. `check` also serves `test`, which serves `docs`, since the tests open
# the site; each serves what needs the core alone.
$(READY)-core: SERVES := core
$(READY)-report: EXTRAS := [report,data]
$(READY)-report: SERVES := core report
$(READY)-test: EXTRAS := [test]
$(READY)-test: SERVES := core report docs test
$(READY)-check: EXTRAS := [check,test]
$(READY)-check: SERVES := core report docs test check
$(READY)-docs: EXTRAS := [docs]
$(READY)-docs: SERVES := core docs

$(READY)-core $(READY)-report $(READY)-test $(READY)-check $(READY)-docs: pyproject.toml constraints.txt | $(READY)-python
	@# Python compiles what it imports at its first use; all of torch beforehand takes a minute.
	@echo "installing attnrate$(EXTRAS) into $(VENV) (first time: a few minutes) ..."
	@$(PY) -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.$(EXTRAS)'
	@touch $(addprefix $(READY)-,$(SERVES))

NEW_ENOUGH := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

# A .venv that is there and works is kept; one that was left half made is made again.
$(READY)-python:
	@if ! { $(PY) -c '$(NEW_ENOUGH)' && $(PY) -m pip --version; } >/dev/null 2>&1; then \
	  for python in $(PYTHON) python3.13 python3.12 python3.11 python3 none; do \
	    if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then break; fi; \
	  done; \
	  if [ $$python = none ]; then \
	    echo "attnrate needs Python 3.11 or newer with its venv module, and found none (tried" >&2; \
	    echo "$(strip $(PYTHON) python3.13 python3.12 python3.11 python3)). Install one (on Debian and" >&2; \
	    echo "Ubuntu also python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  echo "creating $(VENV) with $$($$python --version) ..."; \
	  $$python -m venv --clear $(VENV) || exit 1; \
	fi
	@touch $@
