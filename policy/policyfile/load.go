package policyfile

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
)

// maxSize is how much of a file is read. A real policy is a few KiB.
const maxSize = 4 << 20

// Load reads every PodPolicy of the named files and folders (their .yaml, .yml and .json files, and those of the folders
// in them). Documents of other kinds are passed over; a list, as kubectl get -o yaml prints it, is read item by item. All that is wrong
// is reported at once: manifest.Errors takes it apart.
func Load(paths ...string) ([]*v1alpha1.PodPolicy, error) {
	return loadPaths(podPolicies, paths, nil, false)
}

// Require is Load for a person who says by these paths which policies hold: one that has no PodPolicy is wrong, too, and so is
// a NodePolicy, FencePolicy or FenceAgent beside them that the API server would refuse.
func Require(paths ...string) ([]*v1alpha1.PodPolicy, error) { return RequireWith(nil, paths...) }

// File is a file that was read already, such as one of a commit.
type File struct {
	Name string
	Text []byte
}

// RequireWith is Require where some paths stand for files that were read already.
func RequireWith(known map[string][]File, paths ...string) ([]*v1alpha1.PodPolicy, error) {
	return loadAll(known, paths, true)
}

// LoadWith is RequireWith for paths that may have none.
func LoadWith(known map[string][]File, paths ...string) ([]*v1alpha1.PodPolicy, error) {
	return loadAll(known, paths, false)
}

func loadAll(known map[string][]File, paths []string, required bool) ([]*v1alpha1.PodPolicy, error) {
	from, errs := read(paths, known)
	policies, wrong := load(podPolicies, from, required)
	_, nodes := load(nodePolicies, from, false)
	_, fences := load(fencePolicies, from, false)
	_, agents := load(fenceAgents, from, false)
	return policies, manifest.Join(manifest.Unique(slices.Concat(errs, wrong, nodes, fences, agents))) // what is no YAML is none for all kinds
}

// Parse reads every PodPolicy of a YAML stream. The name is for errors.
func Parse(name string, text []byte) ([]*v1alpha1.PodPolicy, error) {
	policies, errs := parse(podPolicies, name, text)
	return policies, manifest.Join(errs)
}

// ParseExceptions reads every PolicyException, as Parse does PodPolicies.
func ParseExceptions(name string, text []byte) ([]*v1alpha1.PolicyException, error) {
	exceptions, errs := parse(policyExceptions, name, text)
	return exceptions, manifest.Join(errs)
}

// Check returns the PodPolicy that a document is; of one that is of another kind of Podgrace's it only says what is wrong. Errors name the
// field, for manifest.Locate.
func Check(d *manifest.Document) (*v1alpha1.PodPolicy, []*manifest.Error) {
	if d.Kind == podPolicies.name {
		return decode(podPolicies, d)
	}
	if wrong := otherKind(d); wrong != nil {
		return nil, wrong(d)
	}
	return nil, nil
}

// IsPolicy reports whether a document is of a kind that Check knows.
func IsPolicy(d *manifest.Document) bool {
	return d.Kind == podPolicies.name || otherKind(d) != nil
}

// otherKind checks a document of another kind than PodPolicy; nil: it is none of ours. Names as short as Fence may be those of another group's kinds, too.
func otherKind(d *manifest.Document) func(*manifest.Document) []*manifest.Error {
	if strings.HasPrefix(d.Kind, "Fence") && !strings.HasPrefix(d.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return nil
	}
	return others[d.Kind]
}

// LoadNodePolicies reads every NodePolicy, as LoadExceptions does exceptions.
func LoadNodePolicies(known map[string][]File, paths ...string) ([]*v1alpha1.NodePolicy, error) {
	return loadPaths(nodePolicies, paths, known, false)
}

// RequireNodePolicies is LoadNodePolicies, and a path that has none is wrong, too.
func RequireNodePolicies(paths ...string) ([]*v1alpha1.NodePolicy, error) {
	return loadPaths(nodePolicies, paths, nil, true)
}

// LoadExceptions reads every PolicyException beside the policies, as RequireWith does these; there may be none.
func LoadExceptions(known map[string][]File, paths ...string) ([]*v1alpha1.PolicyException, error) {
	return loadPaths(policyExceptions, paths, known, false)
}

// object is a pointer to a policy of type T.
type object[T any] interface {
	*T
	metav1.Object
}

// kind is a kind of policy: what the API server checks of it, and what its users refuse besides.
type kind[T any, P object[T]] struct {
	name  string
	rules func() (*rules, error)
	check func(P) error
}

var (
	podPolicies = kind[v1alpha1.PodPolicy, *v1alpha1.PodPolicy]{
		name: "PodPolicy", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.PodPolicyCRD) }),
		check: func(p *v1alpha1.PodPolicy) error { _, err := policy.Compile(p); return err },
	}
	nodePolicies = kind[v1alpha1.NodePolicy, *v1alpha1.NodePolicy]{
		name: "NodePolicy", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.NodePolicyCRD) }),
		check: policy.CheckNodePolicy,
	}
	policyExceptions = kind[v1alpha1.PolicyException, *v1alpha1.PolicyException]{
		name: "PolicyException", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.PolicyExceptionCRD) }),
		check: func(x *v1alpha1.PolicyException) error { _, err := policy.CompileException(x); return err },
	}
	fencePolicies = kind[v1alpha1.FencePolicy, *v1alpha1.FencePolicy]{
		name: "FencePolicy", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.FencePolicyCRD) }),
		check: func(p *v1alpha1.FencePolicy) error {
			if _, err := p.Spec.NodeSelector.AsSelector(); err != nil {
				return fmt.Errorf("FencePolicy %s: %w", p.Name, err)
			}
			return nil
		},
	}
	fenceAgents = kind[v1alpha1.FenceAgent, *v1alpha1.FenceAgent]{
		name: "FenceAgent", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.FenceAgentCRD) }),
		check: func(*v1alpha1.FenceAgent) error { return nil },
	}
	fences = kind[v1alpha1.Fence, *v1alpha1.Fence]{
		name: "Fence", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.FenceCRD) }),
		check: func(*v1alpha1.Fence) error { return nil },
	}
	fenceReceipts = kind[v1alpha1.FenceReceipt, *v1alpha1.FenceReceipt]{
		name: "FenceReceipt", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.FenceReceiptCRD) }),
		check: func(*v1alpha1.FenceReceipt) error { return nil },
	}
	// others are the kinds of which Check says only what is wrong.
	others = map[string]func(*manifest.Document) []*manifest.Error{
		nodePolicies.name: wrongIn(nodePolicies), policyExceptions.name: wrongIn(policyExceptions),
		fencePolicies.name: wrongIn(fencePolicies), fenceAgents.name: wrongIn(fenceAgents), fences.name: wrongIn(fences), fenceReceipts.name: wrongIn(fenceReceipts),
	}
)

func wrongIn[T any, P object[T]](k kind[T, P]) func(*manifest.Document) []*manifest.Error {
	return func(d *manifest.Document) []*manifest.Error {
		_, errs := decode(k, d)
		return errs
	}
}

// given is a path with the files that it stands for.
type given struct {
	path  string
	files []File
}

func loadPaths[T any, P object[T]](k kind[T, P], paths []string, known map[string][]File, required bool) ([]P, error) {
	from, errs := read(paths, known)
	policies, wrong := load(k, from, required)
	return policies, manifest.Join(append(errs, wrong...))
}

// read reads each file once: what is no regular file, such as a pipe, can't be read again.
func read(paths []string, known map[string][]File) ([]given, []*manifest.Error) {
	var all []given
	var errs []*manifest.Error
	for _, path := range paths {
		g := given{path: path}
		names, wrong := expand(path)
		if files, ok := known[path]; ok {
			g.files, names, wrong = files, nil, nil
		}
		errs = append(errs, wrong...)
		for _, name := range names {
			text, err := readFile(name)
			if err != nil {
				errs = append(errs, manifest.Unread(name, err))
				continue
			}
			g.files = append(g.files, File{name, text})
		}
		for _, f := range g.files {
			if len(f.Text) > maxSize {
				errs = append(errs, &manifest.Error{File: f.Name, Message: fmt.Sprintf("larger than %d MiB", maxSize>>20), Whole: true})
			}
		}
		g.files = slices.DeleteFunc(slices.Clone(g.files), func(f File) bool { return len(f.Text) > maxSize })
		all = append(all, g)
	}
	return all, errs
}

func load[T any, P object[T]](k kind[T, P], from []given, required bool) ([]P, []*manifest.Error) {
	var policies []P
	var errs []*manifest.Error
	seen := map[string]string{}
	for _, g := range from {
		fine := true
		there := 0
		for _, f := range g.files {
			found, wrong := parse(k, f.Name, f.Text)
			errs = append(errs, wrong...)
			fine = fine && len(wrong) == 0
			there += len(found)
			for _, p := range found {
				key := p.GetName()
				if p.GetNamespace() != "" {
					key = p.GetNamespace() + "/" + key
				}
				if first, twice := seen[key]; twice {
					errs = append(errs, &manifest.Error{File: f.Name, Message: fmt.Sprintf("%s %s is in %s already", k.name, key, first)})
					continue
				}
				seen[key] = f.Name
				policies = append(policies, p)
			}
		}
		if required && fine && there == 0 && len(g.files) > 0 {
			errs = append(errs, &manifest.Error{File: g.path, Message: "no " + k.name + " in it", Whole: true})
		}
	}
	return policies, errs
}

// endings of the files that are read from a folder.
var endings = []string{".yaml", ".yml", ".json"}

// IsRead reports whether a file of a folder is read, by its name.
func IsRead(name string) bool { return manifest.HasEnding(name, endings...) }

// expand returns the files that a path stands for, even with an error.
func expand(path string) ([]string, []*manifest.Error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, []*manifest.Error{manifest.Unread(path, err)}
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	var errs []*manifest.Error
	(&manifest.Folder{Endings: endings, Found: func(name string, err error) {
		if err != nil {
			errs = append(errs, manifest.Unread(name, err))
		} else {
			files = append(files, name)
		}
	}}).Walk(path)
	if len(files)+len(errs) == 0 {
		errs = append(errs, &manifest.Error{File: path, Message: "no .yaml, .yml or .json file in this folder", Whole: true})
	}
	return files, errs
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// parse reads the policies of a file. Documents of other kinds are skipped.
func parse[T any, P object[T]](k kind[T, P], name string, text []byte) ([]P, []*manifest.Error) {
	var policies []P
	var errs []*manifest.Error
	var lines manifest.Lines
	(&manifest.Reader{File: name, Kinds: []string{k.name}}).Read(bytes.NewReader(text), func(d *manifest.Document, wrong *manifest.Error) bool {
		if wrong != nil {
			errs = append(errs, wrong)
			return true
		}
		if !IsPolicy(d) { // another group's
			return true
		}
		p, wrongs := decode(k, d)
		if p != nil {
			policies = append(policies, p)
		}
		if len(wrongs) > 0 && lines == nil {
			lines = manifest.LinesOf(text)
		}
		for _, e := range wrongs {
			lines.Locate(e)
		}
		slices.SortStableFunc(wrongs, func(a, b *manifest.Error) int { return cmp.Compare(a.Line, b.Line) })
		errs = append(errs, wrongs...)
		return true
	})
	return policies, errs
}

// decode returns the policy that a document is, or all that is wrong with it.
func decode[T any, P object[T]](k kind[T, P], d *manifest.Document) (P, []*manifest.Error) {
	wrong := func(field, format string, args ...any) []*manifest.Error {
		return []*manifest.Error{d.Wrong(&manifest.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})}
	}
	if want := v1alpha1.GroupVersion.String(); d.APIVersion != want {
		return nil, wrong("apiVersion", "apiVersion is %v, this version of Podgrace reads %s", d.APIVersion, want)
	}
	r, err := k.rules()
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	object := map[string]any{}
	if err := json.UnmarshalCaseSensitivePreserveInts(d.JSON, &object); err != nil {
		return nil, wrong("", "%v", err)
	}
	if fields := r.refuse(object); len(fields) > 0 {
		var errs []*manifest.Error
		for _, f := range fields {
			errs = append(errs, d.Wrong(f))
		}
		return nil, errs
	}
	p := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, p); err != nil {
		return nil, wrong("", "%v", err)
	}
	if err := k.check(p); err != nil {
		return nil, wrong("", "%v", err)
	}
	return p, nil
}

// refuse says all that is wrong with an object, after which it has the schema's defaults and no fields that the schema does not know.
func (r *rules) refuse(object map[string]any) []*manifest.FieldError {
	unknown, wrong := r.metadata(object)
	r.applyDefaults(object)
	wrong = slices.Concat(checkName(nameOf(object)), wrong, r.check(object))
	var errs []*manifest.FieldError
	for _, e := range wrong { // whose values the next step may change
		errs = append(errs, &manifest.FieldError{Field: fieldOf(e), Message: e.Error()})
	}
	for _, path := range append(unknown, r.prune(object)...) {
		if !below(path, wrong) {
			errs = append(errs, &manifest.FieldError{Field: path, Message: fmt.Sprintf("unknown field %q", path)})
		}
	}
	// Those of a schema come in any order.
	slices.SortFunc(errs, func(a, b *manifest.FieldError) int { return cmp.Compare(a.Message, b.Message) })
	return errs
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// checkName is what the API server checks of any object's name.
func checkName(name string) field.ErrorList {
	path := field.NewPath("metadata", "name")
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, message := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func fieldOf(e *field.Error) string {
	if e.Field == "<nil>" {
		return ""
	}
	return strings.TrimPrefix(e.Field, ".")
}
