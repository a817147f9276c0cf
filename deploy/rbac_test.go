package deploy_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rbacFiles hold all rights that Podgrace gives.
var rbacFiles = []string{"webhook/rbac.yaml", "nodeenforcer/rbac.yaml", "components/nodeenforcer-enforce/rbac.yaml", "components/selfmanaged/rbac.yaml", "components/fencer/rbac.yaml", "components/volumelock/rbac.yaml", "components/fencer-networkfence/rbac.yaml", "components/self-fence/rbac.yaml"}

// peoples has the roles of who runs podgrace doctor, which cli/doctor/collect holds against each of its reads.
const peoples = "doctor/rbac.yaml"

// rule is one rule of a role, with the comment above it.
type rule struct {
	role, namespace, comment string
	rbacv1.PolicyRule
}

// rules returns the rules of a YAML file's roles.
func rules(t *testing.T, text string) []rule {
	t.Helper()
	var all []rule
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var role struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Rules    []yaml.Node
		}
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		for _, node := range role.Rules {
			var fields map[string][]string
			if err := node.Decode(&fields); err != nil {
				t.Fatal(err)
			}
			all = append(all, rule{role: role.Kind + " " + role.Metadata.Name, namespace: role.Metadata.Namespace, comment: node.HeadComment, PolicyRule: rbacv1.PolicyRule{
				APIGroups: fields["apiGroups"], Resources: fields["resources"], Verbs: fields["verbs"],
				ResourceNames: fields["resourceNames"], NonResourceURLs: fields["nonResourceURLs"],
			}})
		}
	}
}

// byName are resources of which a rule must name the objects: informers select them by name, so that lists and watches can be limited as well. Only their creation can't be. The ConfigMap
// podgrace-client-ca holds who reaches the webhook, the Secret podgrace-webhook-ca the CA's key; configurations, admission policies, roles and bindings are those of the whole cluster.
var byName = []string{
	"configmaps", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
	"roles", "rolebindings", "clusterroles", "clusterrolebindings", "customresourcedefinitions",
}

// codeName is what a comment names code by: folder.Name.
var codeName = regexp.MustCompile(`([a-z]+(?:/[a-z]+)*)\.([A-Za-z]\w+)`)

// complaints says what is wrong with a rule: a right without the code that needs it, or one for everything.
func complaints(r rule) []string {
	var wrong []string
	if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs, r.NonResourceURLs), "*") {
		wrong = append(wrong, "a wildcard")
	}
	if slices.ContainsFunc(r.Resources, func(s string) bool { return strings.Contains(s, "*") }) && len(wrong) == 0 {
		wrong = append(wrong, "a wildcard")
	}
	for _, resource := range r.Resources {
		credentials := r.role == "Role podgrace-fencer-credentials" && r.namespace == "podgrace-fencing" // FenceAgents name them
		if len(r.ResourceNames) == 0 && slices.Contains(byName, resource) && !slices.Equal(r.Verbs, []string{"create"}) && !credentials {
			wrong = append(wrong, resource+" of any name")
		}
	}
	if strings.HasPrefix(r.role, "ClusterRole ") && slices.Contains(r.Resources, "leases") && r.role != "ClusterRole podgrace-confirm-node" {
		wrong = append(wrong, "Leases of all namespaces")
	}
	if slices.Contains(r.APIGroups, "events.k8s.io") && strings.HasPrefix(r.role, "ClusterRole ") && !slices.Contains([]string{"ClusterRole podgrace-webhook", "ClusterRole podgrace-nodeenforcer-enforce"}, r.role) {
		wrong = append(wrong, "Events of all namespaces") // only these two record Events of pods; those of what has no namespace are in default
	}
	for _, verb := range []string{"escalate", "bind", "impersonate"} {
		if slices.Contains(r.Verbs, verb) {
			wrong = append(wrong, "the verb "+verb)
		}
	}
	names := codeName.FindAllStringSubmatch(r.comment, -1)
	if len(names) == 0 {
		wrong = append(wrong, "no comment that names the code which needs it")
	}
	for _, name := range names {
		if !declared(filepath.Join("..", name[1]), name[2]) {
			wrong = append(wrong, name[0]+" is declared nowhere")
		}
	}
	return wrong
}

// declared reports whether a folder's package declares a name at its top level.
func declared(dir, name string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == name {
					return true
				}
			case *ast.GenDecl:
				if slices.ContainsFunc(d.Specs, func(s ast.Spec) bool { t, ok := s.(*ast.TypeSpec); return ok && t.Name.Name == name }) {
					return true
				}
			}
		}
	}
	return false
}

// Every right says which code needs it, and none is for everything.
func TestRightsAreExplained(t *testing.T) {
	for _, file := range rbacFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := rules(t, string(text))
		if len(found) == 0 {
			t.Errorf("%s: no rules", file)
		}
		for _, r := range found {
			for _, wrong := range complaints(r) {
				t.Errorf("%s: %s: %v: %s", file, r.role, r.Resources, wrong)
			}
		}
	}
}

// All roles stand in the files that the tests read.
func TestRolesAreInKnownFiles(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" || strings.HasPrefix(filepath.ToSlash(name), "chart/") {
			return err
		}
		text, err := os.ReadFile(name)
		if regexp.MustCompile(`(?m)^kind: (Cluster)?Role$`).Match(text) && !slices.Contains(append(rbacFiles, peoples), filepath.ToSlash(name)) {
			t.Errorf("%s has a role: name it in rbacFiles", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestComplaints(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"none":                {"# webhook/lookup.Lookup: facts\n- {apiGroups: [apps], resources: [replicasets], verbs: [get]}", ""},
		"no comment":          {"- {apiGroups: [apps], resources: [replicasets], verbs: [get]}", "no comment"},
		"a comment on nobody": {"# for the facts\n- {apiGroups: [apps], resources: [replicasets], verbs: [get]}", "no comment"},
		"a name that is gone": {"# webhook.Gone: facts\n- {apiGroups: [apps], resources: [replicasets], verbs: [get]}", "webhook.Gone is declared nowhere"},
		"every verb":          {"# webhook/lookup.Lookup\n- {apiGroups: [apps], resources: [replicasets], verbs: ['*']}", "a wildcard"},
		"every group":         {"# webhook/lookup.Lookup\n- {apiGroups: ['*'], resources: [replicasets], verbs: [get]}", "a wildcard"},
		"every subresource":   {"# webhook/lookup.Lookup\n- {apiGroups: [apps], resources: [replicasets/*], verbs: [get]}", "a wildcard"},
		"all ConfigMaps":      {"# webhook/lookup.Lookup\n- {apiGroups: [''], resources: [configmaps], verbs: [get]}", "configmaps of any name"},
		"one ConfigMap":       {"# webhook/lookup.Lookup\n- {apiGroups: [''], resources: [configmaps], resourceNames: [a], verbs: [get]}", ""},
		"create a Secret":     {"# webhook/lookup.Lookup\n- {apiGroups: [''], resources: [secrets], verbs: [create]}", ""},
		"create and get":      {"# webhook/lookup.Lookup\n- {apiGroups: [''], resources: [secrets], verbs: [create, get]}", "secrets of any name"},
		"all configurations":  {"# webhook/lookup.Lookup\n- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [list, watch]}", "validatingwebhookconfigurations of any name"},
		"somebody else":       {"# webhook/lookup.Lookup\n- {apiGroups: [''], resources: [users], verbs: [impersonate]}", "the verb impersonate"},
	} {
		t.Run(name, func(t *testing.T) {
			found := rules(t, "kind: Role\nmetadata: {name: a}\nrules:\n"+tc.text)
			if got := strings.Join(complaints(found[0]), "; "); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	leases := "metadata: {name: a}\nrules:\n# webhook/lookup.Lookup\n- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}"
	for kind, want := range map[string][]string{"Role": nil, "ClusterRole": {"Leases of all namespaces"}} {
		if d := cmp.Diff(want, complaints(rules(t, "kind: "+kind+"\n"+leases)[0])); d != "" {
			t.Errorf("Leases in a %s: %s", kind, d)
		}
	}
	events := "kind: ClusterRole\nmetadata: {name: a}\nrules:\n# webhook/lookup.Lookup\n- {apiGroups: [events.k8s.io], resources: [events], verbs: [create]}"
	if d := cmp.Diff([]string{"Events of all namespaces"}, complaints(rules(t, events)[0])); d != "" {
		t.Errorf("Events in a ClusterRole: %s", d)
	}
	second := rules(t, "kind: Role\nmetadata: {name: a}\nrules:\n# webhook/lookup.Lookup\n- {apiGroups: [a], resources: [a], verbs: [get]}\n- {apiGroups: [a], resources: [b], verbs: [get]}")[1]
	if got := complaints(second); len(got) != 1 {
		t.Errorf("a comment holds for one rule only: got %q", got)
	}
}

// That a pod may be force-deleted is for its namespace's admin to accept; that a node is off, which frees the pods of all
// namespaces, or that one does not use a volume, for nobody but who may everything or was bound to the role by an administrator: these
// are bound to nobody, and part of no other role.
func TestWhoIsGivenForceDelete(t *testing.T) {
	given, partOf := map[string][]string{}, map[string][]string{}
	for _, file := range rbacFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules(t, string(text)) {
			if slices.Contains(r.Verbs, "force-delete") {
				given[r.role] = append(given[r.role], r.Resources...)
			}
		}
		for _, o := range objects(t, text) {
			peoples := []string{"podgrace-confirm-node", "podgrace-confirm-release", "podgrace-adopt-driver"}
			if role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name"); slices.Contains(peoples, role) || slices.Contains(peoples, o.GetName()) && o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
				t.Errorf("%s: %s %s binds it", file, o.GetKind(), o.GetName())
			}
			for label, value := range o.GetLabels() {
				if role, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok && value == "true" {
					partOf[role] = append(partOf[role], o.GetKind()+" "+o.GetName())
				}
			}
		}
	}
	want := map[string][]string{"ClusterRole podgrace-force-delete": {"pods"}, "ClusterRole podgrace-confirm-node": {"nodes"}, "ClusterRole podgrace-fencer": {"nodes", "pods"}, "ClusterRole podgrace-confirm-release": {"volumelocks"}, "ClusterRole podgrace-adopt-driver": {"volumelocks"}}
	if d := cmp.Diff(want, given); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string][]string{
		"admin": {"ClusterRole podgrace-force-delete"}, "edit": {"ClusterRole podgrace-exceptions-requester"}, "view": {"ClusterRole podgrace-exceptions-viewer", "ClusterRole podgrace-viewer"},
	}, partOf); d != "" {
		t.Errorf("parts of Kubernetes' own roles: %s", d)
	}
}

// To grant exceptions is for nobody but who may everything or was bound to the role by an administrator: it is bound to nobody, and part of no other role;
// and who may ask for one, the webhook among them, may not grant it.
func TestWhoMayGrant(t *testing.T) {
	const granter = "podgrace-exceptions-granter"
	for _, file := range rbacFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules(t, string(text)) {
			if slices.Contains(r.Verbs, "except") && r.role != "ClusterRole "+granter {
				t.Errorf("%s: %s may grant", file, r.role)
			}
		}
		for _, o := range objects(t, text) {
			if role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name"); role == granter {
				t.Errorf("%s: %s %s binds it", file, o.GetKind(), o.GetName())
			}
			if o.GetName() == granter && len(o.GetLabels()) != 1 {
				t.Errorf("%s: it is part of %v", file, o.GetLabels())
			}
		}
	}
}
