# Every command of the house. `make` alone lists them.
# Nothing needs to be installed before: what a target needs, it sets up first, once.

.DEFAULT_GOAL := help
.PHONY: help lab test quick thorough check build grade selftest attack mock matrix bench bench-loss bench-gpu gpu record record-mocked wheelhouse book clean env-lab env-dev

VENV ?= .venv
BIN = $(VENV)/bin

# The Python that makes the environment: the one already in it, else the newest supported one that
# runs (a pyenv shim may be there and not run), else any at all, which then says that it is too old.
# Yours to choose: make PYTHON=/path/to/python3.12
GPU_PYTHON ?= python3
SUPPORTED = import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
READABLE = import sys; sys.exit(sys.version_info < (3, 6))
PYTHON ?= $(shell \
	for p in $(BIN)/python python3.13 python3.12 python3.11 python3 python; do \
		"$$p" -c '$(SUPPORTED)' >/dev/null 2>&1 && echo "$$p" && exit; done; \
	for p in python3 python; do "$$p" -c '$(READABLE)' >/dev/null 2>&1 && echo "$$p" && exit; done)
NO_PYTHON = Cannot go on. Python 3.11 to 3.13 is needed and no such Python runs here: \
	install it (Debian, Ubuntu: sudo apt-get install python3 python3-venv), then type make again.

# Each jail, worker and kernel imports hundreds of our files. A jail may keep no bytecode of them, and
# nobody does where Python is told so: then thousands of processes would compile each file anew.
unexport PYTHONDONTWRITEBYTECODE
COMPILE = $(BIN)/python -m compileall -q autograder onelayer

# JupyterLab opens a browser where there is a screen to open it on, and prints its address anyway.
# At this log level the address is all that it prints.
SCREEN = $(DISPLAY)$(WAYLAND_DISPLAY)$(filter Darwin,$(shell uname -s))
JUPYTER = $(BIN)/onelayer lab $(if $(IN),--language $(IN)) --log-level=ERROR \
	$(if $(SCREEN),,--no-browser) $(if $(filter 0,$(shell id -u)),--allow-root) $(JUPYTER_ARGS)

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

lab: env-lab ## set up what a student needs and open the course in JupyterLab (IN=es: in Spanish)
	@echo "JupyterLab starts; its address follows. Ctrl-C twice stops it."
	@$(JUPYTER)

test: env-dev check ## set up everything, then run every check and every test
	@$(COMPILE)
	$(BIN)/python -m pytest -n auto --dist loadfile

quick: check ## every check, and each test that takes no seconds: no jail, browser, compiler, class
	$(BIN)/python -m pytest --quick -n 2 --dist loadfile

thorough: env-dev ## the tests of which `make test` takes a sample: every page, every lab (half an hour)
	@$(COMPILE)
	$(BIN)/python -m pytest --thorough -n auto --dist loadfile

check: env-dev ## lint, format, types, import rules, and whether generated files are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m autograder.authoring build --check

build: env-dev ## write every notebook anew from its percent source
	$(BIN)/python -m autograder.authoring build

grade: env-dev ## grade a small sample class, partly hostile, and show the table
	$(BIN)/python -m autograder.attacks.sample_class build/sample_class
	$(BIN)/autograder grade build/sample_class --out build/sample_grading

selftest: env-dev ## ask every question of its right and its wrong answers
	$(BIN)/autograder selftest

attack: env-dev ## attack the grader on this machine; every attack must fail
	$(BIN)/autograder attack

bench: env-dev ## measure the grader: against nbgrader, at 1,000 submissions, after a kill (an hour)
	$(BIN)/python -m bench.grading

bench-loss: env-dev ## measure the fused loss of the head against its peers, on this CPU (five minutes)
	$(BIN)/python -m bench.head_loss

bench-gpu: ## the same on a GPU, with the Python and the torch that are there (GPU_PYTHON=...)
	"$(GPU_PYTHON)" -m bench.head_loss --device cuda

record: ## record on a GPU what chapters show where there is none (NAME=... for one of them)
	@"$(GPU_PYTHON)" -m bench.record $(NAME)

record-mocked: ## the same on a mocked device, what is true there (the Python of .venv-mock)
	@.venv-mock/bin/python -m bench.record --device mocked $(NAME)

gpu: ## grade every known answer of every lab on this machine's GPU (RIGHT=1: the right ones alone)
	@"$(GPU_PYTHON)" -m autograder.gpu $(if $(RIGHT),--right)

mock: ## run the tests of the mocked CUDA device on a CUDA build of torch (5 GB once)
	@"$(PYTHON)" -m bench.mock

matrix: ## run the course on the oldest, pinned and newest torch (ROW=2.11: on one of them)
	@"$(PYTHON)" -m bench.matrix $(ROW)

book: env-dev ## build the site (AUDIENCE=class: without solutions; IN=es: in Spanish too)
	$(BIN)/python -m book --audience $(or $(AUDIENCE),public) $(if $(IN),--language $(IN))

wheelhouse: ## gather wheels for a GPU node without a network (PYTHON=3.12; PEERS=1 for bench-gpu)
	@"$(firstword $(wildcard $(BIN)/python) python3)" -m setup_env.wheelhouse \
		--python $(if $(filter 3.%,$(PYTHON)),$(PYTHON),3.12) $(if $(PEERS),--peers)

clean: ## remove what tools left behind; the environment and your grades stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

# The two set-ups behind the commands above. `dev` contains `lab`; both live in the same folder.
env-lab env-dev: env-%:
	@"$(PYTHON)" -c '$(READABLE)' >/dev/null 2>&1 || { echo '$(strip $(NO_PYTHON))' >&2; exit 1; }
	@"$(PYTHON)" -m setup_env $* --venv "$(VENV)"
