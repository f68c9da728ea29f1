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
