package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/deploy"
)

// maxSize is how much of a file is read. A real policy is a few KiB.
const maxSize = 4 << 20

// Error is one thing that is wrong in a file.
type Error struct {
	File    string
	Line    int
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message) }

// Load reads every PodPolicy of the named files and folders (their .yaml, .yml and .json files, not those of folders in
// them). Documents of other kinds are passed over. All that is wrong is reported at once, joined.
func Load(paths ...string) ([]*v1alpha1.PodPolicy, error) { return load(podPolicies, paths) }

// Parse reads every PodPolicy of a YAML stream. The name is for errors.
func Parse(name string, text []byte) ([]*v1alpha1.PodPolicy, error) {
	return parse(podPolicies, name, text)
}

// LoadNodePolicies reads every NodePolicy, as Load does PodPolicies.
func LoadNodePolicies(paths ...string) ([]*v1alpha1.NodePolicy, error) {
	return load(nodePolicies, paths)
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
		check: func(p *v1alpha1.PodPolicy) error { _, err := defaulting.Compile(p); return err },
	}
	nodePolicies = kind[v1alpha1.NodePolicy, *v1alpha1.NodePolicy]{
		name: "NodePolicy", rules: sync.OnceValues(func() (*rules, error) { return newRules(deploy.NodePolicyCRD) }),
		check: func(p *v1alpha1.NodePolicy) error {
			_, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
			return err
		},
	}
)

func load[T any, P object[T]](k kind[T, P], paths []string) ([]P, error) {
	var policies []P
	var errs []error
	seen := map[string]string{}
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, file := range files {
			found, err := loadFile(k, file)
			errs = append(errs, err)
			for _, p := range found {
				if first, twice := seen[p.GetName()]; twice {
					errs = append(errs, fmt.Errorf("%s: %s %s is in %s already", file, k.name, p.GetName(), first))
					continue
				}
				seen[p.GetName()] = file
				policies = append(policies, p)
			}
		}
	}
	return policies, errors.Join(errs...)
}

func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read policies: no .yaml, .yml or .json file in folder %s", path)
	}
	return files, nil
}

func loadFile[T any, P object[T]](k kind[T, P], name string) ([]P, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read policies from %s: %w", name, err)
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("read policies from %s: larger than %d MiB", name, maxSize>>20)
	}
	return parse(k, name, text)
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
			errs = append(errs, fmt.Errorf("%s: %w", name, err)) // yaml's errors name the line
			break
		}
		p, err := parseDocument(k, name, &document)
		if p != nil {
			policies = append(policies, p)
		}
		errs = append(errs, err)
	}
	return policies, errors.Join(errs...)
}

// parseDocument returns the document's policy, or nil if it is of another kind.
func parseDocument[T any, P object[T]](k kind[T, P], name string, document *yaml.Node) (P, error) {
	at := lines{file: name, root: document}
	var object map[string]any
	if err := document.Decode(&object); err != nil {
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
	r.applyDefaults(object)
	var errs []error
	for _, e := range append(checkName(nameOf(object)), r.check(object)...) {
		errs = append(errs, at.wrap(fieldOf(e), "%s", e.Error()))
	}
	p := P(new(T))
	strict, err := json.UnmarshalStrict(raw, p)
	if err != nil && len(errs) == 0 {
		errs = append(errs, at.wrap(nil, "%v", err))
	}
	for _, e := range strict {
		errs = append(errs, at.unknown(e))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	p = P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, p); err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	if err := k.check(p); err != nil {
		return nil, at.wrap(nil, "%v", err)
	}
	return p, nil
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
