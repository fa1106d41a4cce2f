# Shortcuts; Meson does the work.
#
#   make              build
#   make demo         build gpuq and run a demonstration
#   make install      install everything below PREFIX (/usr/local)
#   make test         run the quick tests
#   make test-heavy   run the heavy tests
#   make test-all     run both
#   make test-slurm   run the tests on a real Slurm, which it installs (SEEDS='1 2 3': complete chaos runs on eight nodes)
#   make test-python  test the Python package with each Python version that is installed
#   make campaign     run all tests that take a seed, with new seeds, for an hour (CAMPAIGN_SECONDS, CAMPAIGN_SEED)
#   make faults       make each system call of add, run, keeper and prune fail once with each error (about half an hour)
#   make fuzz         run each fuzzer for an hour (FUZZ_SECONDS)
#   make bench        run the benchmarks
#   make bench-slurm  compare the queue on eight nodes with one machine and srun
#   make wheel        build a Python wheel for other machines
#   make dist         write the source archive of the last commit
#   make deb          build Debian packages of the last commit
#   make docs         build the manual as HTML
#   make format       format all C files
#   make clean        remove the build directories
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
