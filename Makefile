# make demo   sets up, runs the embedded demo and prints its table
# make test   sets up, then lint, format, types and all tests
# make soak   the tests that take minutes each: kills, many processes
# Both make .venv when it is absent, and again when the dependencies change.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test soak clean

# torch goes first and pinned: left to the resolver, a newer one with gigabytes of CUDA libraries may be taken.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/aevlp demo --out demo-run

test: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -n 2

soak: .venv/installed
	$(BIN)/pytest -n 2 -m soak

clean:
	rm -rf .venv demo-run
