// Command readme makes the pictures of the README and of the docs from what the programs print: the page of a review of all examples, and that of the example of docs/preview.md.
//
//	make screenshots
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/program"
)

// pictures are a command of podgrace each, whose page is drawn.
var pictures = []struct {
	name string
	args []string
}{
	{"page", []string{"review", "-f", "examples", "-o", "html"}},
	{"preview-page", []string{"preview", "-f", "web.yaml", "--state", "cluster.yaml", "-o", "html"}},
}

func main() { program.Main("readme", program.None, run) }

func run(ctx context.Context) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil { // the paths below are from there
		return err
	}
	dir, err := os.MkdirTemp("", "podgrace-pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := lay(dir); err != nil {
		return err
	}
	for _, p := range pictures {
		output, err := printed(ctx, dir, p.args)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, p.name+".html")
		if err := os.WriteFile(file, output, 0o600); err != nil {
			return err
		}
		args := []string{"run", "-C=e2e", "./screenshot", "-page", file, "-o", filepath.Join(root, "docs", "images", p.name+".png")}
		if _, err := cluster.Run(ctx, "go", args...); err != nil {
			return fmt.Errorf("draw %s: %w", p.name, err)
		}
	}
	return nil
}

// lay makes the tree in which the commands run: the examples, and the files of docs/preview.md.
func lay(dir string) error {
	previewed, err := os.ReadFile(filepath.Join("docs", "preview.md"))
	if err != nil {
		return err
	}
	for _, m := range inDocs.FindAllSubmatch(previewed, -1) {
		if err := os.WriteFile(filepath.Join(dir, string(m[1])), m[2], 0o600); err != nil {
			return err
		}
	}
	examples, err := filepath.Abs("examples")
	if err != nil {
		return err
	}
	return os.Symlink(examples, filepath.Join(dir, "examples"))
}

// inDocs are the files of docs/preview.md, each named in its first line.
var inDocs = regexp.MustCompile("(?ms)^```yaml\n# (\\S+)\n(.*?)^```$")

// printed is what podgrace prints. Findings, and pods that fit nowhere, are no failure.
func printed(ctx context.Context, dir string, args []string) ([]byte, error) {
	podgrace, err := filepath.Abs(filepath.Join("bin", "podgrace"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, podgrace, args...)
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 4) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, complaint.Bytes())
	}
	return output, nil
}
