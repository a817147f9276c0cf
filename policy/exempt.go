package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// kubeSystem is exempt from all policies, as Podgrace's own namespace is: the webhooks never select the two, so that a cluster can always start, and
// offline the answer must be the same.
const kubeSystem = metav1.NamespaceSystem

// Exempt are the namespaces that no policy is for. The zero value is kube-system alone, as offline where nobody knows where Podgrace runs.
type Exempt struct {
	own string
}

// ExemptIn are those where Podgrace runs in a namespace; empty: nowhere.
func ExemptIn(own string) Exempt { return Exempt{own: own} }

// Own is the namespace that Podgrace runs in; empty: nowhere.
func (e Exempt) Own() string { return e.own }

// Has says whether a namespace is one of them. An empty name is nobody's namespace.
func (e Exempt) Has(namespace string) bool {
	return namespace != "" && (namespace == kubeSystem || namespace == e.own)
}

// Names are their names.
func (e Exempt) Names() []string { return []string{kubeSystem, e.own} }
