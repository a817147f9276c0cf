package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// VersionVariable names an older minor version of Kubernetes to run: "1.34". older.txt lists them. Unset or empty is the version
// that e2e/kubernetes/go.mod pins.
const VersionVariable = "PODGRACE_KUBERNETES"

// older has the patch version of each older minor version, one a line. The Makefile reads it too.
//
//go:embed older.txt
var older string

// kubernetesVersion returns the version that VersionVariable selects, and whether it is an older one.
func kubernetesVersion() (version string, isOlder bool, err error) {
	minor := os.Getenv(VersionVariable)
	if minor == "" {
		module, err := pinnedKubernetes()
		if err != nil {
			return "", false, err
		}
		version, err = pinnedVersion(module, "k8s.io/kubernetes")
		return version, false, err
	}
	for version := range strings.FieldsSeq(older) {
		if major, of := majorMinor(version); minor == major+"."+of {
			return version, true, nil
		}
	}
	return "", false, fmt.Errorf("%s: no version %q, only %s", VersionVariable, minor, strings.Join(strings.Fields(older), ", "))
}

// olderModule returns a module in dir that builds the programs of an older version with the dependencies that this version pins. It is
// generated once, from Kubernetes' own go.mod and go.sum. The Go command checks the sums that those lack, of the staging modules, against
// the checksum database.
func olderModule(ctx context.Context, version, dir string, progress io.Writer) (string, error) {
	unlock, err := Lock(ctx, filepath.Join(dir, ".lock-module"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	module, temp := filepath.Join(dir, "module"), filepath.Join(dir, ".module")
	if len(missing(module, "go.mod")) == 0 {
		return module, nil
	}
	defer os.RemoveAll(temp)
	if err := errors.Join(os.RemoveAll(temp), os.Mkdir(temp, 0o755)); err != nil {
		return "", fmt.Errorf("generating a module for Kubernetes %s: %w", version, err)
	}
	if err := generateModule(ctx, version, temp); err != nil {
		return "", fmt.Errorf("generating a module for Kubernetes %s: %w", version, err)
	}
	return module, os.Rename(temp, module)
}

// generateModule writes go.mod and go.sum into an empty folder.
func generateModule(ctx context.Context, version, dir string) error {
	source, err := downloadModule(ctx, dir, "k8s.io/kubernetes@"+version)
	if err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), standalone(gomod, version), 0o644),
		os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644),
	); err != nil {
		return err
	}
	// This adds what is missing, so that builds only read the two files, several at once.
	args := []string{"list", "-mod=mod", "-deps"}
	for _, p := range programs {
		args = append(args, p.pkg)
	}
	_, err = Command{Dir: dir, Env: []string{"GOWORK=off", "CGO_ENABLED=0"}}.Run(ctx, "go", args...)
	return err
}

var (
	moduleLine  = regexp.MustCompile(`(?m)^module .*$`)
	stagingLine = regexp.MustCompile(`=> \./staging/src/(\S+)`)
)

// standalone turns Kubernetes' own go.mod into that of a module which requires Kubernetes: a release of the staging modules replaces the
// folders of its repository, v0.34.4 for v1.34.4.
func standalone(gomod []byte, version string) []byte {
	gomod = moduleLine.ReplaceAll(gomod, []byte("module "+modulePath+"/kubernetes"))
	gomod = stagingLine.ReplaceAll(gomod, []byte("=> $1 v0"+strings.TrimPrefix(version, "v1")))
	return append(gomod, "\nrequire k8s.io/kubernetes "+version+"\n"...)
}

// downloadModule downloads a module unless the module cache has it, and returns its folder there. Without @version it is the version
// that the module in dir requires.
func downloadModule(ctx context.Context, dir, module string) (string, error) {
	printed, err := Command{Dir: dir, Env: []string{"GOWORK=off"}}.Run(ctx, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(printed), &downloaded); err != nil {
		return "", fmt.Errorf("downloading %s: %w", module, err)
	}
	return downloaded.Dir, nil
}
