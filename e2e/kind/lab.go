package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind/noregistry"
	"github.com/podgrace/podgrace/e2e/kind/noregistry/box"
	"github.com/podgrace/podgrace/e2e/vm"
)

// Lab is what a run has at its disposal: a daemon, the programs, the sources of both versions.
type Lab struct {
	// Dir is the run's own folder.
	Dir string
	// Docker is the daemon.
	Docker *Docker

	debian            string // folder with Debian's root file system
	programs          string // folder with Kubernetes' programs
	kind              string // the program, as the next two
	helm, certManager string
	source            string // of kind's module
	log               io.Writer
	start             time.Time

	makesNode sync.Mutex
}

// dirVariable has the folder of the run for the process in the box of the run.
const dirVariable = "PODGRACE_KIND_DIR"

// Run calls inside with a lab: here if a daemon answers, else in a box with a daemon of its own. Before, with the network
// still there, prepare may fill the run's folder. It returns an exit code.
func Run(ctx context.Context, log io.Writer, prepare func(ctx context.Context, dir string) error, inside func(context.Context, *Lab) int) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := enter(ctx, log, prepare, inside)
	if err != nil {
		fmt.Fprintln(log, "kind:", err)
		return max(code, 1)
	}
	return code
}

func enter(ctx context.Context, log io.Writer, prepare func(context.Context, string) error, inside func(context.Context, *Lab) int) (code int, err error) {
	if box.Inside() {
		if err := box.Furnish(ctx); err != nil {
			return 0, err
		}
		return open(ctx, log, os.Getenv(dirVariable), true, inside)
	}
	unlock, err := lock(ctx, log)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := cleanUp(ctx); err != nil { // after a run that was killed: we have the lock
		return 0, err
	}
	defer func() { err = errors.Join(err, cleanUp(context.WithoutCancel(ctx))) }()
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return 0, fmt.Errorf("making a folder for the run: %w", err)
	}
	l, err := newLab(ctx, log, dir) // builds and fetches what is missing
	if err != nil {
		return 0, err
	}
	l.Logf("programs are there")
	if err := prepare(ctx, dir); err != nil {
		return 0, err
	}
	l.Logf("sources are there")
	if d, err := findDocker(ctx, dir); err != nil {
		return 0, err
	} else if d.reachable(ctx) {
		return open(ctx, log, dir, false, inside)
	}
	if err := os.Setenv(dirVariable, dir); err != nil {
		return 0, fmt.Errorf("naming the run's folder: %w", err)
	}
	return box.Run(ctx)
}

// dirPrefix begins the names of runs' folders.
const dirPrefix = "podgrace-kind-"

// cleanUp removes what a run leaves when its box is gone: its folder and its cgroups.
func cleanUp(ctx context.Context) error {
	errs := []error{cluster.RemoveCgroups(ctx, cgroupParent)}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	errs = append(errs, err)
	for _, dir := range dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	return nil
}

// lock keeps a second run from the daemon's data.
func lock(ctx context.Context, log io.Writer) (unlock func(), err error) {
	data, err := dataRoot()
	if err != nil {
		return nil, err
	}
	return cluster.Lock(ctx, data+".lock", log)
}

// dataRoot is where a private daemon keeps images from run to run.
func dataRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "podgrace", "docker")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	return dir, nil
}

// open has inside work with a lab and closes it.
func open(ctx context.Context, log io.Writer, dir string, private bool, inside func(context.Context, *Lab) int) (code int, err error) {
	l, err := newLab(ctx, log, dir)
	if err != nil {
		return 0, err
	}
	if l.Docker, err = findDocker(ctx, dir); err != nil {
		return 0, err
	}
	if private {
		data, err := dataRoot()
		if err != nil {
			return 0, err
		}
		if err := l.Docker.start(ctx, dir, data); err != nil {
			return 0, err
		}
		l.Logf("docker daemon is up")
	} else {
		defer context.AfterFunc(ctx, l.abandon)()
	}
	defer func() { err = errors.Join(err, l.Docker.stop()) }()
	return inside(ctx, l), nil
}

// abandon ends the program on a signal, and with it what a daemon that is not ours would keep.
func (l *Lab) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = l.runKind(ctx, "delete", "cluster")
	_ = cleanUp(ctx)
	os.Exit(1)
}

func newLab(ctx context.Context, log io.Writer, dir string) (*Lab, error) {
	l := &Lab{Dir: dir, log: log, start: time.Now()}
	var err error
	if l.programs, err = cluster.Binaries(ctx, log, Programs()...); err != nil {
		return nil, err
	}
	if !registryReached() {
		if l.debian, err = vm.DebianRoot(ctx, log); err != nil {
			return nil, err
		}
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	if l.kind, err = (cluster.Command{Dir: root}).Run(ctx, "go", "tool", "-modfile=tools/go.mod", "-n", "kind"); err != nil {
		return nil, err
	}
	if l.helm, err = (cluster.Command{Dir: filepath.Join(root, "e2e", "deploy")}).Run(ctx, "go", "tool", "-n", "helm"); err != nil {
		return nil, err
	}
	if l.certManager, err = buildCertManager(ctx, dir); err != nil {
		return nil, err
	}
	l.source, err = cluster.Command{Dir: root}.Run(ctx, "go", "list", "-modfile=tools/go.mod", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind")
	return l, err
}

// nodeImage returns our node image, which one caller makes.
func (l *Lab) nodeImage(ctx context.Context) (string, error) {
	l.makesNode.Lock()
	defer l.makesNode.Unlock()
	return l.maker().Node(ctx)
}

// maker makes what a registry would have.
func (l *Lab) maker() noregistry.Maker {
	return noregistry.Maker{Docker: l.Docker, Dir: l.Dir, Debian: l.debian, Programs: l.programs, Kind: l.source, Logf: l.Logf}
}

// Logf notes a step and when it was done.
func (l *Lab) Logf(format string, args ...any) {
	fmt.Fprintf(l.log, "kind: %5.1fs %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}
