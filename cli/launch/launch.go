// Package launch starts commands of podgrace that are programs of their own. podgrace-preview is one since Kubernetes' scheduler can't be
// had without the replacements of its go.mod, and go install refuses a module with any. Who started a program, and as what, is told to it in its
// environment; it asks by By.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/podgrace/podgrace/internal/program/version"
)

// Find returns where a program is: in the folder of this one, or of what a link to it leads to, else on the PATH.
func Find(program string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return onPath(program, "beside podgrace")
	}
	folders := []string{filepath.Dir(self)}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		folders = append(folders, filepath.Dir(real)) // of a system that names the link
	}
	for _, folder := range slices.Compact(folders) {
		path, err := exec.LookPath(filepath.Join(folder, program))
		if !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return onPath(program, "in "+folders[0])
}

// onPath never takes what is in the folder that the person happens to be in, nor in one that depends on it: a repository may have a
// program of this name.
func onPath(program, neither string) (string, error) {
	path, err := exec.LookPath(program)
	switch {
	case errors.Is(err, exec.ErrDot), err == nil && !filepath.IsAbs(path):
		return "", fmt.Errorf("%s is not started: the PATH names its folder as seen from this one, whatever is in it; name it in full, or put the program beside podgrace", path)
	case err != nil:
		return "", fmt.Errorf(`%s is neither %s nor on the PATH: "make build" in a clone of Podgrace makes it, as bin/%[1]s`, program, neither)
	}
	return path, nil
}

// What the environment of a started program has.
const (
	commandVariable = "PODGRACE_COMMAND"
	versionVariable = "PODGRACE_VERSION"
)

// Starter is who started a program.
type Starter struct {
	// Command is what the person typed, such as "kubectl podgrace preview"; empty if it was the program itself.
	Command string
	// Version is that of podgrace; empty if nobody knows.
	Version string
}

// By reads who started this program.
func By(env func(string) string) Starter {
	return Starter{Command: env(commandVariable), Version: env(versionVariable)}
}

// Remark says that the two programs are not of one version, if they are not.
func (s Starter) Remark(own version.Info) string {
	if s.Version == "" || s.Version == version.Unknown || own.Version == version.Unknown || s.Version == own.Version {
		return ""
	}
	return fmt.Sprintf("%s is %s, and podgrace is %s: what they say of the same manifests may differ; install both of one version", own.Program, own.Version, s.Version)
}

// Become makes this process the program at the path. It returns only if that fails: streams, working directory, process group and the
// process itself stay what they are, so that signals reach the program and its exit code whoever waits for it.
func (s Starter) Become(path string, args ...string) error {
	err := errors.Join(os.Setenv(commandVariable, s.Command), os.Setenv(versionVariable, s.Version)) // of this process: of two values in a list the first would count
	if err == nil {
		err = syscall.Exec(path, append([]string{path}, args...), os.Environ())
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil
}
