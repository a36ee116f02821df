# Homing: `make demo` runs the main job on real programs, `make test` passes the tests. Both set the machine up first.
SHELL := /bin/bash
.DELETE_ON_ERROR:

.PHONY: help build demo test check unit setup setup-test recorders preload workloads ui ui-data bench bench-lab lab why-lab servers-lab deny fmt clean install runtime runtime-lab sched-lab sched-agree

PREFIX ?= /usr/local
BUILD := $(CURDIR)/build

# libhoming where `homing run --runtime` looks for it.
define RUNTIME
mkdir -p build/runtime
strip --strip-debug -o build/runtime/libhoming.so.new target/release/libhoming.so
mv -f build/runtime/libhoming.so.new build/runtime/libhoming.so
endef

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: setup recorders preload lab ## Build the program (target/release/homing) and the recorders
	cargo build --release --locked
	$(RUNTIME)

runtime: ## Build libhoming alone (target/release/libhoming.so)
	cargo build --release --locked -p homing-runtime
	$(RUNTIME)

demo: build workloads ## Record real OpenMP programs, compare policies, write a report page, say what is wrong with one
	scripts/demo.sh

test: setup-test recorders preload lab workloads ## Everything that CI runs
# The program and its tests in one build: on their own they use other features of some dependencies.
	cargo build --release --locked --all-targets
	$(RUNTIME)
	scripts/test.sh

check: ## Formatting, lints, unit tests: what one runs before each commit
	scripts/lines.sh
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --lib --bins --locked

setup: ## Install the system packages that building and recording need
	scripts/setup.sh build

setup-test: ## ... and those that the tests need
	scripts/setup.sh build test
	lab/setup.sh

recorders: setup ## Build the recorders against the installed Valgrind and C compiler
	$(MAKE) -C recorders/valgrind OUT=$(BUILD)/valgrind
	$(MAKE) -C recorders/tsan OUT=$(BUILD)/tsan
	$(MAKE) -C recorders/clang OUT=$(BUILD)/clang

preload: setup ## Build the libraries that work inside programs of `homing run` and `homing rset exec`
	$(MAKE) -C preload OUT=$(BUILD)/preload

lab: setup ## Build the lab's C parts: the guest's first process, the observer
	$(MAKE) -C lab OUT=$(BUILD)/lab

workloads: setup ## Build the OpenMP workloads
	$(MAKE) -C workloads OUT=$(BUILD)/workloads

ui: ## Rebuild the report page (crates/homing-cli/assets/report.html)
	cd ui && npm ci && npm run build

ui-data: ## Remake the page's types and the reports that its tests read, after a change of the report
	HOMING_UPDATE=1 cargo test --release --locked --lib -- report::typescript
	HOMING_UPDATE=1 cargo test --release --locked --test it -- page_golden

bench: build workloads ## Recording, trace size, decoding, optimum: the tables of docs/benchmarks.md
	benches/run.sh

bench-lab: build workloads ## What the lab measures, medians of five runs, against what is expected (benches/lab.tsv)
	benches/lab.sh

why-lab: ## Hold the gains that `homing why` predicts against the lab: a table of docs/why.md (10 minutes)
	tests/why_lab.sh

servers-lab: ## Servers in the lab under four placements and the engine: the table of docs/servers.md (20 minutes)
	tests/servers_lab.sh

runtime-lab: build ## The experiments of Nikolopoulos et al. 2000 in the lab: the tables of docs/runtime.md (an hour)
	tests/nikolopoulos_lab.sh

sched-lab: ## Twelve real jobs in the lab under three CPU managers and three ways to move pages: a table of docs/scheduling.md
	tests/sched_lab.sh

sched-agree: ## Six jobs in the lab beside the simulation of them: a table of docs/scheduling.md (2 minutes)
	tests/sched_agree.sh

deny: ## Licences and sources of all dependencies
	scripts/deny.sh

fmt: ## Format the Rust code
	cargo fmt --all

install: build ## Install under PREFIX (default /usr/local)
	install -D -m 755 target/release/homing $(DESTDIR)$(PREFIX)/bin/homing
	install -d $(DESTDIR)$(PREFIX)/lib/homing
	target/release/homing man --output $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
	  $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	target/release/homing completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/homing
	target/release/homing completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_homing
	target/release/homing completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/homing.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in homing homing-attach@; do sed 's|/usr/local/bin|$(PREFIX)/bin|' packaging/$$unit.service \
	  > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service || exit; done
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/share/homing/slurm packaging/slurm/homing-prolog packaging/slurm/homing-epilog
	sed 's|/usr/local/bin|$(PREFIX)/bin|' packaging/slurm/homing-engine > $(DESTDIR)$(PREFIX)/share/homing/slurm/homing-engine
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/homing packaging/homing.toml packaging/homing-hint-faults.conf
	install -D -m 755 target/release/libhoming.so $(DESTDIR)$(PREFIX)/lib/libhoming.so.0
	ln -sf libhoming.so.0 $(DESTDIR)$(PREFIX)/lib/libhoming.so
	install -m 644 target/release/libhoming.a $(DESTDIR)$(PREFIX)/lib/
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include include/homing.h
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/homing include/homing/runtime.h include/homing/homing.f90
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)|' packaging/homing.pc.in \
	  > $(DESTDIR)$(PREFIX)/lib/pkgconfig/homing.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man3 packaging/man/homing.3
	cp -a build/valgrind build/tsan build/clang build/preload build/runtime build/lab $(DESTDIR)$(PREFIX)/lib/homing/
	install -m 755 lab/setup.sh $(DESTDIR)$(PREFIX)/lib/homing/lab/

clean: ## Remove everything that was built
	rm -rf target build ui/node_modules ui/dist
