# Start with `make demo` and `make test`. Both install what they need; later runs reuse it.
# The machine needs Python 3.11, Java 17, make and access to package registries. `make help` lists all targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3.11
WINDROW_CACHE := $(or $(WINDROW_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/windrow)
export WINDROW_CACHE

UV_VERSION := 0.13.9
UV_HOME := $(WINDROW_CACHE)/uv-$(UV_VERSION)
UV := $(UV_HOME)/bin/uv
BIN := .venv/bin

.PHONY: help setup demo cluster failover test fast faults breaks roots check docs torch bench soak installed dist audit sbom images compose clean preflight

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "make %-9s %s\n", $$1, $$2}'

# Bytecode is compiled here once: where the environment tells Python to write none (images often do), every process
# would compile thousands of modules again.
setup: preflight .venv/.synced ## install the environment into .venv, and the jars into the cache folder
	@$(BIN)/python -m compileall -q spark_jobs plugins dags
	@$(BIN)/python -m windrow.platform setup $(SETS)

demo: setup ## run a pipeline on real data through a real Airflow, and check its figures
	@$(BIN)/windrow demo

# A home of its own: one broker's home does not become a cluster's.
cluster: SETS := s3 store postgres
cluster: setup ## start a cluster on this machine: three brokers, Spark workers, an object store, PostgreSQL, Airflow
	@WINDROW_HOME="$${WINDROW_HOME:-.windrow/cluster}" $(BIN)/windrow up --cluster

failover: SETS := s3 store postgres
failover: setup ## run the demo on a cluster, kill a broker, a worker, a driver and the scheduler, and compare every row
	@$(BIN)/python benchmarks/failover.py

test: SETS := s3 store postgres registry
test: setup ## run the whole test suite with three workers
	@WINDROW_TORCH_PYTHON="$(or $(WINDROW_TORCH_PYTHON),$(wildcard $(WINDROW_CACHE)/torch/python))" \
	  $(BIN)/pytest -n 3 --max-worker-restart 0 --dist loadscope --no-loadscope-reorder --durations 40

fast: .venv/.synced ## run the tests of the contract, the pipeline file and the scenarios on paper
	@WINDROW_HISTORIES=100 $(BIN)/pytest tests/semantics tests/config tests/scenarios/test_scenarios.py

faults: setup ## run the long versions of the fault tests (docs/FAULTS.md) and more random histories: an hour and a half
	@WINDROW_ROUNDS=2000 WINDROW_LABELS=1000000 WINDROW_EARLIER=a107730 WINDROW_HISTORIES=5000 WINDROW_LIVES=24 \
	  WINDROW_RECORDS=1000000 \
	  $(BIN)/pytest tests/faults/test_fault_lock_step.py tests/faults/test_fault_hot_key.py tests/faults/upgrade \
	    tests/transforms/test_plain.py tests/semantics/test_histories.py tests/jobs/test_histories_on_spark.py \
	    tests/scenarios/test_scenarios_on_spark.py
	@WINDROW_BOTH_ROOTS=1 WINDROW_ROUNDS=2000 $(BIN)/pytest tests/faults/test_fault_race.py
	@WINDROW_COLD=1 $(BIN)/pytest tests/faults/test_faults.py tests/faults/test_fault_zombies.py

breaks: setup ## break the code in every known way: the tests must notice each (half an hour)
	@$(BIN)/python tests/proof/breaks.py
	@$(BIN)/python tests/proof/engine.py

check: .venv/.synced ## check style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

roots: SETS := s3 store
roots: setup ## run the tests of faults and upkeep with tables in a folder and in an object store
	@WINDROW_BOTH_ROOTS=1 $(BIN)/pytest -n 3 --dist loadscope -m both_roots tests

torch: $(UV) ## fetch torch for CPUs into the cache (150 MB, Debian 12), for the PyTorch recipe of docs/TRAINING.md; `make test` finds it
	@tests/docs/torch_python.sh "$(WINDROW_CACHE)/torch" "$(PYTHON)" "$(UV)"

docs: setup ## check that references in the documents resolve, and that examples in docstrings are right
	@$(BIN)/pytest tests/docs

bench: setup ## measure publishing 10 000 rows against starting a Spark session; benchmarks/README.md has the others
	@$(BIN)/python benchmarks/publish.py --variants session ours tasks

soak: setup ## run traffic and faults for MINUTES (60), from SEED (1), and compare every row with an independent truth
	@$(BIN)/python benchmarks/soak.py --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1)

installed: setup ## install Airflow and Spark anew without the repository, and publish rows there by the wheel (a quarter of an hour or more, 2.5 GB)
	@WINDROW_INSTALLED="$${WINDROW_INSTALLED:-1}" $(BIN)/pytest -s tests/platform/test_installed.py

dist: $(UV) ## build the wheel, for an Airflow and a Spark that are there already (docs/INSTALL.md)
	@$(UV) build --wheel --out-dir dist

audit: .venv/.synced ## ask about known weaknesses of the dependencies, and list their licences (docs/SECURITY.md)
	@UV=$(UV) docker/audit.sh

sbom: setup ## write dist/windrow.cdx.json, a bill of materials (CycloneDX) of Python packages and jars
	@$(BIN)/python docker/sbom.py $(UV)

images: $(UV) ## check docker/, and build the image with docker or buildah (minutes)
	@UV=$(UV) docker/images.sh

compose: ## run the demo on the services of docker/compose.yaml by `docker compose`, in the image of `make images` (minutes)
	@docker/demo.sh

clean: ## stop the platform and remove the environment; tables in .windrow and the jars are kept
	@for home in "$${WINDROW_HOME:-.windrow}" .windrow/cluster; do \
	  if [ -x $(BIN)/windrow ] && [ -d "$$home" ]; then WINDROW_HOME="$$home" $(BIN)/windrow down; fi; done
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# For everything that may be missing: a message that says what to do, before anything is downloaded.
preflight:
	@command -v $(PYTHON) >/dev/null && $(PYTHON) 2>/dev/null -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo "Python 3.11 is needed, and \`$(PYTHON)\` is not Python 3.11."; \
	  echo "  → install it, or name an installed one: make PYTHON=/path/to/python3.11 …"; exit 1; } >&2
	@for java in $${JAVA_HOME:+"$$JAVA_HOME/bin/java"} java /usr/lib/jvm/*/bin/java /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do \
	  if "$$java" -version 2>&1 | grep -qE 'version "(17|21)'; then exit 0; fi; done; \
	  { echo "Java 17 is needed to run Spark and Kafka, and was not found (JAVA_HOME, PATH, the usual folders)."; \
	    echo "  → install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME."; exit 1; } >&2
	@[ -e .venv/.synced ] || [ "$$(df -Pk . | awk 'NR == 2 {print $$4}')" -gt 6000000 ] || { \
	  echo "This disk has less than 6 GB free; the environment and a demo need about that much."; \
	  echo "  → make room, or clone to another disk."; exit 1; } >&2

.venv/.synced: pyproject.toml uv.lock | $(UV)
	@echo "Installing what uv.lock names into .venv (a few minutes the first time) …"
	@# An existing environment is updated in place, with its own interpreter path. For another path uv would replace the
	@# environment, also while processes are running from it.
	@base=$$(.venv/bin/python -c 'import sys; assert sys.version_info[:2] == (3, 11); print(".venv/bin/python")' 2>/dev/null \
	    || $(PYTHON) -c 'import sys; print(sys.executable)'); \
	  UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv $(UV) sync --frozen --extra local --compile-bytecode --python "$$base" || { \
	  echo "The environment could not be installed."; \
	  echo "  → read the message above; a retry keeps what has been downloaded. Disk full? UV_CACHE_DIR moves uv's cache."; exit 1; } >&2
	@touch $@

$(UV): | preflight
	@echo "Installing uv $(UV_VERSION) into $(UV_HOME) …"
	@rm -rf "$(UV_HOME)" "$(UV_HOME).new"
	@$(PYTHON) -m venv "$(UV_HOME)" || { \
	  echo "$(PYTHON) cannot create a virtual environment."; \
	  echo "  → install its venv module (Debian, Ubuntu: apt-get install python3.11-venv)."; exit 1; } >&2
	@"$(UV_HOME)/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)" || { \
	  echo "uv $(UV_VERSION) could not be installed by pip."; \
	  echo "  → does this machine reach a Python package index? (pip's own message is above)"; exit 1; } >&2
