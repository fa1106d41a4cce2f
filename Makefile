# Everything is built by Meson; this is how people expect to call it.
#
#   make            build                        make install PREFIX=/usr/local
#   make demo       see it work                  make clean
#   make test       the tests, light             make format
#   make test-all   the heavy real parts, too    make bench
#
# What is missing on a Debian system is installed first (tools/deps).

BUILD  ?= build
PREFIX ?= /usr/local
DESTDIR ?=

all: deps-build
	$(configure)
	$(compile)

demo: deps-build
	$(configure)
	$(compile)
	@tools/demo $(BUILD)

test: deps-test
	$(configure)
	$(compile)
	@tools/run-tests $(BUILD) unit cli

test-all: deps-heavy
	$(configure)
	$(compile)
	@tools/pypi $(BUILD)
	@tools/run-tests $(BUILD) unit cli heavy

bench: deps-build
	$(configure)
	$(compile)
	@tools/bench $(BUILD)

install: deps-build
	$(configure)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	$(compile)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

format:
	@tools/deps ci
	@tools/check-format --fix

clean:
	rm -rf $(BUILD) build-*

# libdir: where one looks for it under any prefix; Debian's default has the architecture in it.
define configure
@test -e $(BUILD)/build.ninja || meson setup $(BUILD) -Dprefix=$(abspath $(PREFIX)) -Dlibdir=lib
endef

compile = @ninja -C $(BUILD) $(NINJAFLAGS)

deps-build:
	@tools/deps build

deps-test:
	@tools/deps build test

deps-heavy:
	@tools/deps build test heavy

.PHONY: all demo test test-all bench install format clean deps-build deps-test deps-heavy
