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
CLASSROOM_PYTHON := .venv-classroom/bin/python
# The class of make test-classroom: the small one, or with -m slow the whole one.
CLASS ?= -m "not slow"

.PHONY: help lab test test-all test-colab test-oracles test-classroom test-fresh mutants notebooks stamp write-back bench \
	classroom constraints clean environment environments
.NOTPARALLEL:

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' Makefile

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

# Both speeds are one suite: a test marked `slow` is left to the second.
test: environment ## check the book in under a quarter of an hour: style, library, exercises, a chapter in the browser, nbval
	@CHROMIUM="$$($(BOOK_PYTHON) tools/environment.py browser)" && export CHROMIUM && \
	echo "ruff: style" && $(BOOK_PYTHON) -m ruff check --output-format concise . && \
	echo "pytest: library, builder, exercises, browser ($$CHROMIUM)" && $(BOOK_PYTHON) -m pytest -m "not slow" && \
	echo "nbval: every notebook, run again and held against its stored outputs" && \
	PYTHONHASHSEED=0 $(BOOK_PYTHON) -m pytest --nbval --nbval-current-env notebooks
	@$(MAKE) --no-print-directory test-classroom

test-all: environments ## check the rest: every chapter in every front end, in Colab's kernel, packages, oracles, a whole class
	@CHROMIUM="$$($(BOOK_PYTHON) tools/environment.py browser)" && export CHROMIUM && \
	echo "pytest: what make test leaves out ($$CHROMIUM)" && $(BOOK_PYTHON) -m pytest -m slow
	@$(MAKE) --no-print-directory test-oracles
	@$(MAKE) --no-print-directory test-classroom CLASS="-m slow"

test-colab: environment ## run every chapter in a kernel with Colab's versions and move its explorers there
	@$(BOOK_PYTHON) tools/environment.py colab
	@echo "pytest: every chapter with Colab's versions" && $(BOOK_PYTHON) -m pytest tests/test_colab.py

test-oracles: environment ## hold the schemes against other libraries' versions
	@$(BOOK_PYTHON) tools/environment.py oracles
	@echo "pytest: the schemes against other libraries' versions" && $(BOOK_PYTHON) -m pytest tests/oracles

test-classroom: ## assign, collect and grade a small class
	@"$(PYTHON)" tools/environment.py classroom
	@if reason="$$($(CLASSROOM_PYTHON) -m classroom isolation)"; then \
		echo "pytest: the classroom" && $(CLASSROOM_PYTHON) -m pytest tests/classroom $(CLASS); \
	else echo "THE CLASSROOM WAS NOT TESTED. $$reason"; fi

test-fresh: ## do in an empty folder exactly what README.md says, and look at what comes of it
	@"$(PYTHON)" tools/fresh_machine.py

mutants: environment ## print how each exercise's check meets right answers, known mistakes and others
	@$(BOOK_PYTHON) -m tests.mutants

notebooks: environment ## build and execute the notebooks from chapters/ (CHAPTER=02: only one)
	@$(BOOK_PYTHON) -m builder build $(CHAPTER)

stamp: environment ## write the address and tag of book.toml into first cells, badges and README.md
	@$(BOOK_PYTHON) -m builder stamp

write-back: environment ## carry an edited notebook's cells back into its chapter (NOTEBOOK=notebooks/....ipynb)
	@test -n "$(NOTEBOOK)" || { echo "Say which: make write-back NOTEBOOK=notebooks/02_sinusoidal_by_hand.ipynb" >&2; exit 1; }
	@$(BOOK_PYTHON) -m builder write-back "$(NOTEBOOK)"

classroom: ## set up what an instructor needs to assign and grade (docs/classroom.md)
	@"$(PYTHON)" tools/environment.py classroom
	@echo "Ready: .venv-classroom/bin/python -m classroom --help lists what it can do."

bench: environment ## time the library and the explorers against their peers
	@$(BOOK_PYTHON) -m benchmarks

constraints: ## pin anew what the requirements files bring along
	@"$(PYTHON)" tools/environment.py constraints

clean: ## remove the environments and all that running leaves behind
	rm -rf .venv .venv-colab .venv-classroom .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name .git -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +

environment:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "There is no $(PYTHON): install Python 3.11 or newer, or name one: make lab PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" tools/environment.py book

environments: environment
	@$(BOOK_PYTHON) tools/environment.py colab
