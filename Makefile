# What a newcomer needs is `make demo` and `make test`; `make help` lists the rest. Logic lives in Python, under tests/.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

# Which cluster the demo uses: sandbox (in one process) or kubernetes (the real control plane, see `make kubernetes`).
CLUSTER ?= sandbox
# A service that the demo kills in the middle: placer, binder, watcher or autoscaler.
KILL ?=
# REQUIRE=all: a skipped suite is a failure.
REQUIRE ?=
# Names of suites for `make test`; all of them where it is empty.
SUITES ?=
# Seed of the property tests and of the chaos suite; empty for a new one.
SEED ?=
# Minutes of the chaos suite's random workload; empty for its short form.
MINUTES ?=
# Scenarios of the comparison with kube-scheduler: how many (10), from which to which (7-9), or which (7,9).
SEEDS ?= 10
# Days that a release must be old before `make lock` takes it, and whether it may replace a version that is locked.
COOLDOWN_DAYS ?= 7
UPGRADE ?=

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
# What is installed is in the stamp's name: other requirements, or another place, and it is made again.
STAMP := $(VENV)/.installed-$(shell { cat requirements.lock pyproject.toml .ci/uv.txt; pwd; } | cksum | tr ' ' -)
COMPILE := pip compile --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet \
	--exclude-newer "$(COOLDOWN_DAYS) days" $(if $(UPGRADE),--upgrade)

# Every target that the help lists.
.PHONY: $(shell awk -F: '/^[a-z-]+:.*\#\# / {print $$1}' $(firstword $(MAKEFILE_LIST)))

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  variables:"
	@echo "    demo  CLUSTER=$(CLUSTER) (or kubernetes), KILL=placer|binder|watcher|autoscaler"
	@echo "    test  SUITES='unit …' selects, REQUIRE=all fails on skips, KUBECONFIG"
	@echo "    long, test-chaos  SEED=n repeats a run, MINUTES=n of random workload"
	@echo "    test-differential  SEEDS=$(SEEDS) (or 7-9, or 7,9)"
	@echo "    lock  COOLDOWN_DAYS=$(COOLDOWN_DAYS), UPGRADE=1 renews versions"

$(STAMP):
	@.ci/venv "$(VENV)" "$@"

venv: $(STAMP) ## only the environment; every other target makes it too

demo: $(STAMP) ## gangs placed before your eyes, in less than half a minute
	@$(BIN)/phalanx demo --cluster "$(CLUSTER)" $(if $(KILL),--kill "$(KILL)")

demo-dra: $(STAMP) ## 64 claims on eight nodes, one GPU tainted: 63 run
	@$(BIN)/phalanx demo --story devices --cluster "$(CLUSTER)"

test: $(STAMP) ## every suite, with a table at the end
	@$(PYTHON) -m tests.suites $(SUITES)

test-differential: $(STAMP) ## our placements beside those of kube-scheduler; SEEDS=n, 7-9 or 7,9
	@$(PYTHON) -m tests.differential --seeds "$(SEEDS)"

check: $(STAMP) ## the quick loop: format, lint, types, imports, stubs, unit tests
	@$(PYTHON) -m tests.suites check unit

test-chaos: $(STAMP) ## the binder killed at every step on a real API server
	@SEED=$(SEED) MINUTES=$(MINUTES) $(PYTHON) -m pytest -q -s tests/chaos

cases: $(STAMP) ## the faults from the field, replayed
	@$(PYTHON) -m tests.cases.run

demo-audit: $(STAMP) ## real control planes, broken on purpose, and what the audit finds of it
	@$(PYTHON) -m tests.audit.demo

kubernetes: $(STAMP) ## build the pinned Kubernetes control plane, once (9 minutes on two cores)
	@$(PYTHON) -m tests.kubernetes.build

deploy-tools: $(STAMP) ## kubectl and helm, for the manifests and their tests
	@$(PYTHON) -m tests.kubernetes.build --deploying

manifests: $(STAMP) ## render the chart with its defaults into deploy/default
	@$(PYTHON) -m tests.deploy.render

images: $(STAMP) ## one image per service; BASE=packages where no registry can be reached
	@$(PYTHON) -m deploy.images $(if $(BASE),--base "$(BASE)") --measure

kubernetes-node: $(STAMP) ## the same, with kubelet and kube-proxy
	@$(PYTHON) -m tests.kubernetes.build --node

proto: $(STAMP) ## generate the Python stubs from the .proto files
	@$(PYTHON) proto/generate.py

lint: $(STAMP) ## ruff, mypy, import rules and stubs, without running a test
	@$(PYTHON) -m tests.suites check

format: $(STAMP) ## format the code, and fix what ruff can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench-demo: $(STAMP) ## the demo against its goals
	@$(PYTHON) -m bench.demo

bench-audit: $(STAMP) ## the audit of a large cluster against its goals
	@$(PYTHON) -m bench.audit

bench-autoscaler: $(STAMP) ## the autoscaler against its goals; its last part takes minutes
	@$(PYTHON) -m bench.autoscaler

bench-binder: $(STAMP) ## the binder against bare loops and the native scheduler, on a real API server
	@$(PYTHON) -m bench.binder

bench-claims: $(STAMP) ## pods with a device each, end to end, against the native scheduler
	@$(PYTHON) -m bench.claims

bench-openb: $(STAMP) ## how much of a real GPU cluster is filled; SEEDS=n or 1-10
	@$(PYTHON) -m bench.openb --seeds "$(SEEDS)"

bench-placement: $(STAMP) ## the placer against its goals
	@$(PYTHON) -m bench.placement; placed=$$?; $(PYTHON) -m bench.placement_waking && exit $$placed

bench-watcher: $(STAMP) ## the watcher against its goals
	@$(PYTHON) -m bench.watcher

long: $(STAMP) ## more property examples, all of chaos, 300 scenarios beside kube-scheduler
	@$(PYTHON) -m pytest -q tests/property --hypothesis-profile=long --timeout=0 $(if $(SEED),--hypothesis-seed=$(SEED))
	@CHAOS=all SEED=$(SEED) MINUTES=$(or $(MINUTES),10) $(PYTHON) -m pytest -q -s tests/chaos --timeout=0
	@$(PYTHON) -m tests.differential --seeds 300
	@$(PYTHON) -m tests.differential.devices --seeds 20000

lock: $(STAMP) ## write requirements.lock anew, with releases older than COOLDOWN_DAYS
	@PATH="$$PATH:$(BIN)" uv $(COMPILE) pyproject.toml --all-extras --group dev --python-version 3.11 --universal -o requirements.lock
	@PATH="$$PATH:$(BIN)" uv $(COMPILE) pyproject.toml --extra metric-sources -c requirements.lock --no-annotate --python-version 3.11 \
		--python-platform x86_64-manylinux_2_28 -o deploy/images/requirements.lock

suites-table: $(STAMP) ## write the table of the suites, with the last times, into ARCHITECTURE.md
	@$(PYTHON) -m tests.suites.document

clean: ## remove what was built and cached, but not the environment
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
