// Command readme makes the pictures of the README and of the docs from what the programs print: the terminal with podgrace review and diff
// over an example, and the page of a review of all of them; and the example of docs/preview.md in the terminal and as a page.
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

// pictures are a command each, and what it is drawn as.
var pictures = []struct {
	name string
	args []string // of podgrace
	page bool
}{
	{"review", []string{"review", "-f", "shop", "--policy", "policies/shop.yaml"}, false},
	{"diff", []string{"diff", "--from", "main/policies", "--to", "policies/web.yaml", "-f", "deploy"}, false},
	{"page", []string{"review", "-f", "examples", "-o", "html"}, true},
	{"preview", []string{"preview", "-f", "web.yaml", "--state", "cluster.yaml"}, false},
	{"preview-page", []string{"preview", "-f", "web.yaml", "--state", "cluster.yaml", "-o", "html"}, true},
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
		file := filepath.Join(dir, p.name)
		if p.page {
			file += ".html"
		}
		if err := os.WriteFile(file, output, 0o600); err != nil {
			return err
		}
		args := []string{"run", "-C=e2e", "./screenshot"}
		if p.page {
			args = append(args, "-page", file, "-o", filepath.Join(root, "docs", "images", p.name+".png"))
		} else {
			args = append(args, "-terminal", file, "-prompt", command(p.args), "-o", filepath.Join(root, "docs", "images", p.name+".svg"))
		}
		if _, err := cluster.Run(ctx, "go", args...); err != nil {
			return fmt.Errorf("draw %s: %w", p.name, err)
		}
	}
	return nil
}

// lay makes the tree in which the commands run: the example's manifests, its policy on the main branch, and the same with a change, as a
// pull request would have it.
func lay(dir string) error {
	const example = "examples/production-web"
	policy, err := os.ReadFile(filepath.Join(example, "policy.yaml"))
	if err != nil {
		return err
	}
	changed := policy
	for before, after := range changes {
		if !bytes.Contains(changed, []byte(before)) {
			return fmt.Errorf("the policy of %s has no %q any more", example, before)
		}
		changed = bytes.Replace(changed, []byte(before), []byte(after), 1)
	}
	files := map[string][]byte{
		"main/policies/web.yaml": policy, "policies/web.yaml": changed, "policies/shop.yaml": []byte(shopPolicy), "shop/workloads.yaml": []byte(shop),
	}
	for _, name := range []string{"cluster.yaml", "workloads.yaml"} {
		if files["deploy/"+name], err = os.ReadFile(filepath.Join(example, name)); err != nil {
			return err
		}
	}
	previewed, err := os.ReadFile(filepath.Join("docs", "preview.md"))
	if err != nil {
		return err
	}
	for _, m := range inDocs.FindAllSubmatch(previewed, -1) {
		files[string(m[1])] = m[2]
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
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

// shop is what fits one screen of a review.
const (
	shopPolicy = `apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: shop}
spec:
  priority: {className: shop-normal, allowedClassNames: [shop-normal, shop-high]}
  gracePeriod: {minSeconds: 20, preStopMarginSeconds: 15}
`
	shop = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: shop-normal}
value: 50000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout, namespace: shop}
spec:
  selector: {matchLabels: {app: checkout}}
  template:
    metadata: {labels: {app: checkout}}
    spec:
      terminationGracePeriodSeconds: 25
      containers:
      - name: checkout
        image: registry.example/checkout:7
        lifecycle: {preStop: {sleep: {seconds: 20}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: impatient, namespace: shop}
spec:
  selector: {matchLabels: {app: impatient}}
  template:
    metadata: {labels: {app: impatient}}
    spec:
      priorityClassName: system-cluster-critical
      containers: [{name: app, image: "registry.example/impatient:1"}]
`
)

// changes of the policy in the picture of diff.
var changes = map[string]string{
	"defaultSeconds: 45":                     "defaultSeconds: 60",
	"allowedClassNames: [web-high, web-low]": "allowedClassNames: [web-high]",
}

func command(args []string) string {
	return strings.Join(append([]string{"podgrace"}, args...), " ")
}

// printed is what podgrace prints on a terminal of 100 columns. Findings, and pods that fit nowhere, are no failure.
func printed(ctx context.Context, dir string, args []string) ([]byte, error) {
	podgrace, err := filepath.Abs(filepath.Join("bin", "podgrace"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, podgrace, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CLICOLOR_FORCE=1", "COLUMNS=100")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 4) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", command(args), err, complaint.Bytes())
	}
	return output, nil
}
