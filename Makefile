# One command per chore, the same locally and in CI. Only Python 3.11 and make are needed beforehand.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
FOR    ?=
QUICK  ?=
PEERS  ?=
RUNS   ?=
SEED   ?=

# Tests start many processes. None of them should compile all modules anew, whatever the caller's shell says.
unexport PYTHONDONTWRITEBYTECODE

# Debian and Ubuntu keep Python's venv module in a package of its own.
INSTALL_VENV = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "python's venv module is missing: as root, apt-get install python3-venv"; exit 1; fi

.DEFAULT_GOAL := help
.PHONY: help demo test check bench dst fuzz chaos clean

help:
	@echo "make demo [FOR=20s]     oncue at work on the embedded default: three workers, one of them killed"
	@echo "make test               all tests, on SQLite and on a real PostgreSQL"
	@echo "make check              ruff and mypy --strict"
	@echo "make bench [QUICK=1] [PEERS=all] [RUNS=9]   the figures, as ratios within one run"
	@echo "make dst [QUICK=1]      schedules across every clock change from 2020 to 2040, in every time zone"
	@echo "make fuzz [QUICK=1] [SEED=1]   20,000 requests that nobody should send, to the admin API"
	@echo "make chaos [QUICK=1] [SEED=1]  real processes killed, stopped and cut off: 1,000 kill -9, 1,000 lost replies and more"

$(READY): pyproject.toml $(wildcard examples/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "oncue needs Python 3.11 or newer; say which one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { $(INSTALL_VENV) && $(PYTHON) -m venv $(VENV); }
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]' $(addprefix -e ,$(dir $(wildcard examples/*/pyproject.toml)))
	@touch $@

demo: $(READY)
	@$(BIN)/oncue demo $(if $(FOR),--for $(FOR))

test: check
	$(BIN)/python -m pytest -n 3 --dist worksteal

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
