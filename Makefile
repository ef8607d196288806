# Every chore is one verb. `make demo` and `make test` work on a fresh machine with git, make and Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
STAMP := $(VENV)/.assaymark-demo
DEV_STAMP := $(VENV)/.assaymark-dev
# pytest-xdist workers, of up to 2.3 GB in the slow tests; the engine's own threads are held to one in each. One more
# than there are processors, since many tests wait for processes and servers
JOBS ?= $(shell $(PYTHON) -c "import os; print(max(2, min(4, (os.cpu_count() or 2) + 1, os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // 3_000_000_000)))")
PYTEST = ASSAYMARK_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --durations 15

# where it is set, each of the hundreds of processes that the tests start compiles the package again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo install test install-slow test-slow oracles screenshots lint types types-windows types-macos format bench bench-web bench-gpu docs notebook dist clean

help:
	@echo "make demo    set up .venv, then evaluate two small models that come with the package"
	@echo "make test    set up .venv, then run the tests"
	@echo "make test-slow   the tests that take longest or need PostgreSQL, Ray or a browser"
	@echo "make oracles     what other tools answer the tests, asked anew"
	@echo "make screenshots take the pictures of pages again that test-slow compares"
	@echo "make lint    style and types"
	@echo "make bench   speed beside lm-evaluation-harness (QUICK=1: under ten minutes)"
	@echo "make bench-gpu   the same on a GPU, for a model of 1.2 billion parameters"
	@echo "make bench-web   time of the leaderboard's pages, filters and rank sets (QUICK=1: 10,000 simulated rows)"
	@echo "make dist    build wheel and sdist, check them, and run the demo from the wheel in an environment of its own"
	@echo "make notebook  write the tutorial as docs/tutorial/mmlu_from_scratch.ipynb, for Jupyter and Colab"
	@echo "make docs    write docs/cli.md and build the documentation in docs/_build/html"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Assaymark needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}. Name another: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"

# torch first and by itself, so that its CPU build is in place before anything else asks for torch
$(VENV)/.torch: | $(BIN)/python
	$(BIN)/python tools/install_torch.py $(TORCH)
	@touch $@

$(STAMP): pyproject.toml $(VENV)/.torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[hf,web]"
	@touch $@

$(DEV_STAMP): pyproject.toml $(VENV)/.torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[hf,hub,metrics,charts,lm-eval,web,docs,dev]"
	@touch $@ $(STAMP)

demo: $(STAMP)
	$(BIN)/assaymark demo

install: $(DEV_STAMP)

test: install
	$(PYTEST) -m "not slow"

# other tools' own code, which ours is compared with, each in an environment of its own: tests/applications/oracles/locked.py
ORACLES := $(patsubst tests/applications/oracles/%.txt,$(VENV)/oracles/.%,$(wildcard tests/applications/oracles/*.txt))
LIVE_ORACLES := $(VENV)/oracles/.bfcl $(VENV)/oracles/.profanity

# asks them everything anew and writes down what they answer
oracles: $(DEV_STAMP) $(ORACLES)
	rm -rf tests/records
	RENEW_ORACLES=1 $(BIN)/python -m pytest -q -m "needs_oracle or oracle"

install-slow: install $(VENV)/.ray $(VENV)/.llama $(VENV)/.axe $(LIVE_ORACLES)

# tests of what cannot be had here (Ray, PostgreSQL, a browser, llama.cpp) are skipped with the reason
test-slow: install-slow
	$(PYTEST) -m slow

screenshots: $(DEV_STAMP)
	RENEW_SCREENSHOTS=1 $(PYTEST) -m slow tests/web/test_screenshots.py

$(VENV)/.ray: $(DEV_STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[cluster]" \
	  || echo "Ray could not be installed: its tests are skipped"
	@touch $@

# llama.cpp is compiled, which takes minutes; a test's model is small, so little optimization does. `gguf` writes that
# model, `server` runs it
LLAMA_FLAGS := -DLLAVA_BUILD=OFF -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1
$(VENV)/.llama: $(DEV_STAMP)
	@CMAKE_ARGS="$(LLAMA_FLAGS)" $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[gguf]" gguf "llama-cpp-python[server]" \
	  || echo "llama.cpp could not be compiled: its tests are skipped"
	@touch $@

# axe-core reads the pages for what keeps people from using them
$(VENV)/.axe: | $(BIN)/python
	@npm install --silent --no-save --no-package-lock axe-core || echo "axe-core could not be installed: its tests are skipped"
	@touch $@

# other tools have environments of their own, with locked versions, since their dependencies are not ours; every-eval-ever
# asks for a later Python than its validator and converters need
$(VENV)/oracles/.%: tests/applications/oracles/%.txt | $(BIN)/python
	@mkdir -p $(VENV)/oracles
	@($(PYTHON) -m venv $(VENV)/oracles/$* \
	  && $(VENV)/oracles/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --requirement $<) \
	  || { rm -rf $(VENV)/oracles/$*; echo "$* could not be installed: its tests are skipped"; }
	@touch $@

# confseq as a whole needs Boost to compile; the sequences that ours are compared with are Python and are unpacked as they are
CONFSEQ := confseq-0.0.11
$(VENV)/oracles/.confseq: tests/applications/oracles/confseq.txt | $(BIN)/python
	@mkdir -p $(VENV)/oracles
	@($(PYTHON) -m venv $(VENV)/oracles/confseq \
	  && cd $(VENV)/oracles/confseq \
	  && bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $(abspath $<) \
	  && bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary confseq $(subst -,==,$(CONFSEQ)) \
	  && tar --extract --gzip --file $(CONFSEQ).tar.gz --strip-components 2 --directory lib/python3.*/site-packages $(CONFSEQ)/src/confseq) \
	  || { rm -rf $(VENV)/oracles/confseq; echo "confseq could not be installed: its tests are skipped"; }
	@touch $@

# code for one system cannot be reached on another; what runs in a sandbox is Linux's alone, and is not imported
MYPY_ELSEWHERE := --no-warn-unreachable --exclude 'library/.*\.py$$' --exclude 'scoring/(code_guard|code_runner|bfcl_simulator)\.py$$' src

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/write_cli_page.py --check
	@$(MAKE) --no-print-directory --jobs 2 types types-windows types-macos

types: $(DEV_STAMP)
	$(BIN)/mypy
types-windows: $(DEV_STAMP)
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows $(MYPY_ELSEWHERE)
types-macos: $(DEV_STAMP)
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/macos $(MYPY_ELSEWHERE)

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_STAMP)
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick)
	$(BIN)/python benchmarks/generate_speed.py --load gsm8k --samples $(if $(QUICK),16,64)
	$(BIN)/python benchmarks/generate_speed.py --load bbh --samples $(if $(QUICK),16,64)
	$(if $(QUICK),,$(BIN)/python benchmarks/growth.py)

bench-gpu: $(DEV_STAMP)
	$(BIN)/python benchmarks/gpu.py $(if $(QUICK),--quick)

bench-web: $(DEV_STAMP)
	$(BIN)/python benchmarks/web_speed.py $(if $(QUICK),--rows 10000)

# warnings are errors; links to other sites are not followed
docs: $(DEV_STAMP)
	$(BIN)/python tools/write_cli_page.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

# without outputs: Jupyter computes them
notebook: $(DEV_STAMP)
	$(BIN)/jupytext --quiet --to ipynb docs/tutorial/mmlu_from_scratch.md

# the wheel is installed alone in an environment without the source tree, as a user would install it
DIST_ENV := build/dist-env
dist: $(DEV_STAMP)
	rm -rf dist $(DIST_ENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(DIST_ENV)
	$(DIST_ENV)/bin/python tools/install_torch.py $(TORCH)
	$(DIST_ENV)/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[hf]"
	cd $(DIST_ENV) && HOME=$$PWD/home PYTHONPATH= bin/assaymark demo

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .ruff_cache .pytest_cache
