package cgroup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
)

// frozenFiles is a v2 cgroup of ordinary files, /test, whose kernel says of it what events says.
func frozenFiles(t *testing.T, events string, pids ...int) (tree *cgroup.V2, file func(name string) string) {
	root := cgrouptest.NewFolder(t)
	procs := ""
	for _, pid := range pids {
		procs += strconv.Itoa(pid) + "\n"
	}
	at := func(name string) string { return filepath.Join(root, "test", name) }
	for name, text := range map[string]string{"cgroup.procs": procs, "cgroup.freeze": "0\n", "cgroup.events": events} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cgroup.NewV2(root), func(name string) string {
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}

// That a cgroup was asked to freeze is not that it is frozen: cgroup.freeze says the one, cgroup.events the other.
func TestFreezeIsAwaited(t *testing.T) {
	tree, file := frozenFiles(t, "populated 1\nfrozen 0\n", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Freeze(ctx, "/test"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "waiting for cgroup.events of /test") {
		t.Errorf("got %v", err)
	}
	if file("cgroup.freeze") != "1" {
		t.Error("it is not asked for any more")
	}
	if err := tree.Thaw(t.Context(), "/test"); err != nil || file("cgroup.freeze") != "0" {
		t.Errorf("thawing: %v", err)
	}
	tree, _ = frozenFiles(t, "populated 1\nfrozen 1\n", 1)
	if err := tree.Freeze(t.Context(), "/test"); err != nil {
		t.Error(err)
	}
}

// Who freezes itself is never thawed.
func TestFreezeSparesItself(t *testing.T) {
	tree, file := frozenFiles(t, "populated 1\nfrozen 1\n", 1, os.Getpid())
	if err := tree.Freeze(t.Context(), "/test"); err == nil || !strings.Contains(err.Error(), "/test is never frozen: we are in it") || file("cgroup.freeze") != "0" {
		t.Errorf("got %v", err)
	}
}
