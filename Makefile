# Everything is made in .venv. All that must be there is make, git and Python 3.11 or newer:
#   make course PYTHON=python3.12     where `python3` is an older one

PYTHON ?= python3
REPOSITORY ?= # https://github.com/OWNER/NAME: where the book's links to files and to the repository lead
ifeq ($(OS),Windows_NT)
PY := .venv/Scripts/python
else
PY := .venv/bin/python
endif
PIP := $(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt
NOTEBOOKS := $(sort $(wildcard notebooks/[0-9][0-9]_*.ipynb))
NBVAL := --nbval --nbval-sanitize-with tests/sanitize.cfg

.DEFAULT_GOAL := help
.PHONY: help course lab test test-portable test-teach test-book exercises book bench mutants notebooks constraints lint clean

help: ## list what can be made (the default)
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf 'make %-14s %s\n' "$$name" "$$text"; done

course: .venv/.lab ## run every notebook from top to bottom, one line each
	@$(PY) tools/course.py

lab: .venv/.lab ## open JupyterLab at the first notebook
	@$(PY) -m jupyterlab $(firstword $(NOTEBOOKS))

test: .venv/.test ## the unit tests, and every notebook compared with its stored outputs
	@$(PY) -m pytest -q -n 2 --dist loadfile $(NBVAL) tests $(NOTEBOOKS)

test-portable: .venv/.test ## the same with other CPU paths, thread counts and the newest PyTorch (QUICK=1: less; NEWEST=1: that alone)
	@$(PY) tools/portable.py $(if $(QUICK),--quick) $(if $(NEWEST),--newest)

notebooks: .venv/.lab ## run every notebook and store its outputs
	@$(PY) tools/course.py --write
	@$(PY) tools/exercises.py
	@$(PY) tools/picture.py

exercises: .venv/.lab ## make notebooks/exercises/ from the numbered notebooks
	@$(PY) tools/exercises.py

test-teach: .venv/.teach ## the exercises as nbgrader's assignments, graded by nbgrader
	@$(PY) -m pytest -q tests/test_teach.py

book: .venv/.docs node_modules/.package-lock.json ## build the web pages (build/book/index.html) from the stored outputs
	@REPOSITORY=$(REPOSITORY) $(PY) tools/book.py

test-book: .venv/.docs .venv/.test node_modules/.package-lock.json ## the book and JupyterLab in a browser (a Chromium)
	@$(PY) -m pytest -q -rs -n 2 --dist loadfile tests/test_book.py tests/test_browser.py

mutants: .venv/.mutants ## break the package in two thousand places, and see whether the unit tests notice (MUTANTS='makemore_bp.model*')
	@.venv/bin/mutmut run $(MUTANTS); $(PY) tools/mutants.py

bench: .venv/.bench ## time a training step against everything else that can take it
	@$(PY) benchmarks/bench.py

constraints: .venv/.made ## pin anew all that is installed (constraints.txt), within pyproject.toml's ranges
	@$(PY) tools/constraints.py

lint: .venv/.test ## ruff's checks and formatting
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .

clean: ## remove what was made here, .venv too
	@rm -rf .venv build mutants node_modules *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +
	@find . -name .ipynb_checkpoints -prune -exec rm -rf {} +

# --- the environment. A stamp is touched last, so that an interrupted install is begun again.

OLD := import sys; v = sys.version_info; sys.exit(v < (3, 11) and "$(PYTHON) is Python %d.%d, and the course needs 3.11 or newer: name one with make PYTHON=..." % v[:2])
VENV := import importlib.util as i; sys = __import__("sys"); sys.exit(None in (i.find_spec("venv"), i.find_spec("ensurepip")) and "$(PYTHON) cannot make environments: it comes without venv (on Debian and Ubuntu: apt install python3-venv)")

.venv/.made:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON); the course needs Python 3.11 or newer: name one with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c '$(OLD)'
	@$(PYTHON) -c '$(VENV)'
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.lab: .venv/.made pyproject.toml constraints.txt
	@echo "Installing what the course needs into .venv (once; a few minutes) ..." >&2
	@$(PIP) -e '.[lab]'
	@touch $@

# What the tests need includes what the course needs.
.venv/.test: .venv/.made pyproject.toml constraints.txt
	@echo "Installing what the tests need into .venv (once; a few minutes) ..." >&2
	@$(PIP) -e '.[lab,test]'
	@touch .venv/.lab $@

.venv/.bench: .venv/.made pyproject.toml constraints.txt
	@echo "Installing what the benchmark needs into .venv (once; a few minutes) ..." >&2
	@$(PIP) -e '.[bench]'
	@touch $@

.venv/.teach: .venv/.test
	@echo "Installing nbgrader into .venv (once; a minute) ..." >&2
	@$(PIP) -e '.[teach]'
	@touch $@

.venv/.mutants: .venv/.test
	@echo "Installing mutmut into .venv (once; a minute) ..." >&2
	@$(PIP) -e '.[mutants]'
	@touch $@

.venv/.docs: .venv/.lab
	@echo "Installing what the book needs into .venv (once; a minute) ..." >&2
	@$(PIP) -e '.[lab,docs]'
	@touch $@

# npm writes this file last. It brings MathJax, which draws the book's formulas.
node_modules/.package-lock.json: package-lock.json
	@command -v npm >/dev/null || { echo "There is no npm, from which the book takes MathJax: install Node.js (on Debian and Ubuntu: apt install npm)." >&2; exit 1; }
	@npm ci --silent --no-audit --no-fund
	@touch $@
