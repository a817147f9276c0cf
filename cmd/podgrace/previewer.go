package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/launch"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

// previewer asks podgrace-preview about pods, as a child whose output is read.
type previewer struct {
	path string
	// reading are flags by which it reads the same policies and state (load.Options.Again).
	reading []string
	// complaints is where goes what it says beside an answer.
	complaints io.Writer
}

// newPreviewer finds the program.
func newPreviewer(t terminal.Terminal, reading []string) (*previewer, error) {
	path, err := launch.Find(version.Preview)
	if err != nil {
		return nil, terminal.UsageError{Err: err}
	}
	return &previewer{path, reading, t.Err}, nil
}

// pod is the preview of a pod of the cluster.
func (p *previewer) pod(ctx context.Context, namespace, name string) (*scheduling.Preview, error) {
	report, err := p.ask(ctx, nil, "--namespace="+namespace, name)
	if err != nil {
		return nil, err
	}
	if len(report.Previews) != 1 {
		return nil, fmt.Errorf("%s tells of %d pods, and not of one", version.Preview, len(report.Previews))
	}
	return &report.Previews[0], nil
}

// documents are the previews of documents, each with the place that its document was read from. The documents are passed on as they were read, each in a line: stdin
// can be read once, and what a chart renders may be another thing the second time.
func (p *previewer) documents(ctx context.Context, documents []*manifest.Document, listed []manifest.Listed, alone bool) ([]scheduling.Preview, error) {
	var lines bytes.Buffer
	for _, d := range documents {
		if err := json.Compact(&lines, d.JSON); err != nil {
			return nil, fmt.Errorf("pass %s:%d on: %w", d.File, d.Line, err)
		}
		lines.WriteByte('\n')
	}
	for _, of := range listed { // an empty list says that there are none
		fmt.Fprintf(&lines, `{"apiVersion":%q,"kind":%q,"items":[]}`+"\n", of.APIVersion, of.Kind+"List")
	}
	args := []string{"--filename=" + manifest.Stdin}
	if alone { // else it takes the cluster of a kubeconfig that happens to be there
		args = append(args, "--state="+os.DevNull)
	}
	report, err := p.ask(ctx, &lines, args...)
	if err != nil {
		return nil, err
	}
	for i := range report.Previews {
		at := &report.Previews[i].Source
		if at.Line < 1 || at.Line > len(documents) {
			return nil, fmt.Errorf("%s tells of a document %d, of %d", version.Preview, at.Line, len(documents))
		}
		d := documents[at.Line-1]
		*at = manifest.Source{File: d.File, Line: d.Line}
	}
	return report.Previews, nil
}

// ask returns the report of previews.
func (p *previewer) ask(ctx context.Context, stdin io.Reader, args ...string) (*scheduling.Report, error) {
	var complaints bytes.Buffer
	by := launch.Starter{Version: version.Of(version.CommandLine).Version} // and no command: nobody typed one
	out, code, err := by.Output(ctx, p.path, stdin, &complaints, slices.Concat(p.reading, []string{"--output=json"}, args)...)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		said := strings.ReplaceAll("\n"+strings.TrimSpace(complaints.String()), "\n"+version.Preview+": ", "\n")
		err := fmt.Errorf("%s gives no answer (exit code %d): %s", version.Preview, code, strings.ReplaceAll(strings.TrimPrefix(said, "\n"), "\n", "; "))
		if code == int(terminal.ErrBadInput) {
			return nil, terminal.UsageError{Err: err}
		}
		return nil, err
	}
	if _, err := p.complaints.Write(complaints.Bytes()); err != nil {
		return nil, fmt.Errorf("say what %s says: %w", version.Preview, err)
	}
	return scheduling.Read(out)
}

// aloneIn reports whether there is neither a state nor a cluster beside the manifests.
func aloneIn(o *load.Options) bool { return !o.Live && len(o.State) == 0 }
