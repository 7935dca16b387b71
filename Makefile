# `make check` is exactly what CI runs; the others are parts of it.
PYTHON ?= .venv/bin/python

.PHONY: check test lint format bench reference site pictures

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

reference:  # docs/commands.md, from the commands themselves
	PYTHONPATH=src:tests $(PYTHON) tests/docs/commands_page.py

site:  # the documentation as a site, in build/site; needs the extra docs
	$(PYTHON) -m zensical build --clean --strict -f mkdocs.yml

pictures:  # docs/pictures/*.svg in the README, from real runs
	$(PYTHON) docs/site/pictures.py
