package policyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policyfile/folder"
)

// maxSize is how much of a file is read. A real policy is a few KiB.
const maxSize = 4 << 20

// Error is one thing that is wrong in a file, or a file that is. Line is 0 where no line is to blame.
type Error struct {
	File    string
	Line    int
	Message string
	// NoPolicies: no policy comes from this path, since it can't be read, or has none where it should.
	NoPolicies bool
}

func (e *Error) Error() string {
	switch {
	case e.NoPolicies:
		return fmt.Sprintf("read policies: %s: %s", e.File, e.Message)
	case e.Line == 0:
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// Errors takes the joined errors of this package apart.
func Errors(err error) []*Error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		var errs []*Error
		for _, e := range joined.Unwrap() {
			errs = append(errs, Errors(e)...)
		}
		return errs
	}
	if e, is := errors.AsType[*Error](err); is {
		return []*Error{e}
	}
	if err != nil {
		return []*Error{{Message: err.Error()}}
	}
	return nil
}

// Load reads every PodPolicy of the named files and folders (their .yaml, .yml and .json files, and those of the folders
// in them). Documents of other kinds are passed over; a list, as kubectl get -o yaml prints it, is read item by item. All that is wrong
// is reported at once, joined.
func Load(paths ...string) ([]*v1alpha1.PodPolicy, error) {
	from, err := read(paths, nil)
	policies, wrong := load(podPolicies, from, false)
	return policies, errors.Join(err, wrong)
}

// Require is Load for a person who says by these paths which policies hold: one that has no PodPolicy is wrong, too, and so is
// a NodePolicy beside them that the API server would refuse.
func Require(paths ...string) ([]*v1alpha1.PodPolicy, error) { return RequireWith(nil, paths...) }

// File is a file that was read already, such as one of a commit.
type File struct {
	Name string
	Text []byte
}

// RequireWith is Require where some paths stand for files that were read already.
func RequireWith(known map[string][]File, paths ...string) ([]*v1alpha1.PodPolicy, error) {
	from, err := read(paths, known)
	policies, wrong := load(podPolicies, from, true)
	_, besides := load(nodePolicies, from, false)
	var errs []error
	said := map[Error]bool{} // what is no YAML is none for both kinds
	for _, e := range Errors(errors.Join(err, wrong, besides)) {
		if !said[*e] {
			said[*e] = true
			errs = append(errs, e)
		}
	}
	return policies, errors.Join(errs...)
}

// Parse reads every PodPolicy of a YAML stream. The name is for errors.
func Parse(name string, text []byte) ([]*v1alpha1.PodPolicy, error) {
	return parse(podPolicies, name, text)
}

// ParseNode reads the PodPolicy that an object within another document is, by the lines of that document; none, if it is of another kind.
func ParseNode(name string, object *yaml.Node) ([]*v1alpha1.PodPolicy, error) {
	p, err := parseDocument(podPolicies, name, object)
	if p == nil {
		return nil, err
	}
	return []*v1alpha1.PodPolicy{p}, err
}

// ParseNodePolicies reads every NodePolicy, as Parse does PodPolicies.
func ParseNodePolicies(name string, text []byte) ([]*v1alpha1.NodePolicy, error) {
	return parse(nodePolicies, name, text)
}

// LoadNodePolicies reads every NodePolicy, as Load does PodPolicies.
func LoadNodePolicies(paths ...string) ([]*v1alpha1.NodePolicy, error) {
	from, err := read(paths, nil)
	policies, wrong := load(nodePolicies, from, false)
	return policies, errors.Join(err, wrong)
}

// RequireNodePolicies is LoadNodePolicies, and a path that has none is wrong, too.
func RequireNodePolicies(paths ...string) ([]*v1alpha1.NodePolicy, error) {
	from, err := read(paths, nil)
	policies, wrong := load(nodePolicies, from, true)
	return policies, errors.Join(err, wrong)
}

// ParseExceptions reads every PolicyException, as Parse does PodPolicies.
func ParseExceptions(name string, text []byte) ([]*v1alpha1.PolicyException, error) {
	return parse(policyExceptions, name, text)
}

// LoadExceptions reads every PolicyException beside the policies, as RequireWith does these; there may be none.
func LoadExceptions(known map[string][]File, paths ...string) ([]*v1alpha1.PolicyException, error) {
	from, err := read(paths, known)
	exceptions, wrong := load(policyExceptions, from, false)
	return exceptions, errors.Join(err, wrong)
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
)

// given is a path with the files that it stands for.
type given struct {
	path  string
	files []File
}

// read reads each file once: what is no regular file, such as a pipe, can't be read again.
func read(paths []string, known map[string][]File) ([]given, error) {
	var all []given
	var errs []error
	for _, path := range paths {
		if files, is := known[path]; is {
			all = append(all, given{path, files})
			for _, f := range files {
				errs = append(errs, unfit(f.Name, f.Text))
			}
			continue
		}
		names, err := expand(path)
		g := given{path: path}
		errs = append(errs, err)
		for _, name := range names {
			text, err := readFile(name)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			g.files = append(g.files, File{name, text})
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

func load[T any, P object[T]](k kind[T, P], from []given, required bool) ([]P, error) {
	var policies []P
	var errs []error
	seen := map[string]string{}
	for _, g := range from {
		fine := true
		there := 0
		for _, f := range g.files {
			found, err := parse(k, f.Name, f.Text)
			errs = append(errs, err)
			fine = fine && err == nil
			there += len(found)
			for _, p := range found {
				key := p.GetName()
				if p.GetNamespace() != "" {
					key = p.GetNamespace() + "/" + key
				}
				if first, twice := seen[key]; twice {
					errs = append(errs, &Error{File: f.Name, Message: fmt.Sprintf("%s %s is in %s already", k.name, key, first)})
					continue
				}
				seen[key] = f.Name
				policies = append(policies, p)
			}
		}
		if required && fine && there == 0 && len(g.files) > 0 {
			errs = append(errs, &Error{File: g.path, Message: "no " + k.name + " in it", NoPolicies: true})
		}
	}
	return policies, errors.Join(errs...)
}

// endings of the files that are read from a folder.
var endings = []string{".yaml", ".yml", ".json"}

// IsRead says whether a file of a folder is read, by its name.
func IsRead(name string) bool { return slices.Contains(endings, filepath.Ext(name)) }

// expand returns the files that a path stands for, even with an error.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unread(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	var errs []error
	found, _ := folder.Walk(path, endings, func(name string, err error) bool {
		if err != nil {
			errs = append(errs, unread(name, err))
		} else {
			files = append(files, name)
		}
		return true
	})
	if !found {
		return nil, &Error{File: path, Message: "no .yaml, .yml or .json file in this folder", NoPolicies: true}
	}
	return files, errors.Join(errs...)
}

// unread is the error without the path, which the Error has.
func unread(path string, err error) *Error {
	if of, is := errors.AsType[*fs.PathError](err); is {
		err = of.Err
	}
	return &Error{File: path, Message: err.Error(), NoPolicies: true}
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unread(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, unread(name, err)
	}
	return text, unfit(name, text)
}

// unfit is why a file is not one with policies, before it is looked into.
func unfit(name string, text []byte) error {
	switch {
	case len(text) > maxSize:
		return &Error{File: name, Message: fmt.Sprintf("larger than %d MiB", maxSize>>20), NoPolicies: true}
	case binary(text):
		return &Error{File: name, Message: "not text in UTF-8: neither YAML nor JSON", NoPolicies: true}
	}
	return nil
}

// binary says whether a file is neither text in UTF-8 nor, as YAML allows, text in UTF-16.
func binary(text []byte) bool {
	utf16 := bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
	return !utf16 && (!utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0)
}

func parse[T any, P object[T]](k kind[T, P], name string, text []byte) ([]P, error) {
	var policies []P
	var errs []error
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, &Error{File: name, Message: err.Error()}) // yaml's errors name the line
			break
		}
		for _, node := range items(&document) {
			p, err := parseDocument(k, name, node)
			if p != nil {
				policies = append(policies, p)
			}
			errs = append(errs, err)
		}
	}
	return policies, errors.Join(errs...)
}

// items are those of a List, or the document itself.
func items(document *yaml.Node) []*yaml.Node {
	var list struct {
		Kind  string
		Items []yaml.Node
	}
	if err := document.Decode(&list); err != nil || list.Kind != "List" {
		return []*yaml.Node{document}
	}
	nodes := make([]*yaml.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes
}

// parseDocument returns the document's policy, or nil if it is of another kind.
func parseDocument[T any, P object[T]](k kind[T, P], name string, document *yaml.Node) (P, error) {
	at := lines{file: name, root: document}
	timesAsText(document)
	var object map[string]any
	if err := document.Decode(&object); err != nil {
		if at.body().Kind != yaml.MappingNode { // which yaml says in the words of Go
			return nil, at.wrap(nil, "not an object")
		}
		return nil, at.wrap(nil, "not an object: %v", err)
	}
	if object["kind"] != k.name {
		return nil, nil
	}
	if want := v1alpha1.GroupVersion.String(); object["apiVersion"] != want {
		return nil, at.wrap(field.NewPath("apiVersion"), "apiVersion is %v, this version of Podgrace reads %s", object["apiVersion"], want)
	}
	r, err := k.rules()
	if err != nil {
		return nil, err
	}
	raw, err := toJSON(object)
	if err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	object = map[string]any{} // as JSON has it: numbers of YAML are of other types
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	if err := r.refuse(at, object); err != nil {
		return nil, err
	}
	p := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, p); err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	if err := k.check(p); err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	return p, nil
}

// timesAsText has what looks like a time read as the text that it is, as kubectl reads it (sigs.k8s.io/yaml): a date alone is no time to the API server.
func timesAsText(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		timesAsText(child)
	}
}

// refuse says all that is wrong with an object, after which it has the schema's defaults and no fields that the schema does not know.
func (r *rules) refuse(at lines, object map[string]any) error {
	unknown, wrong := r.metadata(object)
	r.applyDefaults(object)
	wrong = slices.Concat(checkName(nameOf(object)), wrong, r.check(object))
	var errs []*Error
	for _, e := range wrong { // whose values the next step may change
		errs = append(errs, at.wrap(fieldOf(e), "%s", e.Error()))
	}
	for _, path := range append(unknown, r.prune(object)...) {
		if !below(path, wrong) {
			errs = append(errs, at.wrap(field.NewPath(path), "unknown field %q", path))
		}
	}
	slices.SortFunc(errs, func(a, b *Error) int { // those of a schema come in any order
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	var joined []error
	for _, e := range errs {
		joined = append(joined, e)
	}
	return errors.Join(joined...)
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

func fieldOf(e *field.Error) *field.Path {
	if e.Field == "" || e.Field == "<nil>" {
		return nil
	}
	return field.NewPath(strings.TrimPrefix(e.Field, "."))
}
