# The book's commands; `make` alone lists them. Works with GNU make 3.81 and later.

# Python 3.11 or newer, used once to make .venv. Another one: make lab PYTHON=python3.12
PYTHON ?= python3
# make lab TORCH=cpu takes PyTorch's CPU build: hundreds of megabytes in place of gigabytes on Linux.
TORCH ?=
# make notebooks CHAPTER=02 builds one chapter; make write-back NOTEBOOK=... names the edited notebook.
CHAPTER ?=
NOTEBOOK ?=
# More arguments for JupyterLab, for example LABARGS="--port=9000"
LABARGS ?=

BOOK_PYTHON := .venv/bin/python

.PHONY: help lab test mutants test-oracles notebooks write-back bench constraints clean environment environments
.NOTPARALLEL:

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

lab: environment ## open the book in JupyterLab (TORCH=cpu: small PyTorch; PYTHON=python3.12: another Python)
	@options=; \
	if [ "$$(id -u)" = 0 ]; then options="$$options --allow-root"; fi; \
	if [ -n "$$SSH_CONNECTION" ] || { [ "$$(uname)" = Linux ] && [ -z "$$DISPLAY$$WAYLAND_DISPLAY" ]; }; then \
		options="$$options --no-browser"; \
		echo "No desktop here: open the address below in a browser. Ctrl-C stops the book."; \
	fi; \
	exec $(BOOK_PYTHON) -m jupyterlab --ServerApp.root_dir="$(CURDIR)" \
		--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb \
		--Application.log_level=ERROR $$options $(LABARGS)

test: environments ## check everything: style, library, exercises, browser, every notebook against its outputs
	@CHROMIUM="$$($(BOOK_PYTHON) tools/environment.py browser)" && export CHROMIUM && \
	echo "ruff: style" && $(BOOK_PYTHON) -m ruff check --output-format concise . && \
	echo "pytest: library, builder, exercises, browser ($$CHROMIUM)" && $(BOOK_PYTHON) -m pytest && \
	echo "nbval: every notebook, run again and held against its stored outputs" && \
	PYTHONHASHSEED=0 $(BOOK_PYTHON) -m pytest --nbval --nbval-current-env notebooks

test-oracles: environment ## hold the schemes against other libraries' versions
	@$(BOOK_PYTHON) tools/environment.py oracles
	@echo "pytest: the schemes against other libraries' versions" && $(BOOK_PYTHON) -m pytest tests/oracles

mutants: environment ## print how each exercise's check meets right answers, known mistakes and others
	@$(BOOK_PYTHON) -m tests.mutants

notebooks: environment ## build and execute the notebooks from chapters/ (CHAPTER=02: only one)
	@$(BOOK_PYTHON) -m builder build $(CHAPTER)

write-back: environment ## carry an edited notebook's cells back into its chapter (NOTEBOOK=notebooks/....ipynb)
	@test -n "$(NOTEBOOK)" || { echo "Say which: make write-back NOTEBOOK=notebooks/02_sinusoidal_by_hand.ipynb" >&2; exit 1; }
	@$(BOOK_PYTHON) -m builder write-back "$(NOTEBOOK)"

bench: environment ## time the library and the explorers against their peers
	@$(BOOK_PYTHON) -m benchmarks

constraints: ## pin anew what the three requirements files bring along
	@"$(PYTHON)" tools/environment.py constraints

clean: ## remove the environments and all that running leaves behind
	rm -rf .venv .venv-colab .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name .git -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +

environment:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "There is no $(PYTHON): install Python 3.11 or newer, or name one: make lab PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" tools/environment.py book

environments: environment
	@$(BOOK_PYTHON) tools/environment.py colab
