package confirm

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

const group = "podgrace.dev"

// podRights are what it takes to confirm a force delete: the verb that the API server asks for when the annotation is written
// (deploy/webhook/policies.yaml), and the annotation, which Client.ConfirmPod writes in one of two ways.
func podRights(pod *corev1.Pod) []Right {
	verb := "patch"
	if guard.RemovedByUpdate(pod) {
		verb = "update"
	}
	return []Right{
		{Verb: guard.ConfirmVerb, Group: group, Resource: "pods", Namespace: pod.Namespace, Name: pod.Name},
		{Verb: verb, Resource: "pods", Namespace: pod.Namespace, Name: pod.Name},
	}
}

// nodeRights are what it takes to confirm a node off: the verb that the API server asks for when the annotation is written
// (deploy/webhook/policies.yaml), since many an agent may patch nodes, and the annotation.
func nodeRights(node string) []Right {
	return []Right{
		{Verb: guard.ConfirmVerb, Group: group, Resource: "nodes", Name: node},
		{Verb: "patch", Resource: "nodes", Name: node},
	}
}

func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Namespace != "" {
		return fmt.Sprintf("%s on %s in namespace %s", r.Verb, resource, r.Namespace)
	}
	return fmt.Sprintf("%s on %s", r.Verb, resource)
}

// missing says which rights a user lacks.
func (p Permission) missing() string {
	var lacks []string
	for _, r := range p.Missing {
		lacks = append(lacks, r.String())
	}
	return strings.Join(lacks, ", ")
}

// granting writes who can grant the rights, and what they apply: with flags of their own, not with this user's.
func (p Permission) granting(out *console.Page) {
	namespace := p.Missing[0].Namespace
	who := "an administrator of the cluster"
	if namespace != "" {
		who = "an administrator of namespace " + namespace + ", or of the cluster"
	}
	out.Row("Ask", who+". They type:")
	out.Gap()
	fmt.Fprintf(out, "kubectl apply -f - <<'EOF'\n%sEOF\n", p.manifest(namespace))
}

// manifest grants the needed rights to the user: in the namespace, or in the cluster where it is empty. It is named after the
// user, so that it takes nothing from others.
func (p Permission) manifest(namespace string) string {
	name := "podgrace-confirm-" + strings.NewReplacer("/", "-", "%", "-").Replace(console.Printable(p.User))
	kind, meta := "ClusterRole", fmt.Sprintf("{name: %q}", name)
	if namespace != "" {
		kind, meta = "Role", fmt.Sprintf("{name: %q, namespace: %s}", name, namespace)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: %s\nrules:\n", kind, meta)
	for _, r := range p.Needed {
		fmt.Fprintf(&text, "- {apiGroups: [%q], resources: [%s], verbs: [%s]}\n", r.Group, r.Resource, r.Verb)
	}
	fmt.Fprintf(&text, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata: %s\n", kind, meta)
	fmt.Fprintf(&text, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %q}\n", kind, name)
	fmt.Fprintf(&text, "subjects:\n- %s\n", subject(p.User))
	return text.String()
}

// subject is the user as RBAC names it.
func subject(user string) string {
	if parts := strings.Split(user, ":"); len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount" {
		return fmt.Sprintf("{kind: ServiceAccount, namespace: %s, name: %s}", parts[2], parts[3])
	}
	return fmt.Sprintf("{apiGroup: rbac.authorization.k8s.io, kind: User, name: %q}", console.Printable(user))
}
