# One command per chore, the same locally and in CI. Only Python 3.11 or newer and make are needed beforehand.
# PYTHON=python3.13 asks for another Python than the one of the environment, which is then made anew. With
# VENV=.venv3.13 as well, both are kept.
VENV    ?= .venv
PYTHON  ?= $(or $(wildcard $(VENV)/bin/python),python3)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready-$(VERSION)
FOR     ?=
QUICK   ?=
PEERS   ?=
RUNS    ?=
SEED    ?=

# Tests start many processes. None of them should compile all modules anew, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

# Whether the environment is whole, and one of this Python.
IS_MADE = $(BIN)/python -c 'import pip, sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' 2>/dev/null
MAKE_VENV = $(PYTHON) -m venv --clear $(VENV)

# Debian and Ubuntu keep Python's venv module in a package of its own.
INSTALL_VENV = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "python's venv module is missing: as root, apt-get install python3-venv"; exit 1; fi

# The tests of the analytics start a Redis of their own. Its wheels are for some Pythons only, so it is the machine's.
INSTALL_REDIS = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq redis-server; \
	  else echo "redis-server is missing, so the tests of the analytics will fail: as root, apt-get install redis-server"; fi

# The tests of the dashboard drive a real browser.
CHROMIUM = command -v chromium || command -v chromium-browser || command -v google-chrome
INSTALL_CHROMIUM = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq chromium; \
	  else echo "chromium is missing, so the tests of the dashboard will fail: as root, apt-get install chromium"; fi

.DEFAULT_GOAL := help
.PHONY: help demo test check bench dst fuzz chaos clean

help:
	@echo "make demo [FOR=20s]     oncue at work on the embedded default: three workers, one of them killed"
	@echo "make test [PYTHON=python3.13]  all tests, on SQLite and on a real PostgreSQL"
	@echo "make check              ruff and mypy --strict"
	@echo "make bench [QUICK=1] [PEERS=all] [RUNS=9]   the figures, as ratios within one run"
	@echo "make dst [QUICK=1]      schedules across every clock change from 2020 to 2040, in every time zone"
	@echo "make fuzz [QUICK=1] [SEED=1]   24,000 requests that nobody should send, to the admin API and the dashboard"
	@echo "make chaos [QUICK=1] [SEED=1]  real processes killed, stopped and cut off: 1,000 kill -9, 1,000 lost replies and more"

$(READY): pyproject.toml $(wildcard examples/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is not the Python 3.11 or newer that oncue needs; say which one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(IS_MADE) || $(MAKE_VENV) || { $(INSTALL_VENV) && $(MAKE_VENV); }
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]' $(addprefix -e ,$(dir $(wildcard examples/*/pyproject.toml)))
	@touch $@

demo: $(READY)
	@$(BIN)/oncue demo $(if $(FOR),--for $(FOR))

test: check
	@command -v redis-server >/dev/null || { $(INSTALL_REDIS); }
	@{ $(CHROMIUM); } >/dev/null || { $(INSTALL_CHROMIUM); }
	$(BIN)/python -m pytest -n 6 --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	QUICK=$(QUICK) PEERS=$(PEERS) RUNS=$(RUNS) $(BIN)/python -m bench

dst: $(READY)
	QUICK=$(QUICK) $(BIN)/python -m dst

fuzz: $(READY)
	QUICK=$(QUICK) SEED=$(SEED) $(BIN)/python -m fuzz

chaos: $(READY)
	QUICK=$(QUICK) SEED=$(SEED) $(BIN)/python -m chaos

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
