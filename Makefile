# Shortcuts; Meson does the work.
#
#   make            build                        make install PREFIX=/usr/local
#   make demo       see it work                  make clean
#   make test       the light tests              make format
#   make test-all   light and heavy tests        make bench
#   make test-heavy only the heavy tests
#   make test-slurm the tests on a real Slurm, which it installs (SEEDS='1 2 3': seeds of complete chaos runs on eight nodes)
#   make bench-slurm  the queue on eight nodes, compared with one machine and srun
#   make fuzz       an hour for each fuzzer (FUZZ_SECONDS)
#   make campaign   all tests that take a seed, with new seeds, for an hour (CAMPAIGN_SECONDS, CAMPAIGN_SEED)
#   make faults     lets each system call of add, run, keeper and prune fail once with each error (about half an hour)
#   make wheel      a Python wheel for other machines
#   make dist       the source archive of the last commit
#   make docs       the manual as HTML
#   make deb        Debian packages of the last commit
#   make test-python  tests the Python package with each Python version that is installed
#
# tools/deps lists missing Debian packages and installs them; it asks before it runs sudo.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=

configure = tools/configure $(BUILD) $(abspath $(PREFIX))
compile = ninja -C $(BUILD) $(NINJAFLAGS)

all:
	@tools/deps build
	@$(configure)
	@$(compile)

# Builds only what tools/demo runs.
demo:
	@tools/deps demo
	@$(configure) demo
	@$(compile) gpuq gpuq-probe examples/demo
	@tools/demo $(BUILD)

test:
	@tools/deps build test
	@$(configure) tests
	@$(compile)
	@tools/run-tests $(BUILD) unit cli python

test-all:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-heavy

test-heavy:
	@tools/deps build test heavy docs deb slurm
	@$(configure) heavy
	@$(compile)
	@tools/pypi $(BUILD)
	@tools/whisper $(BUILD)
	@tools/test-aarch64 $(BUILD)-aarch64
	@tools/run-tests $(BUILD) heavy slurm

test-slurm:
	@tools/deps build test slurm
	@$(configure) tests
	@$(compile)
	@tools/run-tests $(BUILD) slurm

wheel:
	@tools/deps build python
	@tools/wheel build-python

test-python:
	@tools/deps build test python
	@tools/test-python build-python

FUZZ_SECONDS ?= 3600

fuzz:
	@tools/deps build ci
	@tools/fuzz $(FUZZ_SECONDS)

CAMPAIGN_SECONDS ?= 3600

campaign:
	@tools/deps build test heavy ci
	@$(configure) tests
	@$(compile)
	@tools/campaign $(BUILD) $(CAMPAIGN_SECONDS)

faults:
	@tools/deps build test
	@$(configure) tests
	@$(compile)
	@INJECT_POINTS=0 GD_BUILD=$(abspath $(BUILD)) GD_SOURCE=$(CURDIR) GPUQ=$(abspath $(BUILD))/gpuq \
		pytest-3 -q -rP -p no:cacheprovider -c tests/pytest.ini tests/faults

bench:
	@tools/deps build test
	@$(configure) tests
	@$(compile)
	@tools/bench $(BUILD)

bench-slurm:
	@tools/deps build test slurm
	@$(configure) tests
	@$(compile)
	@GD_BUILD=$(abspath $(BUILD)) bench/slurm.py

dist:
	@tools/dist $(BUILD)-dist

docs:
	@tools/deps docs
	@tools/docs $(BUILD)-docs

deb:
	@tools/deps build deb
	@tools/deb $(BUILD)-deb

install:
	@tools/deps build
	@$(configure) install
	@$(compile)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

format:
	@tools/deps ci
	@tools/check-format --fix

clean:
	rm -rf $(BUILD) build-*

.PHONY: all demo test test-all test-heavy test-slurm test-python wheel fuzz campaign faults bench bench-slurm dist docs deb install format clean
