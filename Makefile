# SPDX-License-Identifier: BSD-2-Clause
#
# The front door; meson and ninja do the work. Each target does the same here and on CI.
# `make help` lists them. Variables: BUILD (folder, default build), CC, JOBS, FUZZ_SECONDS, SEEDS,
# EVERY (of interop's cases each Nth).

BUILD ?= build
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SEEDS ?= 20000
EVERY ?= 1
PREFIX ?= /usr/local
NINJA = ninja -C $(1) -j $(JOBS)

# `make test` runs 10,000 seeds of the simulation; once more, built otherwise, fewer will do.
FEWER_SEEDS = -Dsim_seeds=2000

# A build folder whose configuration was interrupted has no build.ninja: begin again.
setup = [ -f $(1)/build.ninja ] || $(3) meson setup $(1) $(2)

.DEFAULT_GOAL := help
.PHONY: help build demo test apps churn interop format lint clang asan tsan valgrind fuzz soak bench performance docs coverage \
	install deps clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what building and testing needs and this machine lacks
	@tools/install-deps build test

build: ## build/uroce and the drop-in libraries in build/lib
	@tools/install-deps build
	@$(call setup,$(BUILD))
	@$(call NINJA,$(BUILD))

demo: ## two stock RDMA programs exchange real packets on this machine
	@tools/demo $(BUILD)

test: ## all tests; the last line is the count
	@tools/install-deps build test
	@tools/run-tests $(BUILD)

apps: build ## the tests with stock programs only, with every case shown
	@tools/install-deps test
	@tests/apps/run_apps.py --build $(BUILD)

churn: build ## a minute of processes that come and are killed beside others that verify
	@tests/apps/run_churn.py --build $(BUILD)

interop: build ## against the Linux kernel's soft-RoCE in a virtual machine (root)
	@tests/interop/run_interop --build $(BUILD) --every $(EVERY) || [ $$? = 77 ]

format: ## lay out the sources as .clang-format says
	@tools/install-deps lint
	@tools/sources | xargs clang-format-14 -i

lint: ## layout, clang-tidy, shell scripts and the project's own checks; changes nothing
	@tools/install-deps build lint
	@$(call setup,$(BUILD)-clang,$(FEWER_SEEDS),CC=clang-14)
	@tools/lint $(BUILD)-clang

clang: ## build and test with clang, without the stock programs
	@tools/install-deps build test clang
	@$(call setup,$(BUILD)-clang,$(FEWER_SEEDS),CC=clang-14)
	@tools/run-tests $(BUILD)-clang --no-suite apps

asan: ## AddressSanitizer and UBSan over all tests that need no stock program
	@tools/install-deps build test
	@$(call setup,$(BUILD)-asan,$(FEWER_SEEDS) -Db_sanitize=address$(comma)undefined -Db_lundef=false)
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1 \
		tools/run-tests $(BUILD)-asan --no-suite apps --no-suite house --timeout-multiplier 3

tsan: ## ThreadSanitizer over the unit tests and stock programs under faults
	@tools/install-deps build test
	@$(call setup,$(BUILD)-tsan,-Db_sanitize=thread -Db_lundef=false)
	@TSAN_OPTIONS=halt_on_error=1 setarch -R tools/run-tests $(BUILD)-tsan \
		--suite unit --timeout-multiplier 3
	@TSAN_OPTIONS='halt_on_error=1 exitcode=66' setarch -R tests/apps/run_apps.py \
		--build $(BUILD)-tsan --preload "$$($(CC) -print-file-name=libtsan.so)" --group faults

valgrind: ## memcheck over the unit tests and the pingpong programs
	@tools/install-deps build test clang valgrind
	@$(call setup,$(BUILD)-clang,$(FEWER_SEEDS),CC=clang-14)
	@tools/run-valgrind $(BUILD)-clang

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@tools/install-deps build clang
	@$(call setup,$(BUILD)-fuzz,-Dfuzz=true -Db_sanitize=address$(comma)undefined -Db_lundef=false,CC=clang-14)
	@tools/run-fuzz $(BUILD)-fuzz $(FUZZ_SECONDS)

soak: build ## the simulation over SEEDS, a range A..B or a count (20000), on all cores
	@tools/soak $(BUILD) $(SEEDS) $(JOBS)

bench: build ## the questions asked of speed, answered
	@tools/install-deps bench
	@meson test -C $(BUILD) --no-rebuild --benchmark --verbose
	@bench/run --build $(BUILD)
	@bench/pcap --size 256M $(BUILD)/uroce

performance: build ## measure again what docs/performance.md shows, and write it there
	@tools/install-deps bench
	@bench/run --build $(BUILD) --write docs

docs: ## the manual pages, in build/docs
	@tools/install-deps build
	@$(call setup,$(BUILD))
	@$(call NINJA,$(BUILD)) manuals
	@echo "read one with: man -l $(BUILD)/docs/uroce.1"

coverage: ## which lines the tests reach; report in build-coverage/meson-logs
	@tools/install-deps build test coverage
	@$(call setup,$(BUILD)-coverage,$(FEWER_SEEDS) -Db_coverage=true)
	@tools/run-tests $(BUILD)-coverage --no-suite apps --no-suite house
	@ninja -C $(BUILD)-coverage coverage-text coverage-html
	@tail -n 3 $(BUILD)-coverage/meson-logs/coverage.txt

install: build ## into PREFIX (/usr/local); the drop-ins into PREFIX/lib/.../uroce
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@meson install -C $(BUILD)

clean: ## remove all build folders
	rm -rf $(BUILD) $(foreach kind,clang asan tsan fuzz coverage,$(BUILD)-$(kind))

comma := ,
