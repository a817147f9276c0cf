// Command chart copies the manifests of deploy into the Helm chart, which can read nothing outside its own folder:
//
//	go run ./deploy/chart [-check] DEPLOY
//
// DEPLOY is the folder deploy. The copies are the chart's folder files; -check writes nothing and fails where they are stale.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail where a copy is stale")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: chart [-check] DEPLOY")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(deploy string, check bool) error {
	want, err := sources(os.DirFS(deploy))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(deploy)
	if err != nil {
		return fmt.Errorf("open the manifests: %w", err)
	}
	defer func() { _ = root.Close() }()
	have, err := read(root.FS(), copied)
	if err != nil {
		return err
	}
	changes := diff(want, have)
	if check && len(changes) > 0 {
		return fmt.Errorf("stale in %s/%s: %q; run make generate", deploy, copied, changes)
	}
	return write(root, want, changes)
}
