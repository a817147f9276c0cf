package deploy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// constraints are the fields of SecurityContextConstraints (security.openshift.io/v1) that say what a pod may have of the host.
type constraints struct {
	AllowHostPID             bool                `json:"allowHostPID"`
	AllowHostNetwork         bool                `json:"allowHostNetwork"`
	AllowHostPorts           bool                `json:"allowHostPorts"`
	AllowHostIPC             bool                `json:"allowHostIPC"`
	AllowHostDirVolumePlugin bool                `json:"allowHostDirVolumePlugin"`
	AllowPrivilegedContainer bool                `json:"allowPrivilegedContainer"`
	AllowPrivilegeEscalation bool                `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool                `json:"readOnlyRootFilesystem"`
	AllowedCapabilities      []corev1.Capability `json:"allowedCapabilities"`
	SeccompProfiles          []string            `json:"seccompProfiles"`
	Volumes                  []string            `json:"volumes"`
	Users                    []string            `json:"users"`
	RunAsUser                struct {
		Type string `json:"type"`
	} `json:"runAsUser"`
}

// needs is what a pod takes of them, as OpenShift's admission asks for it; fields that it does not compare are left out.
func needs(pod *corev1.PodSpec) constraints {
	c := constraints{AllowHostPID: pod.HostPID, AllowHostNetwork: pod.HostNetwork, AllowHostIPC: pod.HostIPC, ReadOnlyRootFilesystem: true}
	for _, v := range pod.Volumes {
		kind := map[bool]string{v.HostPath != nil: "hostPath", v.EmptyDir != nil: "emptyDir"}[true]
		c.AllowHostDirVolumePlugin = c.AllowHostDirVolumePlugin || kind == "hostPath"
		if !slices.Contains(c.Volumes, kind) {
			c.Volumes = append(c.Volumes, kind)
		}
	}
	for _, container := range pod.Containers {
		security := container.SecurityContext
		privileged := security.Privileged != nil && *security.Privileged
		c.AllowPrivilegedContainer = c.AllowPrivilegedContainer || privileged
		// The API server refuses a privileged container that may not escalate, which is what a constraint that forbids it sets.
		c.AllowPrivilegeEscalation = c.AllowPrivilegeEscalation || privileged || security.AllowPrivilegeEscalation != nil && *security.AllowPrivilegeEscalation
		c.ReadOnlyRootFilesystem = c.ReadOnlyRootFilesystem && *security.ReadOnlyRootFilesystem
		if security.Capabilities != nil {
			c.AllowedCapabilities = append(c.AllowedCapabilities, security.Capabilities.Add...)
		}
		for _, port := range container.Ports {
			c.AllowHostPorts = c.AllowHostPorts || port.HostPort != 0
		}
		if user := security.RunAsUser; user != nil {
			c.RunAsUser.Type = "RunAsAny"
		}
	}
	return c
}

// The constraints give the node enforcer what its pod has, for its account alone, and nothing that it has not: with all values that give it more.
func TestOpenShiftAdmitsTheNodeEnforcer(t *testing.T) {
	for _, tc := range [][]string{
		{enforcing, "monitoring.enabled=true"},
		{enforcing, "monitoring.enabled=true", "nodeEnforcer.selfFence.enabled=true"},
	} {
		all := variant{values: append(tc, "openshift.scc.create=true")}.templated(t, namespace)
		want := needs(&typed[appsv1.DaemonSet](t, find(t, all, "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec)
		got := constraintsOf(t, all)
		if len(got.Users) != 1 || got.Users[0] != "system:serviceaccount:podgrace-node:podgrace-nodeenforcer" {
			t.Errorf("%v: for %v", tc, got.Users)
		}
		if !slices.Contains(got.SeccompProfiles, "runtime/default") {
			t.Errorf("%v: seccomp %v", tc, got.SeccompProfiles)
		}
		slices.Sort(want.AllowedCapabilities)
		slices.Sort(got.AllowedCapabilities)
		if !slices.Equal(want.AllowedCapabilities, got.AllowedCapabilities) {
			t.Errorf("%v: capabilities %v, want %v", tc, got.AllowedCapabilities, want.AllowedCapabilities)
		}
		for _, volume := range want.Volumes {
			if !slices.Contains(got.Volumes, volume) {
				t.Errorf("%v: no volumes of the type %s", tc, volume)
			}
		}
		if !slices.Contains(got.Volumes, "projected") { // the account's token, which the API server adds
			t.Errorf("%v: volumes %v", tc, got.Volumes)
		}
		got.Users, got.SeccompProfiles, got.AllowedCapabilities, got.Volumes = nil, nil, nil, nil
		want.AllowedCapabilities, want.Volumes = nil, nil
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: the pod (-), what it is given (+): %s", tc, d)
		}
	}
}

func constraintsOf(t *testing.T, all []*unstructured.Unstructured) constraints {
	t.Helper()
	o := find(t, all, "SecurityContextConstraints", "podgrace-nodeenforcer")
	var c constraints
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Nobody is given rights that nothing needs; the webhook on its nodes' network needs OpenShift's own constraint for such pods.
func TestOpenShiftRights(t *testing.T) {
	for _, tc := range []struct {
		values    []string
		scc, bind bool
	}{
		{[]string{enforcing}, false, false},
		{[]string{enforcing, "openshift.scc.create=true"}, true, false},
		{[]string{"openshift.scc.create=true"}, false, false},
		{[]string{"openshift.scc.create=true", "webhook.hostNetwork=true"}, false, true},
		{[]string{"webhook.hostNetwork=true"}, false, false},
	} {
		var scc, bind bool
		for _, o := range (variant{values: tc.values}).templated(t, "elsewhere") {
			scc = scc || o.GetKind() == "SecurityContextConstraints"
			if o.GetName() == "podgrace-webhook-hostnetwork" {
				bind = true
				binding := typed[rbacv1.RoleBinding](t, o)
				if binding.RoleRef.Name != "system:openshift:scc:hostnetwork-v2" || binding.Namespace != "elsewhere" || binding.Subjects[0].Namespace != "elsewhere" || binding.Subjects[0].Name != "podgrace-webhook" {
					t.Errorf("%v: %v", tc.values, binding)
				}
			}
		}
		if scc != tc.scc || bind != tc.bind {
			t.Errorf("%v: constraints %v, binding %v", tc.values, scc, bind)
		}
	}
}
