# The commands of this repository. CONTRIBUTING.md says what each is for.
SHELL := /bin/bash
TOOL  := go tool -modfile=tools/go.mod
FIDELITY_CASES ?= 1000000
TAG ?= dev
# What the programs tell as their version: the images' tag where one is given, else what git calls the commit.
VERSION ?= $(if $(filter dev,$(TAG)),$(shell git describe --always --dirty --tags 2>/dev/null || echo $(TAG)),$(TAG))
# Modules of their own, so that the product does not need what its tests need, nor the scheduler. e2e/kubernetes has no code.
MODULES := preview e2e e2e/deploy e2e/monitoring e2e/oracle

# One way to compile for programs, tests and Kubernetes: what two of them need, and what another clone compiled, is not compiled again.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.DEFAULT_GOAL := help
.PHONY: help demo demo-fencing test check test-integration test-e2e gate test-all race stress vet attack e2e-kind images lint verify generate bench bench-peers bench-scale bench-fencer bench-volumelock bench-partition bench-node bench-review bench-preview screenshots fidelity limits versions versions-gates fuzz build release publish chaos

help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## A real control plane, the examples, and what each pod got and why (DEMO_EXIT=1: ends by itself)
	@echo "building the demo"
	@go run -C e2e ./demo

# What the parts of these are, and what they cost: go run -C e2e ./gate -list
GATE = go run -C e2e ./gate $(ARGS)

test: ## Vet and the unit tests: 2 minutes, 7 with empty caches; needs only Go
	@echo "make test: vet and unit tests of the product and the preview; 2 minutes, 7 with empty caches"
	@$(GATE) test; status=$$?; echo "not run: make check (lint, generated files, Kubernetes' own code as an oracle), make test-integration (a real API server;" \
	  "builds Kubernetes once, 6 minutes), make test-e2e (nodes, machines, kind; needs root and the packages of .ci/run)." \
	  "CONTRIBUTING.md says which part to run for which folder"; exit $$status

check: ## What must pass before anything boots: test, lint, generated files, Kubernetes' own code as an oracle, schemas; needs only Go
	@$(GATE) check; status=$$?; echo "not run: make test-integration, make test-e2e"; exit $$status

test-integration: ## A real API server, controllers, scheduler, fencer and volume lock on loopback; builds Kubernetes once (6 minutes)
	@$(GATE) integration

test-e2e: ## A kubelet on this host, machines in QEMU, kind, Chromium; skips what this machine lacks (root, the packages of .ci/run)
	@$(GATE) e2e

gate: ## What .ci/run runs: check, and if it passes test-integration and test-e2e (REQUIRE_ALL=1: a skipped test fails)
	@$(GATE) gate

test-all: ## Everything, also what left the gate, with a random seed (RAPID_SEED=N: with that one)
	@$(GATE) all

race: ## Unit and integration tests with the race detector, also in the programs that they start (needs a C compiler)
	@go run -C e2e ./gate -race $(ARGS) test integration

N ?= 20
stress: ## One live test many times beside a busy machine: make stress TEST=./faults RUN=TestX N=20
	@e2e/stress "$(TEST)" "$(RUN)" "$(N)"

vet: ## go vet on the product and the preview
	go vet ./...
	go -C preview vet ./...

demo-fencing: ## Two machines in QEMU: one is paused, cut off and fenced, the other one asked for; seconds of each step (root)
	go test -C e2e ./fencing/guests -count=1 -v

REQUESTS ?= 300000
FLOOD ?= 10m
attack: ## Random attacks on the removal guard in a real control plane (REQUESTS=300000), and a flood of large reviews (FLOOD=10m; root)
	go test -C e2e ./attacks -count=1 -timeout=24h -v -attacks.requests=$(REQUESTS) -attacks.flood=$(FLOOD) $(ARGS)

CHAOS ?= 1h
chaos: ## Faults without end, in a real control plane with users at work, watched from outside (CHAOS=1h, ARGS="-seed=N -only=cut-node")
	@go run -C e2e ./chaos -time=$(CHAOS) $(ARGS)

e2e-kind: ## Real images in a kind cluster: install, upgrade under churn, smoke test, remove (root, Docker; ALL=1: five installations and the suites; ALL=combinations: all)
	@REQUIRE_ALL=1 PODGRACE_ALL=$(ALL) go run -C e2e ./gate kind

images: ## The container images, podgrace/NAME:$(TAG) (Docker with BuildKit: from version 23 on the plugin buildx)
	for target in webhook nodeenforcer fencer volumelock fencer-agents podgrace preview; do docker build --target=$$target --tag=podgrace/$$target:$(TAG) --build-arg=VERSION=$(VERSION) . || exit 1; done

LDFLAGS = -X github.com/podgrace/podgrace/internal/program/version.linked=$(VERSION)
build: ## The programs, into bin/
	go build -ldflags='$(LDFLAGS)' -o bin/ ./cmd/...
	go build -C preview -ldflags='$(LDFLAGS)' -o ../bin/ ./cmd/podgrace-preview

# For a fork: its own registry, which ends in /podgrace.
REGISTRY ?= ghcr.io/podgrace
# The shell reads both from the environment: as text that make pastes, the name of a tag could be a command.
export VERSION REGISTRY
GORELEASER = GORELEASER_CURRENT_TAG="$$VERSION" go tool -modfile=tools/release/go.mod goreleaser
TAGGED = [[ $$VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] || { echo "VERSION is no tag like v1.2.3: $$VERSION"; exit 1; }
release: ## All that a release consists of, into dist/ and bin/release/ (VERSION=v0.1.0); nothing leaves the machine. Images need docker buildx
	@$(TAGGED); git ls-remote --get-url >/dev/null || { echo "goreleaser takes no version from a clone without a remote: git remote add origin URL"; exit 1; }
	@$(GORELEASER) release --snapshot --clean --skip=sign$$(docker buildx version >/dev/null 2>&1 || echo ,docker)

# Images for two architectures, with SBOMs, need a builder of their own.
publish: export BUILDX_BUILDER = podgrace-release
publish: ## The same, pushed and signed, with a draft of the release's page (VERSION=v0.1.0). For the workflow: needs cosign, gh, docker buildx and credentials
	@$(TAGGED); page=$$(gh release view "$$VERSION" --json=isDraft --jq=.isDraft 2>&1); case $$page in true | "release not found") ;; \
	  false) echo "$$VERSION is released already: fix what is wrong in another version"; exit 1 ;; *) echo "$$page"; exit 1 ;; esac
	@mkdir -p bin && awk -v heading="## $$VERSION" '/^## /{on = $$0 == heading; next} on' CHANGELOG.md >bin/notes.md && grep -q . bin/notes.md || { echo "CHANGELOG.md has no section $$VERSION"; exit 1; }
	@docker buildx inspect "$$BUILDX_BUILDER" >/dev/null 2>&1 || docker buildx create --name="$$BUILDX_BUILDER" --driver=docker-container
	@$(GORELEASER) release --clean --release-notes=bin/notes.md
	@pushed=$$(go -C e2e/deploy tool helm push "$(CURDIR)/bin/release/podgrace-$${VERSION#v}.tgz" "oci://$$REGISTRY/charts" 2>&1) || { echo "$$pushed"; exit 1; }; \
	  digest=$$(awk '/^Digest:/{print $$2}' <<<"$$pushed"); cosign sign --yes "$$REGISTRY/charts/podgrace@$${digest:?helm printed no digest of the chart}"
	@gh release upload "$$VERSION" --clobber dist/krew/podgrace.yaml

lint: ## golangci-lint on all modules
	$(TOOL) golangci-lint run ./...
	for module in $(MODULES); do (cd $$module && go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run --config=$(CURDIR)/.golangci.yaml ./...) || exit 1; done

CONTROLLER_GEN := $(TOOL) controller-gen object:headerFile=tools/boilerplate.go.txt paths=./api/... crd

generate: ## Deepcopy and CRDs from api/, what the docs have from the code, the rules for the operator, the chart's copies and the JSON schemas
	$(CONTROLLER_GEN) output:crd:dir=deploy/crds
	cd deploy/crds && mv podgrace.dev_fence[aps]*.yaml fencer/ && mv podgrace.dev_volumelocks.yaml volumelock/
	go test ./docs -count=1 -run Fresh -update
	cd e2e/monitoring && go test . -count=1 -run Fresh -update
	go run ./deploy/chart deploy
	go test ./deploy/schema -count=1 -run Fresh -update

# It writes nothing, so that tests may run beside it. What else is generated is held by tests whose names say Fresh. Without e2e/peers: nothing in a gate is
# built from those, and to tidy them takes up to 800 MB of modules, 3.7 GB unpacked, that hardly anything else needs. bench-peers does it, which builds them.
verify: ## Fails where deepcopy, CRDs or a go.mod are stale
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(CONTROLLER_GEN) output:object:dir="$$dir" output:crd:dir="$$dir/crds" && \
	  { diff -u api/v1alpha1/zz_generated.deepcopy.go "$$dir/zz_generated.deepcopy.go" && mkdir "$$dir/have" && cp deploy/crds/podgrace.dev_*.yaml deploy/crds/*/podgrace.dev_*.yaml "$$dir/have" && diff -ru "$$dir/have" "$$dir/crds"; } || \
	  { echo "stale: run make generate and commit"; exit 1; }
	go mod tidy -diff
	for module in $(MODULES) e2e/kubernetes; do (cd $$module && go mod tidy -diff) || exit 1; done

bench: ## The webhook against a bare one that only decodes the pod; prints ratios
	@go run -C e2e ./bench webhook

bench-peers: ## What admission adds to a create beside the API server's own policies, Kyverno and Gatekeeper; prints ratios (both are built once: 20 minutes)
	@$(if $(findstring -peers=false,$(ARGS)),,for peer in e2e/peers/*/; do (cd $$peer && go mod tidy -diff) || exit 1; done)
	@go run -C e2e ./bench peers $(ARGS)

bench-scale: ## The webhook in a cluster of 5,000 nodes, 10,000 namespaces and 150,000 pods against one of 10 nodes; prints ratios
	@go run -C e2e ./bench webhook -sizes
	go test -C e2e ./faults -run '^$$' -bench Eviction

bench-node: ## The node enforcer: a hog beside the kubelet's own eviction, plan and apply, steady state
	@go run -C e2e ./bench node

bench-fencer: ## What the fencer costs beside 5,000 nodes: CPU, memory, rounds
	@go run -C e2e ./bench fencer

bench-volumelock: ## What the volume lock costs beside an attacher that looks at nothing: time to attach one and many, CPU and memory with many held
	@go run -C e2e ./bench volumelock $(ARGS)

bench-partition: ## A database whose node is cut off: by Kubernetes alone, by a person, by the fencer; seconds of each step (12 minutes)
	@go run -C e2e ./bench partition

bench-review: ## podgrace review over 100 to 100,000 manifests: time, memory, what one manifest costs
	@go run -C e2e ./bench review

bench-preview: ## podgrace preview over a state of 5,000 nodes and 150,000 pods: time, memory, the scheduler's pass alone, size of the program
	@go run -C e2e ./bench preview

screenshots: build ## The pictures of the README and the docs (needs Chromium)
	@go run -C e2e ./screenshot/readme

fidelity: ## 1,000,000 random cases against Kubernetes' own code
	cd e2e/oracle && go test ./fidelity -count=1 -timeout=10h -v -rapid.checks=$(FIDELITY_CASES)

# Packages that need a control plane and no nodes, and of 1.36's gates those that are on in 1.37 or were promoted there.
VERSIONS ?= $(shell sed -E 's/^v(1\.[0-9]+)\..*/\1/' e2e/cluster/older.txt)
SERVER_TESTS ?= ./apiserver ./agreement ./certificates ./faults ./controlplane
NEXT_GATES := GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,TopologyAwareWorkloadScheduling=true,DRAWorkloadResourceClaims=true,DRADeviceTaintRules=true,ManifestBasedAdmissionControlConfig=true,MutablePVNodeAffinity=true,MaxUnavailableStatefulSet=true,InPlacePodVerticalScalingExclusiveCPUs=true,InPlacePodVerticalScalingExclusiveMemory=true,PodLevelResourceManagers=true,MemoryQoS=true,UserNamespacesHostNetworkSupport=true
versions: ## The tests that need only a control plane, on older versions of Kubernetes (VERSIONS="1.33"; each is built once, 6 to 8 minutes)
	failed=; for version in $(VERSIONS); do echo "=== Kubernetes $$version"; \
	  REQUIRE_ALL=1 PODGRACE_KUBERNETES=$$version go test -C e2e -count=1 -p=1 -timeout=60m $(SERVER_TESTS) || failed="$$failed $$version"; done; \
	  [[ -z $$failed ]] || { echo "failed on$$failed"; exit 1; }

versions-gates: ## The same tests on the pinned version, with the feature gates on that the next version promotes
	REQUIRE_ALL=1 PODGRACE_FEATURE_GATES=$(NEXT_GATES) PODGRACE_RUNTIME_CONFIG=scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true go test -C e2e -count=1 -p=1 -timeout=60m $(SERVER_TESTS)

LIMITS_CHECKS ?= 33334
limits: ## 1,000,000 random pods: the compiled limits against the webhook's own decision (LIMITS_CHECKS=33334 sets of policies, 30 pods each)
	go test ./defaulting/limits -count=1 -timeout=10h -v -run TestAgreesWithTheWebhook -rapid.checks=$(LIMITS_CHECKS)

FUZZTIME ?= 1h
fuzz: ## Every fuzz test for a while (FUZZTIME=1h each): what was tried, and what was found
	@go run -C e2e ./fuzz -time=$(FUZZTIME) $(ARGS)
