# Everything is built by Meson; this is how people expect to call it.
#
#   make            build                        make install PREFIX=/usr/local
#   make demo       see it work                  make clean
#   make test       the tests, light             make format
#   make test-all   the heavy real parts, too    make bench
#   make test-heavy those alone
#   make test-slurm the tests on a real Slurm, which it installs (SEEDS='1 2 3': chaos on eight nodes, whole runs)
#   make bench-slurm  the queue on eight nodes beside one machine and srun
#   make fuzz       an hour for each fuzzer (FUZZ_SECONDS)
#   make campaign everything that is driven by seeds, for an hour (CAMPAIGN_SECONDS, CAMPAIGN_SEED)
#   make faults     every call of add, run, keeper and prune fails once, with every error (about half an hour)
#   make wheel      the Python package for other machines
#   make dist       the source archive of the last commit
#   make docs       the manual as HTML
#   make deb        Debian packages of the last commit
#   make test-python  the Python package with each Python that is found
#
# What is missing on a Debian system can be installed first: tools/deps says what, and asks before it runs sudo.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=

configure = tools/configure $(BUILD) $(abspath $(PREFIX))
compile = ninja -C $(BUILD) $(NINJAFLAGS)

all:
	@tools/deps build
	@$(configure)
	@$(compile)

# What tools/demo runs, and nothing else.
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
