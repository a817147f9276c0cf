package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The versions: folders with sources in the lab's, and tags of images.
const (
	previous = "previous"
	current  = "current"
)

// targets are the images that are built for each version. An upgrade replaces only those of the previous version.
var targets = map[string][]string{current: kind.Targets, previous: {"webhook", "nodeenforcer"}}

// world is what the tests share: one cluster, in which each installs Podgrace and removes it again.
type world struct {
	*kind.Cluster
	lab    *kind.Lab
	client client.Client
	// commandLine builds the command line once and returns where it is.
	commandLine func() (string, error)
}

// shared is set unless this machine can't have it.
var (
	shared *world
	unmet  = kind.Supported()
)

func TestMain(m *testing.M) {
	if unmet != nil {
		os.Exit(m.Run())
	}
	os.Exit(kind.Run(context.Background(), os.Stderr, prepare, func(ctx context.Context, lab *kind.Lab) int {
		code, err := withCluster(ctx, lab, m)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
		return code
	}))
}

// get returns the world, or skips the test where the machine can't have it.
func get(t *testing.T) *world {
	t.Helper()
	clustertest.Require(t, unmet)
	return shared
}

// prepare does what needs the network.
func prepare(ctx context.Context, dir string) error {
	if slices.ContainsFunc(installations(), func(i installation) bool { return i.suites }) {
		if err := buildSuites(ctx, dir); err != nil {
			return err
		}
	}
	return sources(ctx, dir)
}

// sources exports both versions, and compiles their programs, each by its own Dockerfile: it names the programs that there are.
func sources(ctx context.Context, dir string) error {
	if err := export(ctx, dir); err != nil {
		return err
	}
	for _, version := range []string{current, previous} {
		if err := kind.Compile(ctx, filepath.Join(dir, version), filepath.Join(dir, version, "Dockerfile"), version, targets[version]); err != nil {
			return err
		}
	}
	return nil
}

func export(ctx context.Context, dir string) error {
	if err := kind.ExportWorkTree(ctx, filepath.Join(dir, current)); err != nil {
		return err
	}
	commit, err := kind.PreviousCommit(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "kind: the previous version is commit %s\n", commit)
	if err := kind.ExportCommit(ctx, commit, filepath.Join(dir, previous)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, previous, "deploy", "chart")); err == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "kind: %s has no chart yet: the upgrade is from this version to itself\n", commit)
	if err := os.RemoveAll(filepath.Join(dir, previous)); err != nil {
		return fmt.Errorf("removing the sources of %s: %w", commit, err)
	}
	if err := os.CopyFS(filepath.Join(dir, previous), os.DirFS(filepath.Join(dir, current))); err != nil {
		return fmt.Errorf("copying the sources: %w", err)
	}
	return nil
}

func withCluster(ctx context.Context, lab *kind.Lab, m *testing.M) (code int, err error) {
	// At the same time: creating a cluster is mostly waiting, building images is mostly computing.
	var c *kind.Cluster
	group, both := errgroup.WithContext(ctx)
	group.Go(func() (err error) { c, err = lab.Create(both); return err })
	group.Go(func() error { return build(both, lab) })
	err = group.Wait()
	if c != nil {
		defer func() { err = errors.Join(err, c.Delete(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return 0, err
	}
	if err := load(ctx, lab, c); err != nil {
		return 0, err
	}
	kube, err := suite.NewClient(c.Config)
	if err != nil {
		return 0, err
	}
	shared = &world{Cluster: c, lab: lab, client: kube, commandLine: sync.OnceValues(func() (string, error) {
		program := filepath.Join(lab.Dir, "podgrace")
		return program, cluster.GoBuild(ctx, program, "cmd/podgrace")
	})}
	return m.Run(), nil
}

// build builds both versions' images.
func build(ctx context.Context, lab *kind.Lab) error {
	if err := lab.BuildPause(ctx); err != nil {
		return err
	}
	for _, version := range []string{current, previous} {
		source := filepath.Join(lab.Dir, version)
		if err := lab.Build(ctx, source, filepath.Join(source, "Dockerfile"), version, targets[version]); err != nil {
			return err
		}
		lab.Logf("images of the %s version are built", version)
	}
	return nil
}

// load loads the images that run in the cluster.
func load(ctx context.Context, lab *kind.Lab, c *kind.Cluster) error {
	all := []string{cluster.PauseImage, kind.Image("fencer", current), kind.Image("volumelock", current)}
	for _, version := range []string{current, previous} {
		all = append(all, kind.Image("webhook", version), kind.Image("nodeenforcer", version))
	}
	if err := c.Load(ctx, all...); err != nil {
		return err
	}
	lab.Logf("images are loaded")
	return nil
}
