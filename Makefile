# The commands of this repository. CONTRIBUTING.md says what each is for.
SHELL := /bin/bash
TOOL  := go tool -modfile=tools/go.mod
FIDELITY_CASES ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help demo test lint verify generate bench bench-node bench-review screenshots fidelity build

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## A real control plane, the examples, and what each pod got and why (DEMO_EXIT=1: ends by itself)
	@go run ./e2e/demo

test: ## Everything that this machine can run, with a table of tiers (REQUIRE_ALL=1: a skipped tier fails)
	@go run ./e2e/tiers

build: ## The programs, into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

lint: ## golangci-lint on both modules
	$(TOOL) golangci-lint run ./...
	cd e2e/fidelity && go tool -modfile=../../tools/go.mod golangci-lint run --config=../../.golangci.yaml ./...

generate: ## Deepcopy and CRDs from api/
	$(TOOL) controller-gen object:headerFile=tools/boilerplate.go.txt paths=./api/... crd output:crd:dir=deploy/crds

verify: generate ## Fails where generated files or go.mod are stale
	go mod tidy -diff
	cd e2e/fidelity && go mod tidy -diff
	cd e2e/kubernetes && go mod tidy -diff
	@test -z "$$(git status --porcelain -- api deploy/crds)" || { git diff -- api deploy/crds; echo "stale: run make generate and commit"; exit 1; }

bench: ## The webhook against a bare one that only decodes the pod; prints ratios
	@go run ./e2e/bench

bench-node: ## The node enforcer: a hog beside the kubelet's own eviction, plan and apply, steady state
	@go run ./e2e/benchnode

bench-review: ## podgrace review over 100 to 100,000 manifests: time, memory, what one manifest costs
	@go run ./e2e/benchreview

screenshots: build ## The pictures of the README: review, its page, diff (needs Chromium)
	@go run ./e2e/screenshot/readme

fidelity: ## 1,000,000 random cases against Kubernetes' own code
	cd e2e/fidelity && go test ./... -count=1 -timeout=10h -v -run Fidelity -rapid.checks=$(FIDELITY_CASES)
