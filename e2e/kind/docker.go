package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind/noregistry"
)

// Docker is a client of a daemon.
type Docker struct {
	bin    string // folder with the client, for the PATH of kind
	host   string // of DOCKER_HOST; empty: the user's own
	daemon *cluster.Process
}

// findDocker chooses the client: the first on the PATH that can build with BuildKit, which clients from version 23 on leave
// to a plugin.
func findDocker(ctx context.Context, dir string) (*Docker, error) {
	d := &Docker{bin: filepath.Join(dir, "bin"), host: os.Getenv("DOCKER_HOST")}
	if err := os.MkdirAll(d.bin, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for docker: %w", err)
	}
	link := filepath.Join(d.bin, "docker")
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		client, err := exec.LookPath(filepath.Join(folder, "docker"))
		if err != nil || !buildsWithBuildKit(ctx, client) {
			continue
		}
		if err := os.Symlink(client, link); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("linking docker: %w", err)
		}
		return d, nil
	}
	return nil, errors.New("no docker client on the PATH can build with BuildKit: install docker-buildx")
}

func buildsWithBuildKit(ctx context.Context, client string) bool {
	if _, err := cluster.Run(ctx, client, "buildx", "version"); err == nil {
		return true
	}
	version, err := cluster.Run(ctx, client, "--version") // Docker version 20.10.24+dfsg1, build 297e128
	_, number, _ := strings.Cut(version, "version ")
	number, _, _ = strings.Cut(number, ".")
	major, convErr := strconv.Atoi(number)
	return err == nil && convErr == nil && major < 23
}

// Environment is what programs that talk to this daemon need in theirs.
func (d *Docker) Environment() []string {
	env := []string{"PATH=" + d.bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "DOCKER_BUILDKIT=1"}
	if d.host != "" {
		env = append(env, "DOCKER_HOST="+d.host)
	}
	return env
}

// Run runs a docker command and returns its output.
func (d *Docker) Run(ctx context.Context, args ...string) (string, error) {
	return cluster.Command{Env: d.Environment()}.Run(ctx, filepath.Join(d.bin, "docker"), args...)
}

// reachable reports whether a daemon answers.
func (d *Docker) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := d.Run(ctx, "version")
	return err == nil
}

// HasImage reports whether the daemon has an image.
func (d *Docker) HasImage(ctx context.Context, reference string) bool {
	_, err := d.Run(ctx, "image", "inspect", reference)
	return err == nil
}

// cgroupParent is where the containers of a private daemon are, for what comes after it to find.
const cgroupParent = "/podgrace-kind"

// start starts a daemon, with our runc before Debian's. It belongs in a box: a second daemon in the same network namespace
// rewrites the first one's firewall rules.
func (d *Docker) start(ctx context.Context, dir, data string) error {
	if err := cluster.GoBuild(ctx, filepath.Join(d.bin, "runc"), "e2e/kind/noregistry/runc"); err != nil {
		return err
	}
	socket := "unix://" + filepath.Join(dir, "docker.sock")
	// BuildKit looks for runc on the PATH.
	args := append([]string{"PATH=" + d.bin + ":" + os.Getenv("PATH"), "dockerd"},
		"--data-root="+data, "--exec-root="+filepath.Join(dir, "exec"), "--pidfile="+filepath.Join(dir, "docker.pid"), "--host="+socket,
		"--add-runtime=ours="+filepath.Join(d.bin, "runc"), "--default-runtime=ours", "--cgroup-parent="+cgroupParent, "--log-level=warn")
	daemon, err := cluster.StartProcess("dockerd", filepath.Join(dir, "dockerd.log"), "env", args...)
	if err != nil {
		return err
	}
	d.daemon, d.host = daemon, socket
	reachable := func(ctx context.Context) (bool, error) { return d.reachable(ctx), nil }
	if err := cluster.UntilWithin(ctx, 3*time.Minute, "dockerd", reachable, daemon); err != nil {
		return errors.Join(err, daemon.Stop())
	}
	return d.removeLeftovers(ctx)
}

// removeLeftovers removes the containers of a run that was killed.
func (d *Docker) removeLeftovers(ctx context.Context) error {
	ids, err := d.Run(ctx, "ps", "--all", "--quiet")
	if err != nil || ids == "" {
		return err
	}
	_, err = d.Run(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(ids)...)...)
	return err
}

// trim removes what no later run uses from a private daemon's data: node images of other inputs, images whose name went to
// a newer one, and what BuildKit keeps beyond some gigabytes.
func (d *Docker) trim(ctx context.Context, node string) error {
	list, err := d.Run(ctx, "images", "--format={{.Repository}}:{{.Tag}}", noregistry.NodeRepository)
	if err != nil {
		return err
	}
	for image := range strings.FieldsSeq(list) {
		if image != node {
			if _, err := d.Run(ctx, "rmi", image); err != nil {
				return err
			}
		}
	}
	if _, err := d.Run(ctx, "image", "prune", "--force"); err != nil {
		return err
	}
	_, err = d.Run(ctx, "builder", "prune", "--force", "--keep-storage=4GB")
	return err
}

// stop ends the daemon, if we started it.
func (d *Docker) stop() error {
	if d.daemon == nil {
		return nil
	}
	return d.daemon.Stop()
}
