# `make demo` and `make test` do all the set-up, from a fresh clone on a fresh Debian-like machine.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEMO := demo
# Two processes of tests, a file of tests each: more would disturb those that measure.
WORKERS ?= -n 2 --dist loadfile

.PHONY: demo test lint lock setup system programs clean

demo: setup
	$(BIN)/dyno run records --samples 5 -o $(DEMO).json --overwrite
	$(BIN)/dyno report $(DEMO).json --overwrite
	@echo "The page: file://$(CURDIR)/$(DEMO).html"

test: system programs setup lint
	$(BIN)/pytest $(WORKERS) $(PYTEST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if cargo fmt --version >/dev/null 2>&1; then cd rust && cargo fmt --check; fi
	@if cargo clippy --version >/dev/null 2>&1; then cd rust && cargo clippy --quiet --release --locked -- -D warnings; fi

setup: $(STAMP)

# The build back end is in the lock file too, so nothing unpinned is installed.
$(STAMP): requirements.lock pyproject.toml rust/Cargo.toml rust/Cargo.lock $(wildcard rust/src/*.rs)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or later is needed; name one: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory system
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'import dyno._native' 2>/dev/null || \
		echo "The native loop was not built; for it, install a Rust toolchain (cargo) and run: make -B setup"
	@touch $@

# What tests need beside Python packages. Without root and sudo it says so and goes on.
system:
	@PYTHON=$(PYTHON) sh tools/system-packages

# A server that no package brings: FerretDB, built where there is Go, in some minutes. Else its tests are skipped.
programs:
	@sh tools/ferretdb || true

# Needs uv. The comments that it writes name no index and no path.
lock:
	uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-header --no-annotate --all-extras --group test --group bench pyproject.toml -o requirements.lock

clean:
	rm -rf .venv build rust/target src/dyno/_native*.so src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis $(DEMO).json $(DEMO).html
