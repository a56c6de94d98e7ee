# `make demo` and `make test` do all set-up themselves: a virtual environment in .venv, FluidLite and what it needs in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# two workers: the suite is made for two cores, and each worker's BLAS keeps to one of them
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: demo test lint gpu-test bench peers clean

$(STAMP): setup.cfg setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/recognize_digits.py --net conv --epochs 20

test: $(STAMP)
	$(PYTEST) -n 2 -m "not gpu and not mpi and not slow"

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	rm -rf build/lint && $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --target build/lint .
	cd build/lint && ../../$(BIN)/python -m mypy --config-file ../../pyproject.toml -p fluidlite

gpu-test: $(STAMP)
	$(PYTEST) -m gpu

bench: $(STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build *.egg-info
