# `make demo` and `make test` do all the set-up, from a fresh clone on a fresh Debian-like machine.

PYTHON ?= python3
BIN := .venv/bin
ENGINES := .venv/.engines
STAMP := .venv/.installed
DEMO := demo
# Two processes of tests, a file of tests each: more would disturb those that measure.
WORKERS ?= -n 2 --dist loadfile
# The servers that the tests start for themselves, and what has an interpreter of its own.
SERVERS := postgresql mariadb redis valkey ferretdb wendelin influxdb victoriametrics questdb clickhouse cassandra \
	sysbench versitygw minio
# What is imported is compiled to bytecode then; most never is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test check lint lock reference setup system servers clean

demo: $(ENGINES)
	$(BIN)/dyno run records --samples 5 -o $(DEMO).json --overwrite
	$(BIN)/dyno report $(DEMO).json --overwrite
	@echo "The page: file://$(CURDIR)/$(DEMO).html"

test: system setup servers lint
	$(BIN)/pytest $(WORKERS) $(PYTEST)

# The inner loop, about a minute: tests that start no process.
check: lint
	$(BIN)/pytest $(WORKERS) -m "not soak and not processes" tests/unit tests/stats tests/docs $(PYTEST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if cargo fmt --version >/dev/null 2>&1; then cd rust && cargo fmt --all --check; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd rust && cargo clippy --quiet --release --locked -- -D warnings; fi

# The pages of docs/ that follow from tables in the code.
reference: setup
	$(BIN)/python tools/reference.py

setup: $(STAMP)

# Dyno, the engines that the demo runs and the report. The build back end is in the lock file too, so nothing unpinned
# is installed.
$(ENGINES): requirements-demo.lock pyproject.toml setup.py rust/Cargo.toml rust/Cargo.lock \
		$(wildcard rust/*/Cargo.toml rust/*/src/*.rs)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or later is needed; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || PYTHON=$(PYTHON) sh tools/system-packages python3-venv
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements-demo.lock
	@# One that was built for a single version of Python would be imported before the one for all.
	rm -f src/dyno/_native*.so
	$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'import dyno._native' 2>/dev/null || \
		echo "The native loop was not built; for it, install a Rust toolchain (cargo) and run: make -B setup"
	@# The bytecode of pip, which has done its work.
	@find .venv -name __pycache__ -prune -exec rm -r {} +
	@touch $@

# All other engines' libraries, and what the tests need.
$(STAMP): $(ENGINES) requirements.lock
	$(PIP) --require-hashes -r requirements.lock
	@touch $@

# What tests need beside Python packages and servers. Without root and sudo it says so and goes on.
system:
	@PYTHON=$(PYTHON) sh tools/system-packages python3-venv strace cargo chromium fio nginx openssl galera-4 \
		pgbouncer wrk

# What can't be had here is said; its tests are skipped, or fail under CI=true.
servers: setup
	@$(BIN)/dyno install --yes $(SERVERS) || true

# Needs uv. The comments that it writes name no index and no path. What several files have is of one version.
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header
# What `dyno install` verifies packages by. It needs to know which package requires which.
LOCK := src/dyno/install/engines.lock
lock:
	$(COMPILE) --no-annotate --all-extras --group test --group bench pyproject.toml -o requirements.lock
	$(COMPILE) --no-annotate --extra embedded --extra report --group build -c requirements.lock pyproject.toml \
		-o requirements-demo.lock
	$(COMPILE) --annotation-style line --no-strip-extras --all-extras -c requirements.lock pyproject.toml -o $(LOCK)
	sed -i '/# via/{s/-c requirements.lock, //;s/, -c requirements.lock//;s/ (pyproject.toml)//}' $(LOCK)

clean:
	rm -rf .venv build rust/target src/dyno/_native*.so src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis $(DEMO).json $(DEMO).html
