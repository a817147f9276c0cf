package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// assetsVariable names a folder with programs built elsewhere, as envtest does.
const assetsVariable = "KUBEBUILDER_ASSETS"

// modulePath is the module whose go.mod marks the repository's root.
const modulePath = "github.com/podgrace/podgrace"

// program is one binary and the Go package that it is built from.
type program struct {
	name, pkg string
	// takes is how long it took on two cores after those before it, with which it shares most packages. What it is beside
	// the others counts most: pace compares this machine.
	takes time.Duration
}

// programs in the order in which they are built: what is needed first comes first.
var programs = []program{
	{"etcd", "go.etcd.io/etcd/server/v3", 25 * time.Second},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 190 * time.Second},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", 20 * time.Second},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 55 * time.Second},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 5 * time.Second},
	{"kubelet", "k8s.io/kubernetes/cmd/kubelet", 25 * time.Second},
	{"kubeadm", "k8s.io/kubernetes/cmd/kubeadm", 15 * time.Second}, // for kind's node, as the next
	{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", 5 * time.Second},
}

// Binaries returns the folder with the cluster's programs, of which it has at least the named ones:
// KUBEBUILDER_ASSETS if it is set, else the cache, into which it builds those that are missing (minutes, once per
// version). Lines about that go to progress. Options.Programs names those of a cluster.
func Binaries(ctx context.Context, progress io.Writer, names ...string) (string, error) {
	wanted, err := choose(names)
	if err != nil {
		return "", err
	}
	if dir := os.Getenv(assetsVariable); dir != "" {
		if err := requirePrograms(dir, names...); err != nil {
			return "", fmt.Errorf("%s: %w", assetsVariable, err)
		}
		return dir, nil
	}
	version, isOlder, err := kubernetesVersion()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "podgrace", "kubernetes-"+version)
	todo := slices.DeleteFunc(wanted, func(p program) bool { return len(missing(dir, p.name)) == 0 })
	if len(todo) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	module, err := pinnedKubernetes()
	if isOlder {
		module, err = olderModule(ctx, version, dir, progress)
	}
	if err != nil {
		return "", err
	}
	told := newBuildProgress(progress, "Kubernetes "+version, todo)
	for i, p := range todo {
		err := once(ctx, p, dir, progress, func() error {
			return told.during(i, func() error { return build(ctx, module, p, dir, versionFlags(version)) })
		})
		if err != nil {
			return "", err
		}
	}
	return dir, nil
}

// choose returns the named programs in the order in which they are built.
func choose(names []string) ([]program, error) {
	var chosen []program
	for _, p := range programs {
		if slices.Contains(names, p.name) {
			chosen = append(chosen, p)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(chosen, func(p program) bool { return p.name == name }) {
			return nil, fmt.Errorf("no program %q", name)
		}
	}
	return chosen, nil
}

// once calls build unless another process has built the program while we waited for it. The lock is of this program alone:
// nobody waits for what others need, and who needs the same goes through it in the same order.
func once(ctx context.Context, p program, dir string, progress io.Writer, build func() error) error {
	unlock, err := Lock(ctx, filepath.Join(dir, ".lock-"+p.name), progress)
	if err != nil {
		return err
	}
	defer unlock()
	if len(missing(dir, p.name)) == 0 {
		return nil
	}
	return build()
}

// build makes one program, linked by these flags, under a temporary name and renames it, so that a name in the cache means a whole file.
func build(ctx context.Context, module string, p program, dir, linked string, flags ...string) error {
	temp := filepath.Join(dir, ".build-"+p.name)
	defer os.RemoveAll(temp)
	if err := os.RemoveAll(temp); err != nil { // of a build that was killed: we have the lock
		return fmt.Errorf("building %s: %w", p.name, err)
	}
	args := append([]string{"build", "-trimpath", "-ldflags", linked, "-o", temp}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, p.pkg)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s in %s: %w\n%s", p.name, module, err, Tail(text, 20))
	}
	if err := os.Rename(temp, filepath.Join(dir, p.name)); err != nil {
		return fmt.Errorf("building %s: %w", p.name, err)
	}
	return nil
}

// versionFlags stamps the programs as a release is: an unstamped API server reports v0.0.0, and clients
// compare versions. client-go has its own copy, which goes into the user agent.
func versionFlags(version string) string {
	major, minor := majorMinor(version)
	var flags strings.Builder
	flags.WriteString("-s -w")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&flags, " -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X %[1]s.gitTreeState=clean",
			pkg, version, major, minor)
	}
	return flags.String()
}

// majorMinor splits "v1.36.3" into "1" and "36".
func majorMinor(version string) (major, minor string) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(rest, ".")
	return major, minor
}

// pinnedVersion is the version of another module that a module pins, which stands in its go.mod and nowhere else.
func pinnedVersion(module, of string) (string, error) {
	path := filepath.Join(module, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", of, err)
	}
	version, ok := requiredVersion(text, of)
	if !ok {
		return "", fmt.Errorf("reading the version of %s: %s does not require it", of, path)
	}
	return version, nil
}

// requiredVersion finds the version of one module in the require lines of a go.mod.
func requiredVersion(gomod []byte, module string) (string, bool) {
	lines := bufio.NewScanner(bytes.NewReader(gomod))
	for lines.Scan() {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "require "))
		if len(fields) >= 2 && fields[0] == module && fields[1] != "=>" {
			return fields[1], true
		}
	}
	return "", false
}

// pinnedKubernetes is the folder of the module that pins the version for all tests.
func pinnedKubernetes() (string, error) {
	root, err := ModuleRoot()
	return filepath.Join(root, "e2e", "kubernetes"), err
}

// ModuleRoot finds the repository from the working directory upwards, which serves go run and go test anywhere in it.
func ModuleRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	root, ok := repositoryRoot(wd)
	if !ok {
		return "", fmt.Errorf("no go.mod of %s above %s: run this inside the repository", modulePath, wd)
	}
	return root, nil
}

// repositoryRoot walks up from dir to the folder whose go.mod is the repository's.
func repositoryRoot(dir string) (string, bool) {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := strings.Cut(string(text), "\n"); err == nil && strings.TrimSpace(first) == "module "+modulePath {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// Lock takes an exclusive file lock: one process at a time builds the programs, one has a node. The kernel
// releases it if the process dies. If it has to wait it says so.
func Lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for told := false; ; told = true {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing releases the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if !told {
			fmt.Fprintf(progress, "waiting for another process, which has locked %s\n", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, ctx.Err()), file.Close())
		case <-retry.C:
		}
	}
}

// requirePrograms says which of the named programs dir lacks.
func requirePrograms(dir string, names ...string) error {
	if absent := missing(dir, names...); len(absent) > 0 {
		return fmt.Errorf("%s has no %s", dir, strings.Join(absent, ", "))
	}
	return nil
}

// missing lists the named files that dir does not have.
func missing(dir string, names ...string) []string {
	var absent []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			absent = append(absent, name)
		}
	}
	return absent
}
