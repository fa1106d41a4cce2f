# Everything is built by Meson; this is how people expect to call it.
#
#   make            build                        make install PREFIX=/usr/local
#   make demo       see it work                  make clean
#   make test       the tests, light             make format
#   make test-all   the heavy real parts, too    make bench
#   make test-heavy those alone
#   make fuzz       an hour for each fuzzer (FUZZ_SECONDS)
#   make wheel      the Python package for other machines
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

demo: all
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
	@tools/deps build test heavy
	@$(configure) heavy
	@$(compile)
	@tools/pypi $(BUILD)
	@tools/test-aarch64 $(BUILD)-aarch64
	@tools/run-tests $(BUILD) heavy

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

bench: all
	@tools/bench $(BUILD)

install:
	@tools/deps build
	@$(configure)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@$(compile)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

format:
	@tools/deps ci
	@tools/check-format --fix

clean:
	rm -rf $(BUILD) build-*

.PHONY: all demo test test-all test-heavy test-python wheel fuzz bench install format clean
