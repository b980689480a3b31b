# `make run` and `make test` do all set-up: a virtual environment in .venv, everything installed, nothing else needed
# but Python 3.11 with venv, and bubblewrap (and Chromium for the browser tests).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := 2.13.0

.PHONY: run test check bench screenshots starter clean system

run: $(VENV)/.runtime system
	$(BIN)/rlvr studio

test: $(VENV)/.installed system check
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed
	for script in tests/bench/*.py; do echo "$$script" && $(BIN)/python "$$script" || exit 1; done

screenshots: $(VENV)/.installed
	$(BIN)/python tests/browser/screenshots.py

starter: $(VENV)/.installed
	$(BIN)/python -m trainer.starter.build --out assets/starter

$(VENV)/.runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or newer is needed: run make PYTHON=/path/to/python3.11'; exit 1; }
	@echo 'Setting up $(VENV): some minutes, once; most of it is the download of PyTorch.'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo 'Python cannot make a virtual environment. On Debian: apt-get install python3-venv'; exit 1; }
	@# Without a GPU the CPU build of torch saves gigabytes, where pip can find it.
	@$(BIN)/python -c 'import torch' 2>/dev/null || { \
	  if test -e /dev/nvidia0; then $(PIP) install -q "torch==$(TORCH)"; \
	  else $(PIP) install -q "torch==$(TORCH)+cpu" 2>/dev/null || $(PIP) install -q "torch==$(TORCH)"; fi; }
	@echo 'PyTorch is there. Installing the rest.'
	@$(PIP) install -q -e .
	@touch $@

$(VENV)/.installed: $(VENV)/.runtime
	@echo 'Installing what tests and checks need.'
	@$(PIP) install -q -e '.[dev]'
	@touch $@

# Isolation needs one system package; the product refuses to run model-written commands without it.
system:
	@command -v bwrap >/dev/null || \
	  echo 'bubblewrap is missing: tasks cannot run. On Debian: apt-get install bubblewrap'

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache screenshots
