# `make check` is exactly what CI runs; the others are parts of it.
PYTHON ?= .venv/bin/python

.PHONY: check test lint format bench

check:
	bash .ci/run

test:
	$(PYTHON) -m pytest

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench:
	$(PYTHON) -m benchmarks.run
