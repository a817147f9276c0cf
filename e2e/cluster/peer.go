package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Peer is a program of others that Podgrace is measured beside, pinned by a go.mod of its own in e2e/peers.
type Peer struct {
	// Name is that of the folder in e2e/peers, and of the program.
	Name string
	// Module is what its go.mod pins, Package what the program is built from.
	Module, Package string
	// Takes is about how long the build took on two cores, beside other work.
	Takes time.Duration
}

// Built is a peer that was built.
type Built struct {
	// Program is its path, Version that of its module.
	Program, Version string
	// Source is the folder with the module's files, where its manifests are.
	Source string
}

// Build returns the peer's program in the cache, into which it is built if it is not there, once per version. Lines about that go to progress.
func (p Peer) Build(ctx context.Context, progress io.Writer) (Built, error) {
	root, err := ModuleRoot()
	if err != nil {
		return Built{}, err
	}
	module := filepath.Join(root, "e2e", "peers", p.Name)
	version, err := pinnedVersion(module, p.Module)
	if err != nil {
		return Built{}, err
	}
	source, err := downloadModule(ctx, module, p.Module)
	if err != nil {
		return Built{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Built{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "podgrace", p.Name+"-"+version)
	built := Built{Program: filepath.Join(dir, p.Name), Version: version, Source: source}
	if len(missing(dir, p.Name)) == 0 {
		return built, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Built{}, fmt.Errorf("making the cache folder: %w", err)
	}
	todo := program{name: p.Name, pkg: p.Package, takes: p.Takes}
	told := newBuildProgress(progress, p.Module+" "+version, []program{todo})
	return built, once(ctx, todo, dir, progress, func() error {
		// One package at a time: some of them take a gigabyte to compile.
		return told.during(0, func() error { return build(ctx, module, todo, dir, "-s -w", "-p", "1") })
	})
}
