# SPDX-License-Identifier: Apache-2.0
# Sets up, builds with CMake and runs. CMakeLists.txt defines how Ridge is compiled.
#
#   make lab LAB_ARGS="--preset tiny --steps 5"        arguments of `ridge lab`
#   make test TEST_ARGS="-R graph -V"                  arguments of ctest
#   make test TEST_JOBS=1                              test programs one after the other (default: one a core, at most 4)
#   make mutants MUTANTS_ARGS="--room ops --count 20"  arguments of tools/mutants.py
#   make build SETUP=no                                install no packages
#   make build BATCHES=OFF                             a new build folder compiles each test source alone: changes build faster

BUILD ?= build
SETUP ?= yes
LAB_ARGS ?=
TEST_ARGS ?=
# Many tests use all cores by themselves, so more than four programs would only disturb each other.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
MUTANTS_ARGS ?=
BATCHES ?= ON

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## list the targets (the default)
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  variables: LAB_ARGS (for ridge lab), TEST_ARGS (for ctest), MUTANTS_ARGS (for tools/mutants.py), SETUP=no (install nothing)"

lab: $(BUILD)/build.ninja  ## set up, build, and compare the levels on this machine
	cmake --build $(BUILD) --target ridge
	$(BUILD)/ridge lab $(LAB_ARGS)

test: build  ## set up, build, fetch the models if there is a network, and run all tests but the slow ones
	@tools/fetch_models.sh || echo "tests that need these models will be skipped" >&2
	$(call run_tests,$(BUILD),-LE slow,$(TEST_JOBS))

test-slow: build  ## build and run the slow tests
	cmake --build $(BUILD) --target slow_tests
	$(call run_tests,$(BUILD),-L slow,1)

test-asan: $(BUILD)-asan/build.ninja  ## build with AddressSanitizer and UBSan in build-asan and run all tests but the slow ones
	cmake --build $(BUILD)-asan
	$(call run_tests,$(BUILD)-asan,-LE slow,$(TEST_JOBS))

test-tsan: $(BUILD)-tsan/build.ninja  ## build with ThreadSanitizer in build-tsan and run the tests of the server and its engine
	cmake --build $(BUILD)-tsan --target http_test serve_test
	TSAN_OPTIONS="halt_on_error=1 suppressions=$(abspath tests/tsan_suppressions.txt)" OMP_WAIT_POLICY=passive \
	  $(BUILD)-tsan/tests/serve_test --gtest_filter='*EngineTest*:*ActivityTest*'
	TSAN_OPTIONS="halt_on_error=1 suppressions=$(abspath tests/tsan_suppressions.txt)" OMP_WAIT_POLICY=passive \
	  $(BUILD)-tsan/tests/http_test

fuzz: $(BUILD)-fuzz/build.ninja  ## build the libFuzzer targets with clang in build-fuzz and run each for 60 s
	cmake --build $(BUILD)-fuzz --target fuzz

mutants: build  ## change the source in one place at a time and count the changes that the tests find (hours)
	tools/mutants.py --build $(BUILD) $(MUTANTS_ARGS)

build: $(BUILD)/build.ninja  ## set up and build (incremental); the program is build/ridge
	cmake --build $(BUILD)

guides: models $(BUILD)/build.ninja  ## run the commands of docs/guides on this machine and refresh outputs and pictures (10 minutes)
	cmake --build $(BUILD) --target ridge
	tools/guides.py --ridge $(BUILD)/ridge

notebooks: models build  ## write the guides as notebooks into build/notebooks, and run their cells (15 minutes)
	PYTHONPATH=$(abspath $(BUILD)/python) build-python/bin/python tools/notebooks.py --run --out $(BUILD)/notebooks --ridge $(BUILD)/ridge

setup:  ## install the missing packages of packages/debian.txt, and fetch the tools of the Python module
ifneq ($(SETUP),no)
	@tools/setup.sh
	@tools/python_tools.sh || echo "setup: the Python module will be left out" >&2
endif

bundle: build  ## pack the program, its GPU tests and their libraries into build/ridge-bundle
	tools/bundle.sh $(BUILD) $(BUILD)/ridge-bundle

wheel: build  ## write a wheel of the Python module with its libraries into build/wheels (manylinux_2_36)
	tools/wheel.sh $(BUILD)

hip-check:  ## compile the portable GPU kernels for AMD GPUs, if hipcc is installed
	@tools/hip_check.sh

models: setup  ## fetch the models for some tests and examples
	@tools/fetch_models.sh

format: setup-all  ## clang-format all sources
	@find src tests \( -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.js' \) -print0 | \
	  xargs -0 -r clang-format -i

tidy: setup-all build  ## clang-tidy all sources (minutes)
	@# Clang 14 knows _Float16 only with this option; clang-tidy compiles nothing.
	@run-clang-tidy -quiet -p $(BUILD) -extra-arg=-mavx512fp16 '/src/'

clean:  ## remove the build folders
	rm -rf $(BUILD) $(BUILD)-debug $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz

# These rules configure a folder once; after that CMake notices changes of its files.
$(BUILD)/build.ninja: | setup
	cmake --preset release -B $(BUILD) -DRIDGE_TEST_BATCHES=$(BATCHES)
$(BUILD)-asan/build.ninja: | setup
	cmake --preset asan -B $(BUILD)-asan

$(BUILD)-tsan/build.ninja: | setup
	cmake --preset tsan -B $(BUILD)-tsan

$(BUILD)-fuzz/build.ninja: | setup-all
	cmake -S . -B $(BUILD)-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++ \
	  -DRIDGE_FUZZ=ON -DRIDGE_CUDA=OFF

setup-all:
ifneq ($(SETUP),no)
	@tools/setup.sh --all
endif

# $(call run_tests,BUILD FOLDER,SELECTION FOR CTEST,PROGRAMS SIDE BY SIDE) runs ctest, then lists skipped tests and the slowest programs; the status is that of ctest.
define run_tests
	@rm -rf $(1)/test-results && mkdir -p $(1)/test-results
	@ctest --test-dir $(1) --parallel $(3) --output-on-failure --no-tests=error \
	  --output-junit test-results/ctest.junit $(2) $(TEST_ARGS); \
	  status=$$?; python3 tools/test_summary.py $(1)/test-results; exit $$status
endef

.PHONY: help lab test test-slow test-asan test-tsan fuzz mutants build bundle wheel hip-check guides notebooks setup setup-all models format tidy clean
