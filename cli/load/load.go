package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// Loaded is what was read.
type Loaded struct {
	// Engine judges by it, and has the state.
	Engine *review.Engine
	// Documents are those of -f, or the cluster's own (Options.MayDump).
	Documents []*manifest.Document
	// Files is how many they were read from.
	Files   int
	LeftOut []input.LeftOut
	// Listed are the kinds of which there was a typed list among the manifests.
	Listed []manifest.Listed
	// Errors are what is wrong with documents and policies, which were passed over.
	Errors []*manifest.Error
	// NoPolicies: not one PodPolicy is known.
	NoPolicies bool
	// OfCluster: the policies are the cluster's, which remarks on them itself.
	OfCluster bool
}

// Load reads all there is. What is wrong with a document or a policy is in the errors; the rest is used.
func (o *Options) Load(ctx context.Context, t terminal.Terminal) (*Loaded, error) {
	files, err := ReadPolicyFiles("--policy", o.Policies, t.In)
	if err != nil {
		return nil, err
	}
	policies, wrong, err := files.Require()
	if err != nil {
		return nil, err
	}
	of := &objects{state: review.NewState(o.Further...), namespace: o.Namespace}
	manifests, further := o.read(t, of.take)
	l := &Loaded{Files: manifests.Files, Listed: manifests.Listed, LeftOut: append(manifests.LeftOut, further.LeftOut...), Errors: append(manifests.Errors, further.Errors...)}
	policies, among := review.AddPolicies(policies, slices.Concat(manifests.Documents, of.policies))
	wrong = append(wrong, among...)
	l.Errors = append(l.Errors, wrong...)
	if o.Live && len(policies) == 0 && len(wrong) == 0 {
		if policies, err = o.clusterPolicies(ctx, t); err != nil {
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
	for _, object := range of.all {
		state.Set(object)
	}
	l.Errors = append(l.Errors, of.errors...)
	l.Documents = slices.DeleteFunc(manifests.Documents, func(d *manifest.Document) bool {
		err := state.AddManifest(d, o.Namespace)
		if err == nil {
			return false
		}
		wrong := d.Wrong(err)
		l.Errors = append(l.Errors, wrong)
		return wrong.Variable != ""
	})
	l.Errors = append(l.Errors, state.AddDeadlines(slices.Concat(of.deadlines, l.Documents))...)
	if err := o.dump(ctx, l); err != nil {
		return nil, err
	}
	if err := o.Templates.Check(state, l.Documents); err != nil {
		return nil, err
	}
	l.Documents = state.Expand(l.Documents)
	if l.Engine, err = review.NewEngine(state, policies...); err != nil {
		return nil, terminal.UsageError{Err: err}
	}
	TellUnread(t, l.Engine.Unread)
	if err := o.place(ctx, t, l.Engine); err != nil {
		return nil, err
	}
	exceptions, unread := files.Exceptions()
	l.Engine.Exceptions, l.Errors = exceptions, append(l.Errors, unread...)
	l.setAside()
	l.Engine.NodePolicies = files.NodePolicies()
	return l, nil
}

// setAside leaves out what can't be read before a variable is filled in.
func (l *Loaded) setAside() {
	wrong, left := review.SetAside(l.Errors)
	l.Errors, l.LeftOut = wrong, append(l.LeftOut, left...)
}

// dump takes the cluster's own objects, where it is they that are asked about.
func (o *Options) dump(ctx context.Context, l *Loaded) error {
	if !o.dumps() {
		return nil
	}
	reader, err := o.Client()
	if err != nil {
		return err
	}
	documents, wrong, err := o.Dump(ctx, reader)
	l.Documents, l.Errors = documents, append(l.Errors, wrong...)
	return err
}

// place tells an engine about namespaces: which no policy is for, and that of objects which name none.
func (o *Options) place(ctx context.Context, t terminal.Terminal, e *review.Engine) error {
	exempt, err := o.Exempt(ctx, t)
	if err != nil {
		return err
	}
	if err := e.SetExempt(exempt); err != nil {
		return fmt.Errorf("leave out excluded namespaces: %w", err)
	}
	if o.Namespace != "" {
		e.Namespace = o.Namespace
	}
	return nil
}

// objects are those of --state, of which no text is kept: they may be 150,000 pods.
type objects struct {
	// state of the kinds that are kept; nothing is put into it.
	state     *review.State
	namespace string
	all       []client.Object
	// policies are the documents that policies are read of.
	policies []*manifest.Document
	// deadlines are the documents that may say how long who stops a node waits for its pods.
	deadlines []*manifest.Document
	errors    []*manifest.Error
}

func (o *objects) take(d *manifest.Document) {
	object, err := o.state.Object(d, o.namespace)
	switch {
	case err != nil:
		o.errors = append(o.errors, d.Wrong(err))
	case object != nil:
		o.all = append(o.all, object)
	}
	if policyfile.IsPolicy(d) {
		o.policies = append(o.policies, d)
	}
	if review.HasDeadline(d) {
		o.deadlines = append(o.deadlines, d)
	}
}

// Wrong says what is wrong with documents and policies, for a command that answers nothing then.
func (l *Loaded) Wrong(t terminal.Terminal) error {
	for _, wrong := range l.Errors {
		if wrong.File == "-" {
			wrong.File = "stdin"
		}
		fmt.Fprintf(t.Err, "podgrace: %v\n", wrong)
	}
	if len(l.Errors) > 0 {
		return terminal.ErrBadInput
	}
	return nil
}

// Read returns the documents of -f and of --state. That there are none is an error where it may be that a command before this
// one in a pipe has failed, and where nothing at all would be judged.
func (o *Options) Read(t terminal.Terminal) (manifests, further review.Inputs) {
	var documents []*manifest.Document
	manifests, further = o.read(t, func(d *manifest.Document) { documents = append(documents, d) })
	further.Documents = documents
	return manifests, further
}

// read is Read that gives the documents of --state away one by one.
func (o *Options) read(t terminal.Terminal, each func(*manifest.Document)) (manifests, further review.Inputs) {
	reader := &input.Reader{Stdin: t.In, Exclude: o.Exclude, Render: o.Render, Namespace: o.Namespace}
	var documents []*manifest.Document
	manifests = readEach(reader, o.Paths, func(d *manifest.Document) { documents = append(documents, d) })
	manifests.Documents = documents
	further = readEach(reader, o.State, each)
	manifests.Errors = append(manifests.Errors, manifests.Refused...)
	if len(manifests.Documents) == 0 && len(manifests.Errors) == 0 && len(o.Paths) > 0 && reader.Lists == 0 && !allKnown(manifests.LeftOut) {
		for _, path := range o.Paths {
			manifests.Errors = append(manifests.Errors, &manifest.Error{File: path, Message: withLeftOut("there is no document in it", manifests.LeftOut)})
		}
	}
	manifests.Listed = reader.Listed
	return manifests, further
}

// allKnown says that something was found, and that there is no manifest in it, or none that can be read.
func allKnown(left []input.LeftOut) bool {
	return len(left) > 0 && !slices.ContainsFunc(left, func(l input.LeftOut) bool { return !l.Known() })
}

// Unrendered returns an error for each folder of -f with nothing to review in it, although it was to be rendered.
func (o *Options) Unrendered(l *Loaded, results []review.Result) []*manifest.Error {
	var errs []*manifest.Error
	for _, path := range o.Paths {
		info, err := os.Stat(path)
		if len(o.Render) == 0 || err != nil || !info.IsDir() {
			continue
		}
		reviewed := slices.ContainsFunc(results, func(r review.Result) bool { return isIn(path, r.Source.File) })
		wrong := slices.ContainsFunc(l.Errors, func(e *manifest.Error) bool { return isIn(path, e.File) })
		if left := leftOutIn(path, l); !reviewed && !wrong && withoutManifest(path, l, left) {
			errs = append(errs, &manifest.Error{File: path, Message: withLeftOut("nothing in it could be reviewed", left)})
		}
	}
	return errs
}

// withoutManifest reports whether a folder has no manifest, or has some that were not rendered.
func withoutManifest(path string, l *Loaded, left []input.LeftOut) bool {
	has := func(as ...input.As) bool {
		return slices.ContainsFunc(left, func(l input.LeftOut) bool { return slices.Contains(as, l.As) })
	}
	some := slices.ContainsFunc(l.Documents, func(d *manifest.Document) bool { return isIn(path, d.File) })
	return has(input.HelmChart, input.Kustomization) || !some && !has(input.LibraryChart)
}

func leftOutIn(path string, l *Loaded) []input.LeftOut {
	return slices.DeleteFunc(slices.Clone(l.LeftOut), func(left input.LeftOut) bool { return !isIn(path, left.Path) })
}

// isIn reports whether a path is a folder, or in it.
func isIn(folder, path string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(below) && path != manifest.Stdin
}

func withLeftOut(text string, left []input.LeftOut) string {
	return strings.Join(append([]string{text}, input.LeftOutInWords(left)...), "; ")
}

func readEach(reader *input.Reader, paths []string, each func(*manifest.Document)) review.Inputs {
	var all review.Inputs
	known := map[string]bool{} // files of the paths before: who names one twice, or with its folder, means it once
	for _, path := range paths {
		lists := reader.Lists
		files := map[string]bool{} // of this path, and whether they are new
		in := review.ReadEach(reader, func(d *manifest.Document) {
			isNew, seen := files[d.File]
			if !seen {
				isNew = !known[absolute(d.File)]
				files[d.File] = isNew
			}
			if isNew {
				each(d)
			}
		}, path)
		for file := range files {
			known[absolute(file)] = true
		}
		if path == "-" && len(files) == 0 && len(in.Errors) == 0 && len(in.LeftOut) == 0 && reader.Lists == lists {
			in.Errors = append(in.Errors, &manifest.Error{File: path, Message: "there is no document in it; has the command before it failed?"})
		}
		all.Files += in.Files
		all.LeftOut, all.Errors, all.Refused = append(all.LeftOut, in.LeftOut...), append(all.Errors, in.Errors...), append(all.Refused, in.Refused...)
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
func TellLeftOut(t terminal.Terminal, left []input.LeftOut) {
	for _, sentence := range input.LeftOutInWords(left) {
		fmt.Fprintln(t.Err, console.Visible("left out: "+sentence))
	}
}
