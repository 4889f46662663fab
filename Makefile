# apviz: make demo | dashboard | notebooks | docs | lite | lab | check | test | test-slow | test-gpu | test-trust | mutants | coverage | audit | lint | dist | bench | gpu-kit | screenshots
PYTHON ?= python3
VENV   ?= .venv
# another build for another machine: make demo TORCH="torch==2.13.0" TORCH_INDEX=https://download.pytorch.org/whl/cu130
TORCH  ?= torch==2.13.0
# without a GPU, PyTorch's CPU build, a tenth of the size
TORCH_INDEX ?= $(shell command -v nvidia-smi >/dev/null 2>&1 || echo https://download.pytorch.org/whl/cpu)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
N      ?= 13696

.PHONY: demo dashboard notebooks docs lite lab check test test-slow test-gpu test-trust test-sanitized mutants coverage audit lint dist bench gpu-kit screenshots clean

demo: $(VENV)/installed
	$(BIN)/apviz compare --dataset china --n $(N) --methods ap,overlap,cg,pcg,schwarz --block-sizes 250,1000 --rank 100 \
	  --max-epochs 100 --pictures 30 --out runs/demo

dashboard: $(VENV)/installed
	$(BIN)/apviz dashboard

# every notebook is run, and written as a page that needs neither Python nor a network
notebooks: $(VENV)/installed-dev
	$(BIN)/python -m notebooks.build

# the site, docs/build/index.html; the notebooks' pages in it are made where they are not there, or older
docs: $(VENV)/installed-dev notebooks/html/index.html
	rm -rf docs/build docs/figures docs/api/names
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/build
	@echo docs/build/index.html

notebooks/html/index.html: $(wildcard notebooks/*.ipynb notebooks/kit/*.* notebooks/build/*.py notebooks/build/templates/*.*)
	$(MAKE) notebooks

# a notebook for the browser's Python, docs/build/lite, next to a site to be published: it takes Pyodide from a CDN
lite: $(VENV)/installed-dev
	$(PIP) --editable ".[lite]"
	rm -rf notebooks/lite/pypi
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir notebooks/lite/pypi .
	cd notebooks/lite && $(abspath $(BIN))/jupyter lite build

lab: $(VENV)/installed-lab
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb

# for the loop of a change: lint, types, imports, and the tests of the core
check: lint
	$(BIN)/python -m pytest -q -n 2 -m "not slow" tests/solvers/test_alternating_projection.py \
	  tests/solvers/test_conjugate_gradient_and_cholesky.py tests/solvers/test_own_solver.py tests/solvers/test_choices.py \
	  tests/operators/test_native.py tests/kernels tests/test_registry_of_methods.py tests/test_documents.py \
	  tests/test_sizes.py

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow

# the tests of what solves, on a GPU; TORCH_INDEX above has a build of PyTorch for it
test-gpu: $(VENV)/installed-dev
	APVIZ_DEVICE=cuda $(BIN)/python -m pytest -m "not slow" $(addprefix tests/,kernels operators solvers preconditioners gp gpytorch tracing)

# random cases against what is promised, as long as wanted: make test-trust BUDGET=2h
test-trust: $(VENV)/installed-dev
	$(BIN)/python -m tests.trust --budget $(or $(BUDGET),10m)

# the compiled engine under the address and undefined-behaviour sanitizers of g++
test-sanitized: $(VENV)/installed-dev
	XDG_CACHE_HOME=$$(mktemp -d) LD_PRELOAD=$$(g++ -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	CXX="g++ -fsanitize=address,undefined -fno-sanitize-recover=undefined -g" \
	  $(BIN)/python -m pytest -s tests/operators/test_operators.py tests/operators/test_accuracy.py

# branches of the core that its tests take, at least 95%; [tool.coverage] in pyproject.toml says which files
coverage: $(VENV)/installed-dev
	$(PIP) "coverage>=7.10"
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -p no:xdist -m "not slow" tests/test_rules.py tests/test_partitions.py \
	  tests/test_skeletons.py tests/test_factors.py tests/test_stacked_factors.py tests/preconditioners tests/solvers \
	  tests/operators tests/gp/test_prior_series.py tests/gp/test_gradient.py
	$(BIN)/coverage run -m pytest -q -p no:xdist -m slow -k "not dense_float64" tests/solvers/test_refinement.py \
	  tests/solvers/test_handover.py
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(BIN)/coverage json --quiet -o $(VENV)/coverage.json
	$(BIN)/python -c "import json; of = json.load(open('$(VENV)/coverage.json'))['totals']['percent_branches_covered']; \
	  print(f'branches: {of:.1f}%'); raise SystemExit(of < 95)"

# one thing after another in the core is changed, and a test must fail: make mutants ONLY='apviz.rules*' SAMPLE=40
mutants: $(VENV)/installed-dev
	$(PIP) "mutmut>=3.8"
	$(BIN)/python -m tests.trust.mutants $(if $(ONLY),'$(ONLY)') $(if $(SAMPLE),--sample $(SAMPLE))

# known vulnerabilities of everything that is installed, PyTorch's build by its version, and unsafe habits of the workflows;
# asks the index of packages, and fails where that does not answer
audit: $(VENV)/installed-dev
	$(PIP) "pip-audit>=2.9" "zizmor>=1.30"
	$(BIN)/zizmor --offline --quiet .
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+[^=]*$$//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off --requirement $(VENV)/audited.txt

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

# the source archive and a wheel made from it, dist/, checked; the version is the tag's. The release workflow makes the
# other wheels, by cibuildwheel
dist: $(VENV)/bin/python
	$(PIP) "build>=1.3" "twine>=6.2" "check-wheel-contents>=0.6.3"
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	@ls -sh dist

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks $(PARTS)

# wheels and data for a run on a GPU machine without a network, from APVIZ_DATA; there: sh benchmarks/gpu.sh .gpu-kit OUT
gpu-kit: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.gpu.kit --to .gpu-kit

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "apviz needs Python 3.11 or newer; say which with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/torch: $(VENV)/bin/python
	$(PIP) --no-deps "$(TORCH)" $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	@touch $@

$(VENV)/installed: $(VENV)/torch pyproject.toml
	$(PIP) --editable ".[dashboard]"
	@touch $@

$(VENV)/installed-lab: $(VENV)/torch pyproject.toml
	$(PIP) --editable ".[dashboard,gpytorch,notebook]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(VENV)/torch pyproject.toml
	$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/installed $(VENV)/installed-lab

# every page of the dashboard and every widget, as a browser shows them: make screenshots TO=folder
TO ?= screenshots
screenshots: $(VENV)/installed-dev
	$(BIN)/python -m tests.dashboard.screenshots $(TO)
	$(BIN)/python -m tests.widgets.screenshots $(TO)

clean:
	rm -rf docs/build docs/figures docs/api/names mutants $(VENV) .pytest_cache .hypothesis .mypy_cache .ruff_cache
