# `make check` is exactly what CI runs; the others are parts of it.
PYTHON ?= .venv/bin/python

.PHONY: check pythons test lint format bench reference site pictures code-server

check:
	bash .ci/run

pythons:  # unit and property tests on Python 3.11 to 3.13, those of pyenv too
	PATH="$$PATH:$$(echo $$HOME/.pyenv/versions/*/bin | tr ' ' ':')" bash .ci/pythons

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

pictures:  # docs/pictures of the README, from real runs; needs Chromium
	$(PYTHON) docs/site/pictures.py

# For tests/edge/test_vscode.py, which is skipped without it; 25 s the first time. What it would compile is not needed.
EDITOR = $(or $(CODE_SERVER),$(HOME)/.cache/lmm-code-server)
VSCODE = $(EDITOR)/node_modules/code-server/lib/vscode
NPM = npm --no-audit --no-fund --silent

code-server:  # Visual Studio Code as a server, and the extension packaged
	mkdir -p $(EDITOR)
	$(NPM) install --prefix $(EDITOR) --ignore-scripts code-server@4.99.4
	$(NPM) install --prefix $(VSCODE) --ignore-scripts --omit=dev
	cd editors/vscode && $(NPM) ci --ignore-scripts && $(NPM) run package
