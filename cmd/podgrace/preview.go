package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/launch"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

const previewLong = `Preview where a pod would be scheduled, why not elsewhere, and whom it would cost,
by the code of Kubernetes' own scheduler and after the policies.

It is a program of its own, podgrace-preview, since the scheduler is nothing that
podgrace needs otherwise. It is looked for beside podgrace, then on the PATH, and has
the rest of this help: %[1]s preview --help

It is not there yet? "make build" in a clone of Podgrace makes both programs, in bin/,
and the image podgrace/preview has both.`

func newPreview(name string) *cobra.Command {
	return &cobra.Command{
		Use:                   "preview ...",
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // they are the program's, --help too
		Short:                 "Preview where a pod would be scheduled, why not elsewhere, and whom it would cost",
		Long:                  fmt.Sprintf(previewLong, name),
		ValidArgsFunction:     completePreview,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := launch.Find(version.Preview)
			switch {
			case err != nil && (slices.Contains(args, "--help") || slices.Contains(args, "-h")):
				return cmd.Help()
			case err != nil:
				return terminal.UsageError{Err: err}
			}
			return launch.Starter{Command: cmd.CommandPath(), Version: version.Of(version.CommandLine).Version}.Become(path, args...)
		},
	}
}

// completePreview asks the program what can be typed next.
func completePreview(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	path, err := launch.Find(version.Preview)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	out, err := exec.CommandContext(cmd.Context(), path, slices.Concat([]string{cobra.ShellCompRequestCmd}, args, []string{prefix})...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := len(lines) - 1
	directive, wrong := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil || wrong != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}

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

// place is by what a result and its preview find each other.
type place struct {
	manifest.Resource
	manifest.Source
}

// previewResults tells results where their pods would be scheduled. It does not ask about what policies refuse, nor about recorded requests, which were decided long
// ago; nil asks about nothing. noNodes: it asks about nothing, since there is no Node.
func (p *previewer) previewResults(ctx context.Context, l *load.Loaded, results []review.Result, errs []*manifest.Error, alone bool) (noNodes bool, err error) {
	if p == nil {
		return false, nil
	}
	passed := slices.DeleteFunc(sound(l.Documents, errs), review.IsRecorded)
	sources := map[manifest.Source]bool{}
	for _, d := range passed {
		sources[sourceOf(d)] = true
	}
	asked, refused := map[place][]*review.Result{}, map[place]bool{}
	for i := range results {
		r := &results[i]
		switch {
		case !sources[r.Source]:
		case r.Decision == review.Denied:
			refused[place{manifest.Resource{APIVersion: r.Resource.APIVersion, Kind: r.Resource.Kind, Name: r.Resource.Name}, r.Source}] = true
		default:
			at := place{r.Resource, r.Source}
			at.GenerateName = "" // the preview of another version may leave it out
			asked[at] = append(asked[at], r)
		}
	}
	if len(asked) == 0 {
		return false, nil
	}
	if len(review.Objects[*corev1.Node](l.Engine.State)) == 0 {
		return true, nil
	}
	passed = slices.DeleteFunc(passed, func(d *manifest.Document) bool {
		return d.Template > 0 || refused[place{manifest.Resource{APIVersion: d.APIVersion, Kind: d.Kind, Name: d.Name}, sourceOf(d)}]
	})
	previews, err := p.documents(ctx, passed, l.Listed, alone)
	if err != nil {
		return false, err
	}
	for i := range previews {
		v := &previews[i]
		at := place{manifest.Resource{APIVersion: v.Resource.APIVersion, Kind: v.Resource.Kind, Namespace: v.Resource.Namespace, Name: v.Resource.Name, Template: v.Resource.Template}, v.Source}
		for _, r := range asked[at] {
			tell(r, v)
		}
		delete(asked, at)
	}
	for _, missing := range asked {
		for _, r := range missing {
			r.Unknown = append(r.Unknown, review.PhraseScheduled+"its preview is missing")
		}
	}
	return false, nil
}

// tell a result what its preview says.
func tell(r *review.Result, v *scheduling.Preview) {
	switch v.Outcome {
	case scheduling.Preempts, scheduling.Nowhere:
		reason, message := v.Pending()
		r.Pending = &review.Pending{Reason: reason, Message: message}
	case scheduling.Refused: // by validation that a review does not have
		r.Decision, r.Reason, r.Message = review.Denied, string(metav1.StatusReasonInvalid), v.Why
	case scheduling.Fits, scheduling.Gated:
	default:
		r.Unknown = append(r.Unknown, review.PhraseScheduled+v.Why)
	}
}

func sourceOf(d *manifest.Document) manifest.Source {
	return manifest.Source{File: d.File, Line: d.Line}
}

// sound are the documents in which nothing is wrong: where anything is, podgrace-preview answers nothing. An error may be at a field's line, which is one of its
// document's.
func sound(documents []*manifest.Document, errs []*manifest.Error) []*manifest.Document {
	var left []*manifest.Document
	for i, d := range documents {
		end := math.MaxInt
		if i+1 < len(documents) && documents[i+1].File == d.File && documents[i+1].Line > d.Line {
			end = documents[i+1].Line
		}
		if !slices.ContainsFunc(errs, func(e *manifest.Error) bool { return e.File == d.File && e.Line >= d.Line && e.Line < end }) {
			left = append(left, d)
		}
	}
	return left
}
