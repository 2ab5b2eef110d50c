# CI runs "go test ./...", as README.md has it, and then "make rest" (.ci/run, which
# first installs make, a C compiler, protoc and the programs that tests drive).
# CONTRIBUTING.md explains the rest.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: check rest fmt tidy generated lint cross lab planted planted-edit planted-save race fuzz test times long sim bench vuln build generate packages release

# Where goroutines, locks and sockets live: what stands there is run under the
# race detector.
EDGES := $(wildcard internal/daemon internal/fetch internal/loop internal/store internal/xmpp overlay/libp2p proxy)
TOOL  := go tool -modfile=tools/go.mod

# The compiler that wrote the committed *.pb.go; their headers name it.
PROTOC := 3.21.12

# All that CI runs: the fast tier of the tests, and everything else.
check: test rest

# The fast tier of the laboratory's tests.
lab:
	go -C lab test ./...

rest:
	@for step in fmt tidy generated lint cross lab planted race packages long; do \
	  echo "== make $$step"; SECONDS=0; \
	  $(MAKE) --no-print-directory $$step; \
	  echo "== make $$step: $$SECONDS s"; \
	done

fmt:
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "run gofmt -w on:"; echo "$$files"; exit 1; }

tidy:
	go mod verify
	go mod tidy -diff
	go -C lab mod tidy -diff
	go -C tools mod tidy -diff

# Generates in place; what was not current is then there to be committed.
generated:
	@if [ "$$(protoc --version 2>&1)" != "libprotoc $(PROTOC)" ]; then \
	  echo "skipped: the generated code is compared only where protoc $(PROTOC) is installed"; exit 0; \
	fi; \
	sums() { find . -name '*.pb.go' -exec cksum {} +; }; \
	before=$$(sums); $(MAKE) --no-print-directory generate; \
	[ "$$before" = "$$(sums)" ] || { echo "generated code was not current: commit what make generate wrote"; exit 1; }

# With the checks of go vet.
lint:
	$(TOOL) golangci-lint run ./...
	cd lab && go tool -modfile=../tools/go.mod golangci-lint run ./...

# Compiles and checks all, tests included, for the systems that CI does not run on.
cross:
	CGO_ENABLED=0 GOOS=darwin go vet ./...
	CGO_ENABLED=0 GOOS=windows go vet ./...
	CGO_ENABLED=0 GOOS=darwin go -C lab vet ./...

# Bugs that sim/planted.patch adds to a copy of the code, each of which a checker of sim must catch. The checkers are
# known to catch them in the worlds of the long tier.
planted: export TIDINGS_TESTS = long
planted:
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	tar -c --exclude ./.git . | tar -x -C "$$dir"; \
	GIT_CEILING_DIRECTORIES="$${dir%/*}" git -C "$$dir" apply "$$PWD/sim/planted.patch" || { echo "sim/planted.patch does not fit the code any more: see make planted-edit"; exit 1; }; \
	cd "$$dir"; \
	go test -timeout 20m -tags planted ./sim -run Planted; \
	go -C lab test -timeout 20m -tags planted ./table2 -run Planted

# Makes the copy in DIR, with the bugs as an uncommitted change. What does not fit stands beside it in *.rej. When it is
# mended there, make planted-save writes it to the patch.
planted-edit:
	git clone -q . "$(DIR)"
	git -C "$(DIR)" apply --reject "$$PWD/sim/planted.patch"

planted-save:
	git -C "$(DIR)" add -AN
	git -C "$(DIR)" diff -U1 --output="$$PWD/sim/planted.patch"

# -short leaves out the tests that start browsers and nodes as processes, which the race detector does not look into.
race:
	go test -race -short -p 1 $(EDGES:%=./%/...) ./cmd/tidings
	go -C lab test -race ./nodes ./tree
	go -C lab test -race . -run Nodes

# Installs, upgrades and purges the Debian package on this machine, builds and starts the image, and has systemd
# check the unit. What this machine cannot do is skipped; in CI, nothing is.
packages:
	packaging/test-unit.sh
	packaging/test-image.sh
	packaging/test-deb.sh

# Every fuzz target that go test lists, one after the other; the test of each
# package is built once. An input that is running when the time is up is reported
# as a failure by go's fuzzer, but written down as none.
FUZZTIME ?= 20s
fuzz:
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	go test -list '^Fuzz' ./... | awk '/^ok/ && n { print $$2; n = 0 } /^Fuzz/ { n++ }' \
	| while read -r package; do \
	  go test -c -fuzz . -o "$$dir/fuzz.test" $$package </dev/null; \
	  cd "$$(go list -f '{{.Dir}}' $$package)"; \
	  for target in $$("$$dir/fuzz.test" -test.list '^Fuzz'); do \
	    if out=$$("$$dir/fuzz.test" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) \
	        -test.fuzzminimizetime 1s -test.fuzzcachedir "$$dir/cache" 2>&1 </dev/null); then \
	      echo "$$package $$target: $$(grep 'execs:' <<<"$$out" | tail -n 1)"; \
	    elif grep -q 'context deadline exceeded' <<<"$$out" && ! grep -q 'Failing input' <<<"$$out"; then \
	      echo "$$package $$target: time was up in the middle of an input"; \
	    else \
	      echo "$$package $$target"; echo "$$out"; exit 1; \
	    fi; \
	  done; \
	  cd - >/dev/null; \
	done

# The fast tier of the tests.
test:
	go test ./...

# How long the fast tier takes, without results of before: three minutes are allowed, and one for a package.
times:
	@go test -count=1 -run '^$$' ./... >/dev/null # fills the cache of builds
	@SECONDS=0; out=$$(go test -count=1 ./...) || { echo "$$out"; exit 1; }; \
	echo "$$out" | awk '/^ok/ { sub("s$$", "", $$3); print $$3, $$2 }' | sort -rn | head; \
	echo "$$SECONDS s in all, 180 allowed"; \
	slow=$$(echo "$$out" | awk '/^ok/ { sub("s$$", "", $$3); if ($$3 + 0 > 60) print $$2 }'); \
	[ -z "$$slow" ] || { echo "more than 60 s: $$slow"; exit 1; }; \
	[ $$SECONDS -le 180 ]

# The long tier: all seeds, and worlds of full size. A package that does not ask for its
# tier has the same tests in both, and is left out. Simulated worlds do not care how long they
# take, and leave the processors to real nodes, which have to answer in time. The package sim,
# which takes longest, comes first.
asks_tier = list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/[[ ]tidings\/internal\/longtest[] ]/ { print $$1 }'
long: export TIDINGS_TESTS = long
long:
	of=$$(go $(asks_tier) | sort -r); real='tidings/(cmd/tidings|internal/daemon)$$'; result=0; \
	nice -n 19 go test -timeout 40m $$(grep -vE "$$real" <<<"$$of") & simulated=$$!; \
	go test -timeout 40m $$(grep -E "$$real" <<<"$$of") || result=$$?; \
	wait $$simulated && exit $$result
	go -C lab test -timeout 40m $$(go -C lab $(asks_tier))

# make sim RUN=TestName SEED=7 replays what a failing world printed.
RUN ?= .
sim:
	go test ./sim -count=1 -v -run '$(RUN)' $(if $(SEED),-seed $(SEED))

# The doors at full load, then whatever runs once per message.
bench:
	go test ./sim -run '^$$' -bench 'Timers|Messages|FullLoad' -benchtime 1x -cpu 1
	go test $$(go list ./... | grep -v '/sim$$') -run '^$$' -bench .

# Asks the vulnerability database of the Go project.
vuln:
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

build:
	go build ./...

# All that a release consists of, with checksums, in dist: make release VERSION=1.2.3
release:
	packaging/release.sh

generate: bin/protoc-gen-go
	PATH="$(CURDIR)/bin:$$PATH" go generate ./...

bin/protoc-gen-go: tools/go.mod
	go build -modfile=tools/go.mod -o $@ google.golang.org/protobuf/cmd/protoc-gen-go
