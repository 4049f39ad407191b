# Every target sets itself up in .venv first.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The tests run in one process per core, so each process computes with one thread. Built kernels are kept in the user's
# cache, or where UNSPOOL_CACHE says.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2
#: The rooms that kernels serve.
SERVED := tests/cells tests/nn tests/exchange

.PHONY: setup demo tour test test-long sanitize lint docs clean

setup: .venv/.ready

# pip comes first, as dependency groups need 25.1; then torch, alone, so that the pinned build is there before anything
# asks for "some torch".
.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) pip
	$(PIP) torch
	$(PIP) --editable '.[all]' --group dev
	touch $@

demo: setup
	$(BIN)/unspool demo

tour: setup
	$(BIN)/python tools/run_readme.py

test: setup lint
	$(TEST)

# Also the rooms that kernels serve, with the kernels off, and where no compiler can make any.
test-long: setup
	$(TEST) -m long
	UNSPOOL_ENGINE=off $(TEST) $(SERVED)
	rm -rf .venv/no-kernels
	PATH=$(abspath $(BIN)) UNSPOOL_CACHE=$(abspath .venv/no-kernels) $(TEST) $(SERVED)

# Kernels under AddressSanitizer and UBSan.
sanitize: setup
	$(BIN)/python tools/sanitize.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What the documents take from the code.
docs: setup
	$(BIN)/python -m tools.write_rooms
	$(BIN)/python -m tools.write_lab

clean:
	rm -rf .venv build dist src/*.egg-info
