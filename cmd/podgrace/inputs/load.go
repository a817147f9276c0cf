package inputs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/input"
)

// Loaded is what was read.
type Loaded struct {
	// Engine judges by it, and has the state.
	Engine *review.Engine
	// Documents are those of -f.
	Documents []*manifest.Document
	// Files is how many they were read from.
	Files   int
	LeftOut []input.LeftOut
	// Errors are what is wrong with documents and policies, which were passed over.
	Errors []*manifest.Error
	// NoPolicies: not one PodPolicy is known.
	NoPolicies bool
	// OfCluster: the policies are the cluster's, which remarks on them itself.
	OfCluster bool
}

// Load reads all there is. What is wrong with a document or a policy is in the errors; the rest is used.
func (o *Options) Load(ctx context.Context, t cli.Terminal) (*Loaded, error) {
	policies, wrong, err := RequirePolicies("--policy", o.Policies)
	if err != nil {
		return nil, err
	}
	manifests, further := o.Read(t)
	l := &Loaded{Documents: manifests.Documents, Files: manifests.Files, LeftOut: append(manifests.LeftOut, further.LeftOut...), Errors: append(manifests.Errors, further.Errors...)}
	policies, among := review.AddPolicies(policies, slices.Concat(manifests.Documents, further.Documents))
	wrong = append(wrong, among...)
	l.Errors = append(l.Errors, wrong...)
	if o.Live && len(policies) == 0 && len(wrong) == 0 {
		if policies, err = o.clusterPolicies(ctx); err != nil {
			return nil, err
		}
		l.OfCluster = true
	}
	state, err := o.state(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := o.Templates.Set(state); err != nil {
		return nil, err
	}
	state.Listed(manifests.Listed)
	l.NoPolicies = len(policies) == 0
	for i, d := range slices.Concat(further.Documents, manifests.Documents) {
		if err := state.Add(d, o.Namespace); err != nil {
			l.Errors = append(l.Errors, d.Wrong(err))
		}
		if i < len(further.Documents) {
			d.JSON = nil // nobody reads it again, and a state may be of 150,000 pods
		}
	}
	if l.Engine, err = review.NewEngine(state, policies...); err != nil {
		return nil, cli.UsageError{Err: err}
	}
	if o.Namespace != "" {
		l.Engine.Namespace = o.Namespace
	}
	exceptions, unread := LoadExceptions("--policy", o.Policies)
	l.Engine.Exceptions, l.Errors = exceptions, append(l.Errors, unread...)
	l.Engine.NodePolicies = loadNodePolicies("--policy", o.Policies)
	return l, nil
}

// Wrong says what is wrong with documents and policies, for a command that answers nothing then.
func (l *Loaded) Wrong(t cli.Terminal) error {
	for _, wrong := range l.Errors {
		if wrong.File == "-" {
			wrong.File = "stdin"
		}
		fmt.Fprintf(t.Err, "podgrace: %v\n", wrong)
	}
	if len(l.Errors) > 0 {
		return cli.ErrBadInput
	}
	return nil
}

// Read returns the documents of -f and of --state. That there are none is an error where it may be that a command before this
// one in a pipe has failed, and where nothing at all would be judged.
func (o *Options) Read(t cli.Terminal) (manifests, further review.Inputs) {
	reader := &input.Reader{Stdin: t.In, Exclude: o.Exclude, Render: o.Render, Namespace: o.Namespace}
	manifests, further = readEach(reader, o.Paths), readEach(reader, o.State)
	if len(manifests.Documents) == 0 && len(manifests.Errors) == 0 && len(o.Paths) > 0 && reader.Lists == 0 {
		for _, path := range o.Paths {
			manifests.Errors = append(manifests.Errors, &manifest.Error{File: path, Message: strings.Join(append([]string{"there is no document in it"}, input.LeftOutInWords(manifests.LeftOut)...), "; ")})
		}
	}
	manifests.Listed = reader.Listed
	return manifests, further
}

func readEach(reader *input.Reader, paths []string) review.Inputs {
	var all review.Inputs
	known := map[string]bool{} // files of the paths before: who names one twice, or with its folder, means it once
	for _, path := range paths {
		lists := reader.Lists
		in := review.Read(reader, path)
		there := len(in.Documents) > 0
		in.Documents = slices.DeleteFunc(in.Documents, func(d *manifest.Document) bool { return known[absolute(d.File)] })
		for _, d := range in.Documents {
			known[absolute(d.File)] = true
		}
		if path == "-" && !there && len(in.Errors) == 0 && reader.Lists == lists {
			in.Errors = append(in.Errors, &manifest.Error{File: path, Message: "there is no document in it; has the command before it failed?"})
		}
		all.Files += in.Files
		all.Documents, all.LeftOut, all.Errors = append(all.Documents, in.Documents...), append(all.LeftOut, in.LeftOut...), append(all.Errors, in.Errors...)
	}
	return all
}

// absolute is a path by which a file is known, however it was named.
func absolute(file string) string {
	if path, err := filepath.Abs(file); err == nil && file != "-" {
		return path
	}
	return file
}

// TellLeftOut says what was found in folders and was not read.
func TellLeftOut(t cli.Terminal, left []input.LeftOut) {
	for _, sentence := range input.LeftOutInWords(left) {
		fmt.Fprintln(t.Err, console.Visible("left out: "+sentence))
	}
}
