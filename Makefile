# `make demo` and `make test` do all set-up themselves: a virtual environment in .venv, FluidLite and what it needs in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MPI := $(VENV)/.mpi
DOCS := $(VENV)/.docs
# the suite is made for two cores: each worker's BLAS keeps to one, and a third works while others wait for processes
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: demo test test-fast test-faults test-hostile slurm-test lint house docs docs-site mpi-test gpu-test gpu-sim gpu-sim-all gpu-bench page-test page-pictures bench bench-compare peers oracles fuzz clean

$(STAMP): setup.cfg setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	touch $@

$(MPI): $(STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[mpi]'
	touch $@

# one process, then four (two trainers, two parameter servers) whose parameters are compared with those of one process
demo: $(MPI)
	$(BIN)/python examples/recognize_digits.py --net conv --epochs 20
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/mpiexec -n 4 $(BIN)/python -m mpi4py examples/recognize_digits.py --net conv --epochs 3 \
		--mode pserver --pservers 2 --compare

# all rooms, or some: make test ROOMS="tests/ops tests/layers"
ROOMS ?= tests
test: $(STAMP)
	$(PYTEST) -n 3 -m "not gpu and not mpi and not slow and not slurm" $(ROOMS)

# the same with every loop compiled before its first step
test-fast: $(STAMP)
	FLAGS_fast_loops=wait $(PYTEST) -n 3 -m "not gpu and not mpi and not slow and not slurm" $(ROOMS)

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	rm -rf build/lib build/lint && $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --target build/lint .
	cd build/lint && ../../$(BIN)/python -m mypy --config-file ../../pyproject.toml -p fluidlite

# how long, how dense, how entangled the code is; BESIDE=path puts another checkout beside it
house: $(STAMP)
	$(BIN)/python tests/house/measure.py $(BESIDE) .

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	touch $@

# the pages and a reference from docstrings, in build/docs; warnings are errors
docs: $(DOCS)
	$(BIN)/python docs/sphinx/build.py build/docs

# the same, to read in the browser: http://127.0.0.1:8000, or PORT=...
PORT ?= 8000
docs-site: docs
	$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory build/docs

# the launchers' tests look for mpiexec as a shell does; to import the files that have none takes half a minute
mpi-test: $(MPI)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -m mpi $$(grep -rl --include='test_*.py' 'mark\.mpi' tests)

# a real Slurm on this machine, for these tests alone: needs Debian's slurm-wlm and munge; two minutes
slurm-test: $(MPI)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -rs -m slurm tests/launching/test_slurm.py

# trainers and servers that are killed, stopped and started again: about two minutes
test-faults: $(STAMP)
	$(PYTEST) -m "slow or not slow" tests/comm/test_tcp_faults.py tests/comm/test_tcp_processes.py
	$(PYTEST) -m slow tests/distributed/test_checkpoint_tcp.py

# files, names, kills, failing calls and connections that mean harm, ten times as many as `make test` tries, and the
# attacks of the other rooms as there: at most ten minutes
HOSTILE := tests/hostile tests/comm/test_hostile_messages.py tests/comm/test_handshake_states.py tests/comm/test_tls.py
test-hostile: $(STAMP)
	HOSTILE_ROUNDS=10 timeout 600 env $(PYTEST) -n 2 -m "not slow" --durations=10 $(HOSTILE)

# on a machine with a device, within ten minutes and without fetching anything: the Python that `make test` has made,
# or else any that has CuPy and pytest (DEVICE_PYTHON=...). Reports go to the folder that OUT names
DEVICE_PYTHON ?= $(if $(wildcard $(STAMP)),$(BIN)/python,$(PYTHON))
gpu-test:
	$(DEVICE_PYTHON) benchmarks/on_device.py test

# the same tests on a stand-in for CuPy, which needs a C++ compiler: docs/DEVICES.md. `gpu-sim` runs a row of
# each op and a sixteenth of the recorded programs
SIM ?= gpu
gpu-sim: $(STAMP)
	@command -v g++ >/dev/null || command -v c++ >/dev/null || { echo "make gpu-sim needs a C++ compiler, g++ or c++: there is none here"; exit 1; }
	PYTHONPATH=tests $(PYTEST) -p gpu_sim.plugin -n 2 -m "$(SIM)" tests/executor tests/comm
	$(PYTEST) tests/gpu_sim tests/comm/test_nccl.py

gpu-sim-all:
	$(MAKE) gpu-sim SIM="gpu and (slow or not slow)"

# likewise: kernels beside the device's copies, convolutions beside cuDNN, then small, image and sequence models beside
# torch.compile with graphs, by the same Python or TORCH_PYTHON
gpu-bench:
	$(DEVICE_PYTHON) benchmarks/on_device.py bench

# the page in a browser: needs Debian's chromium and chromium-driver, or the like
page-test: $(STAMP)
	$(PYTEST) -rs -s -m browser

page-pictures: $(STAMP)
	FLUIDLITE_PICTURES=docs $(PYTEST) -m browser tests/fluid/test_page.py tests/fluid/test_page_jobs.py

# the peers need NumPy of their own: one environment for PaddlePaddle, one for PyTorch and JAX
$(VENV)/peers/.installed:
	$(PYTHON) -m venv $(VENV)/peers/paddle
	$(VENV)/peers/paddle/bin/python -m pip install -q --disable-pip-version-check 'paddlepaddle==2.6.2' 'protobuf==3.20.3' 'numpy<2' setuptools
	$(PYTHON) -m venv $(VENV)/peers/torch
	$(VENV)/peers/torch/bin/python -m pip install -q --disable-pip-version-check torch jax numpy
	touch $@

peers: $(VENV)/peers/.installed

# The tables of docs/BENCHMARKS.md, an hour; PaddlePaddle 1.8.5 takes part when PADDLE_PYTHON names a Python 3.7 that has it.
BENCH := PADDLE2_PYTHON=$${PADDLE2_PYTHON:-$(VENV)/peers/paddle/bin/python} TORCH_PYTHON=$${TORCH_PYTHON:-$(VENV)/peers/torch/bin/python} \
	JAX_PYTHON=$${JAX_PYTHON:-$(VENV)/peers/torch/bin/python} $(BIN)/python benchmarks/run.py --page docs/BENCHMARKS.md --section
bench: $(STAMP) peers
	$(BENCH) workloads
	$(BENCH) numpy-only --numpy-only
	$(BENCH) networks --networks --threads 1 --rounds 3
	$(BENCH) networks-two-threads --networks --threads 2 --rounds 3

# two commits side by side: make bench-compare A=main~20 B=main WORKLOADS="lenet lstm"
bench-compare: $(STAMP)
	$(BIN)/python benchmarks/compare.py $(or $(A),HEAD~1) $(or $(B),HEAD) $(WORKLOADS)

# PaddlePaddle 1.8.5 and 2.6.2, each in an environment of its own; 1.8.5 needs Python 3.7, from pyenv or as PYTHON37=...
ORACLES := $(VENV)/oracles
PYTHON37 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.7.*/bin/python) python3.7)
NO_PYTHON37 := 1.8.5 is left out: there is no Python 3.7 here (PYTHON37=... names one)
$(ORACLES)/.installed18:
	@$(PYTHON37) -c "" 2>/dev/null || { echo "$(NO_PYTHON37)"; exit 1; }
	$(PYTHON37) -m venv $(ORACLES)/paddle18
	$(ORACLES)/paddle18/bin/python -m pip install -q --upgrade 'pip<24'
	$(ORACLES)/paddle18/bin/python -m pip install -q paddlepaddle==1.8.5 protobuf==3.20.3 scipy
	touch $@

$(ORACLES)/.installed26:
	$(PYTHON) -m venv $(ORACLES)/paddle26
	$(ORACLES)/paddle26/bin/python -m pip install -q --disable-pip-version-check 'paddlepaddle==2.6.2' 'protobuf==3.20.3' 'numpy<2' setuptools
	touch $@

oracles: $(ORACLES)/.installed18 $(ORACLES)/.installed26

# random programs beside PaddlePaddle: make fuzz KIND=functions26 SEED=7 COUNT=5000 ONLY="softmax pool"; two engines
# of ours beside each other: make fuzz KIND=engines ENGINES="plan naive" DOOR=networks
KIND ?= functions18
SEED ?= 1
COUNT ?= 1000
ENGINES ?= plan naive
DOOR ?= 18
fuzz: $(STAMP)
	cd tests && PYTHONPATH=. ../$(BIN)/python -m beside.fuzz --kind $(KIND) --seed $(SEED) --count $(COUNT) \
		--engines $(ENGINES) --door $(DOOR) --only $(ONLY)

clean:
	rm -rf $(VENV) build *.egg-info
