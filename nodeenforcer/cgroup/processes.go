package cgroup

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How much of what is below a cgroup is looked at for processes. A container may make cgroups below its own where it can write to them (a privileged one, or with
// containerd's cgroup_writable); its owner must not keep the enforcer busy, nor take its files. A node in a container has a few hundred, ten deep.
const (
	maxDepth     = 32
	maxGroups    = 4096
	lookPatience = time.Second
)

// ErrTooMany means that more cgroups are below a cgroup than are looked at, and that those that were have no process: the others may have.
var ErrTooMany = errors.New("too many cgroups below it")

// processesOf lists the processes in a cgroup and below, sorted, of as many cgroups as are looked at. That there is none is said only where all of them were.
// What goes away below meanwhile had none left.
func (h hierarchy) processesOf(cgroup string) ([]int, error) {
	g, err := h.open(cgroup)
	if err != nil {
		return nil, err
	}
	defer g.close()
	l := look{left: maxGroups, until: time.Now().Add(lookPatience)}
	if err := l.at(g, 0); err != nil {
		return nil, err
	}
	if len(l.pids) == 0 && l.short {
		return nil, fmt.Errorf("listing the processes of %s: %w", cgroup, ErrTooMany)
	}
	slices.Sort(l.pids)
	return slices.Compact(l.pids), nil
}

// look is one search for processes.
type look struct {
	left  int
	until time.Time
	pids  []int
	short bool // not everything was looked at
}

// at looks at a group, then at those below it, each of which is opened from the one above: from the root, the work would grow with the square of
// the depth.
func (l *look) at(g *group, depth int) error {
	pids, err := g.processes()
	if err != nil {
		return err
	}
	l.pids = append(l.pids, pids...)
	names, err := g.children()
	if err != nil {
		return err
	}
	for _, name := range names {
		if depth == maxDepth || l.left == 0 || time.Now().After(l.until) {
			l.short = true
			return nil
		}
		l.left--
		if err := l.below(g, name, depth+1); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	return nil
}

func (l *look) below(g *group, name string, depth int) error {
	child, err := g.child(name)
	if err != nil {
		return err
	}
	defer child.close()
	return l.at(child, depth)
}

// child opens a group directly below.
func (g *group) child(name string) (*group, error) {
	at := path.Join(g.path, name)
	fd, err := openat(g.fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return nil, g.of.failed("opening", at, err)
	}
	return &group{of: g.of, path: at, fd: fd}, nil
}

// processes reads the group's own cgroup.procs. The kernel prints 0 for a process that our pid namespace does not have.
func (g *group) processes() ([]int, error) {
	text, _, err := g.read(procsFile)
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("reading the processes of %s: %w", g.path, err)
		}
		if pid <= 0 {
			return nil, fmt.Errorf("%s has processes of another pid namespace: the host's is needed (hostPID)", g.path)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
