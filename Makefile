# `make run` and `make test` need python3 (3.11 or later) and make, and do the rest.
# `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py') pyproject.toml setup.py README.md LICENSE
# More workers than cores, because many tests wait for timers and for other processes. A
# worker without work takes over tests of another one.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 15

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-slow test-cluster proofs test-stores test-interpreted docs soak mutants check format lint types bench bench-sim same-traces bench-protocols bench-net bench-paths bench-pc-broadcast bench-budget bench-spark \
  bench-ingest \
  campaign campaign-mutants verification fuzz lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# The tools, exactly as locked.
$(VENV)/tools: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "antecede needs Python 3.11 or later; set PYTHON=python3.x"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --requirement requirements/dev.txt
	@touch $@

# The package as users install it: a wheel that is built in isolation, compiled where a C
# compiler is present. A test installs the same wheel into an empty environment. Numba compiles
# the verification in the first run, so that the workers of Spark do not compile it again.
$(VENV)/installed: $(VENV)/tools $(SOURCES)
	@rm -rf build $(VENV)/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check \
	  --no-deps --wheel-dir $(VENV)/wheel .
	@rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --force-reinstall $(VENV)/wheel/*.whl
	@$(BIN)/antecede --version
	@rm -rf $(VENV)/first-run
	@$(BIN)/antecede simulate --out $(VENV)/first-run >/dev/null
	@touch $@

run: $(VENV)/installed  ## main command: run all protocols in small studies, verify, and write a page
	$(BIN)/antecede study run quick --out results/quick

test: $(VENV)/installed  ## tests of the installed package (compiled if possible), 6 minutes
	$(PYTEST) -m 'not slow'

test-fast: $(VENV)/tools  ## tests for the edit loop, on the source tree, one minute
	PYTHONPATH=src $(PYTEST) -m 'not slow and not heavy and not long'

# One worker runs all slow tests of a file, so that its fixtures are built once.
test-slow: $(VENV)/installed  ## long searches, Spark clusters, builds of the package
	$(PYTEST) --dist loadfile --no-loadscope-reorder -m 'slow and not cluster and not proof'

test-cluster: $(VENV)/installed  ## Spark clusters: a lost worker, several hosts (namespaces; needs root)
	$(BIN)/python -m pytest -m cluster -rs tests/pipeline

proofs: $(VENV)/installed  ## complete searches of the model checker and long comparisons, 10 minutes
	$(PYTEST) -m proof

# The packages of these tests are not locked, so that they get an environment of their own.
$(VENV)-stores/tools: requirements/dev.txt requirements/stores.in
	$(PYTHON) -m venv $(VENV)-stores
	$(VENV)-stores/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement requirements/stores.in
	@touch $@

test-stores: $(VENV)-stores/tools $(VENV)/tools  ## traces in an S3-compatible store (rclone), Delta and Iceberg tables
	PYTHONPATH=src $(VENV)-stores/bin/python -m pytest -rs \
	  tests/trace/test_store.py tests/trace/test_s3.py tests/ingest/test_live_tables.py
	PATH="$$PATH:$(abspath $(VENV)-stores/bin)" PYTHONPATH=src $(BIN)/python -m pytest -rs \
	  tests/spark/test_object_store.py

test-interpreted: $(VENV)/tools  ## tests of the core on the source tree, with coverage
	PYTHONPATH=src $(PYTEST) -m 'not long' tests/core tests/testing tests/test_architecture.py \
	  --hypothesis-profile short --cov=antecede.core --cov-branch --cov-report=term-missing --cov-fail-under=100

soak: $(VENV)/tools  ## kill nodes with a journal 50 times per round (ROUNDS=10: 5 minutes)
	PYTHONPATH=src ANTECEDE_SOAK=$(or $(ROUNDS),10) $(BIN)/python -m pytest \
	  tests/net/test_processes.py -k killed

mutants: $(VENV)/tools  ## list the mutants of the core and what catches each
	PYTHONPATH=src $(BIN)/python -m tests.mutation

check: format lint types docs test-interpreted  ## format, lint, types, docs, core tests with coverage

format: $(VENV)/tools
	$(BIN)/ruff format --check .

lint: $(VENV)/tools
	$(BIN)/ruff check .

types: $(VENV)/tools
	$(BIN)/mypy

docs: $(VENV)/tools  ## build the documentation site in docs/_build/html
	PYTHONPATH=src $(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo 'docs: open docs/_build/html/index.html'

bench: $(VENV)/installed  ## speed and size of the core, as ratios in one run
	$(BIN)/python -m bench core

bench-sim: $(VENV)/installed  ## speed of the simulator, beside SimPy
	$(BIN)/python -m bench sim

same-traces: $(VENV)/tools  ## compare the traces of 94 seeded runs with those of another source tree (OTHER=path/src)
	PYTHONPATH=src $(BIN)/python -m bench.same_traces $(OTHER)

bench-protocols: $(VENV)/installed  ## bytes and time per message of each protocol, for 10, 100 and 1000 processes
	$(BIN)/python -m bench.protocols

bench-net: $(VENV)/installed  ## speed of the node, beside raw UDP, TCP, pyzmq, aioquic and nats-py
	$(BIN)/python -m bench.net

bench-paths: $(VENV)/installed  ## loss, congestion and fairness on simulated paths, in virtual time
	$(BIN)/python -m bench.paths

bench-pc-broadcast: $(VENV)/installed  ## 200 live nodes in one group of pc-broadcast, verified, beside a simulation
	$(BIN)/python -m bench.pc_broadcast

bench-budget: $(VENV)/installed  ## the aims of bounded: latency, bytes, frames and silent members
	$(BIN)/python -m bench.budget

bench-spark: $(VENV)/installed  ## speed of the pipeline, beside plain Spark and Python (SIZES="100000000 300000000" SPANS=50000000)
	$(BIN)/python -m bench.spark_verify --events 20000000 --growth
	$(BIN)/python -m bench.spark_table --events 20000000
	$(BIN)/python -m bench.spark_extrapolation --table --sizes $(or $(SIZES),10000000 30000000)
	$(BIN)/python -m bench.spark_stream
	$(BIN)/python -m bench.spark_spans --spans $(or $(SPANS),3000000)
	$(BIN)/python -m bench.spark_others

bench-ingest: $(VENV)/installed  ## speed of reading span CSVs, beside Spark's own reading
	$(BIN)/python -m bench.ingest

fuzz: $(VENV)/tools  ## hostile datagrams for the engine, guided by coverage (SECONDS=60)
	PYTHONPATH=src $(BIN)/python -m fuzz $(or $(SECONDS),60)

campaign: $(VENV)/installed  ## whole nodes, and rooms, under random faults in a simulation (SECONDS=60, or SEEDS=1000 and ROOM_SEEDS=1000)
	$(BIN)/python -m campaign $(if $(SEEDS),--seeds $(SEEDS) --seconds 1e9,--seconds $(or $(SECONDS),60))
	$(BIN)/python -m campaign --rooms $(if $(ROOM_SEEDS),--seeds $(ROOM_SEEDS) --seconds 1e9,--seconds $(or $(SECONDS),60))

campaign-mutants: $(VENV)/tools  ## list the mutants of engine and journal and the seed that catches each
	$(BIN)/python -m campaign.mutants

verification: $(VENV)/installed  ## the results of the model checker (LONG=1: those of the long searches, an hour)
	$(BIN)/python -m bench.verification $(if $(LONG),--long)
	$(BIN)/python -m bench.joins $(if $(LONG),--long)

lock: $(VENV)/tools  ## renew requirements/dev.txt from dev.in
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m uv pip compile --quiet --upgrade --universal --no-strip-extras --generate-hashes \
	  --no-annotate --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command 'make lock' requirements/dev.in -o requirements/dev.txt

clean:  ## remove everything that make made
	rm -rf $(VENV) $(VENV)-stores docs/_build build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .coverage
