# One list of commands, the same on a desk and in CI. `make` alone prints it.
VENV ?= .venv
PY := $(VENV)/bin/python
PORT ?= 8443
IDP_PORT ?= 9400
# The order in which all tests run: one everywhere, so that what fails in CI fails on a desk.
SEED ?= 1
# Concurrent tests; those of one file stay together, because they share what they start.
# Short forms of earlier releases.
CLASS ?= $(C)
TESTS ?= $(T)
JOBS ?= 5
PYTEST = $(PY) -m pytest -p tests.support.forks --forks=$(JOBS)
export VENV
# Compiled modules are kept for the next process: tests run in several, and start many.
unexport PYTHONDONTWRITEBYTECODE

# `make demo PYTHON=python3.12` chooses another than .ci/python does.
ENVIRONMENT = python="$${PYTHON:-$$(.ci/python)}" && "$$python" .ci/environment.py
COMPILE = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --no-emit-find-links --no-header

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help demo test test-fast check lint fix format docs docs-site image images screenshots words messages proto lock attack mutants bench clean tools venv venv-demo venv-test venv-others
.NOTPARALLEL:

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: venv-demo ## run gate on loopback without configuration (PORT=8443 IDP_PORT=9400)
	@exec $(PY) manage.py demo --port $(PORT) --idp-port $(IDP_PORT)

ifneq ($(TESTS),)
test: tools venv-test venv-others ## everything CI runs: lint, types, import contracts, all tests (TESTS=path: only these tests)
	@$(PY) -m pytest $(TESTS)
else
test: tools venv-test venv-others
	@# Compile all tests concurrently, which takes long in a new tree.
	@$(PY) -m pytest --collect-only -qq >/dev/null 2>&1 & $(MAKE) check; status=$$?; wait; exit $$status
	@$(PYTEST) --randomly-seed=$(SEED)
endif

test-fast: JOBS = 3# these wait for little
test-fast: venv-test ## what a change most likely breaks: lint, types, import contracts, unit tests, the matrix of verdicts
	@# At the same time, because one process collects the tests; what the checks say comes last.
	@output=$$(mktemp); $(MAKE) check >$$output 2>&1 & checks=$$!; \
	$(PYTEST) $(wildcard tests/unit tests/repo tests/mutants tests/contract/test_verdict_matrix.py); status=$$?; \
	wait $$checks || status=$$?; cat $$output; rm -f $$output; exit $$status

lint: check
check: venv-test ## format, lint, types, import contracts, generated pages, names, prose; changes nothing
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy gateproject proxy authenticate authorize databroker config foundation
	@$(VENV)/bin/lint-imports --no-cache
	@$(PY) manage.py settingsreference --check
	@$(PY) .ci/names
	@$(PY) .ci/prose

fix: format
format: venv-test ## format, and fix lint errors that have an automatic fix
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

docs: venv ## write the generated reference pages of settings, route keys, metrics and the API
	@$(PY) manage.py settingsreference

docs-site: venv-test ## build the documentation site into build/site; fails on dead links and unknown anchors
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

image: ## build the container image with docker, podman or buildah (TAG=gate)
	@deploy/compose/build_image $(or $(TAG),gate)

images: screenshots
screenshots: tools venv-test ## update the screenshots of README.md, from the demo with a browser
	@$(PY) -m tests.support.pictures

words: messages
messages: venv-test ## update and compile the message catalogs (foundation/locale)
	@$(PY) -m tests.support.catalogues

proto: venv-test ## generate the Python code of databroker.proto (tests/repo checks that it is current)
	@$(PY) -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. databroker/rpc/databroker.proto

lock: venv-test ## compile the requirement files from their .in files (U=--upgrade for newer versions)
	@$(COMPILE) $(U) requirements.in --output-file requirements.txt
	@$(COMPILE) $(U) requirements-demo.in --output-file requirements-demo.txt
	@$(COMPILE) $(U) requirements-dev.in --output-file requirements-dev.txt

attack: tools venv-test ## all attack classes against the running product (CLASS=B5: only that class)
	@$(if $(CLASS),,GATE_POLICY_CASES=20000 GATE_DIRECTORY_FAULTS=all $(PY) -m pytest -q tests/contract/test_policy_reference.py tests/contract/test_directories.py)
	@$(PY) -m tests.attack.run $(if $(CLASS),--class $(CLASS))

mutants: tools venv-test ## mutation testing: disable one guard at a time (ALL=1: also in packages that were not worked through)
	@$(PY) -m tests.mutants $(if $(ALL),--all)

bench: tools venv-test ## all benchmarks, as tables with ratios measured in one run
	@status=0; for name in decision agent_tokens web.decision_log config_load web.sign_in_pages peers streaming config_reload websockets mcp_routes tcp_tunnels slow_clients stalled_readers stores.store_operations stores.split_services stores.directory_sync stores.scim_push external_envoy web.admin_pages route_metrics web.portal_page; do $(PY) -m bench.$$name || status=1; done; exit $$status

clean: ## remove the environment and every cache
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis tests/support/*/node_modules tests/support/readers/*/node_modules tests/support/readers/*/built tests/support/helm/built tests/support/h2spec/built
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@.ci/test-tools

venv:
	@$(ENVIRONMENT) requirements.txt

venv-demo:
	@$(ENVIRONMENT) requirements.txt requirements-demo.txt

venv-test:
	@$(ENVIRONMENT) requirements.txt requirements-demo.txt requirements-dev.txt

venv-others:
	@$(PY) .ci/other_pythons.py
