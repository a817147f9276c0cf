package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "the version, a tag as v1.2.3")
	flag.StringVar(&o.registry, "registry", "ghcr.io/podgrace", "where images and the chart are pushed to, without a slash at its end")
	flag.StringVar(&o.out, "out", "../dist", "an empty folder, or one that an earlier run has made and that is replaced")
	flag.BoolVar(&o.publish, "publish", false, "push, sign and make the release's page, instead of saying what would do it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	version, registry, out string
	publish                bool
}

func run(ctx context.Context, o options) error {
	if !tag.MatchString(o.version) {
		return fmt.Errorf("-version %q is no tag as v1.2.3", o.version)
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	w := &workshop{root: root}
	if w.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if w.release, err = read(ctx, root, o); err != nil {
		return err
	}
	if o.publish {
		if err := w.ready(ctx); err != nil {
			return err
		}
	}
	if err := w.make(ctx); err != nil {
		return err
	}
	return w.deliver(ctx, o.publish)
}

// read is the release of the commit that is checked out.
func read(ctx context.Context, root string, o options) (release, error) {
	r := release{Version: o.version, Registry: o.registry, CommandLines: commandLines, Nodes: nodes}
	text, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return r, err
	}
	r.Commit, text, _ = strings.Cut(text, " ")
	r.Date, err = seconds(text)
	return r, err
}

// ready says why the checkout is not what is released, or is released already: what is pushed again replaces what the registry has by the version's tag. It
// finds the draft of an earlier run.
func (w *workshop) ready(ctx context.Context) error {
	changes, err := output(ctx, w.root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has changes, and only a commit is published:\n%s", changes)
	}
	tags, err := output(ctx, w.root, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(tags), w.Version) {
		return fmt.Errorf("the commit does not have the tag %s", w.Version)
	}
	draft, err := output(ctx, w.root, "gh", "release", "view", w.Version, "--json=isDraft", "--jq=.isDraft")
	switch {
	case err == nil && draft == "true":
		w.draft = true
	case err == nil:
		return fmt.Errorf("%s is released already, and never changes: what is wrong gets another version", w.Version)
	case !strings.Contains(err.Error(), "release not found"): // as gh says it (pkg/cmd/release/shared/fetch.go); everything else is unknown
		return err
	}
	return nil
}
