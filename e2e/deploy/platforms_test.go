package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ofNode is what the node enforcer's pod takes of its node: the folders, by the names of their volumes, and by what it is let in.
type ofNode struct {
	folders  map[string]string
	selinux  string
	apparmor corev1.AppArmorProfileType
	bus      bool // the program is told where D-Bus is
}

// enforcerWith renders the chart and returns what its node enforcer takes.
func enforcerWith(t *testing.T, args ...string) (ofNode, *corev1.PodSpec) {
	t.Helper()
	out, err := helm(t, append([]string{"template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	pod := typed[appsv1.DaemonSet](t, find(t, objects(t, []byte(out)), "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec
	container := pod.Containers[0]
	has := ofNode{folders: map[string]string{}, bus: slices.ContainsFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--systemd-bus=") })}
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			continue
		}
		has.folders[v.Name] = v.HostPath.Path
		// What is the node's own is never made: it would be taken for the right one.
		ours := v.Name == "checkpoint" || v.Name == "runtime"
		if made := ptr.Deref(v.HostPath.Type, corev1.HostPathUnset) != corev1.HostPathDirectory; made != ours {
			t.Errorf("%v: %s is of the type %q", args, v.HostPath.Path, ptr.Deref(v.HostPath.Type, corev1.HostPathUnset))
		}
	}
	if o := container.SecurityContext.SELinuxOptions; o != nil {
		has.selinux = o.Type
	}
	if p := container.SecurityContext.AppArmorProfile; p != nil {
		has.apparmor = p.Type
	}
	return has, &pod
}

// foldersOf are those of the node that the enforcer has, with some of another kind.
func foldersOf(change map[string]string) map[string]string {
	all := map[string]string{"cgroup": "/sys/fs/cgroup", "dbus": "/run/dbus", "kubelet": "/var/lib/kubelet", "checkpoint": "/var/lib/podgrace", "runtime": "/run/podgrace"}
	for name, path := range change {
		if all[name] = path; path == "" {
			delete(all, name)
		}
	}
	return all
}

// Each distribution's file gives what its nodes have, and docs/nodeenforcer.md names it.
func TestPlatforms(t *testing.T) {
	text, err := os.ReadFile("../../docs/nodeenforcer.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]ofNode{
		"":             {folders: foldersOf(nil), bus: true},
		"k3s":          {folders: foldersOf(nil), bus: true},
		"rke2":         {folders: foldersOf(nil), bus: true},
		"k0s":          {folders: foldersOf(map[string]string{"kubelet": "/var/lib/k0s/kubelet"}), bus: true},
		"microk8s":     {folders: foldersOf(map[string]string{"kubelet": "/var/snap/microk8s/common/var/lib/kubelet"}), bus: true},
		"talos":        {folders: foldersOf(map[string]string{"dbus": ""})},
		"bottlerocket": {folders: foldersOf(nil), bus: true, selinux: "control_t"},
		"openshift":    {folders: foldersOf(nil), bus: true, selinux: "spc_t"},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			if name != "" {
				args = []string{"--values", filepath.Join(manifests, "platforms", name+".yaml")}
				if line := "[`" + name + ".yaml`](../deploy/platforms/" + name + ".yaml)"; !strings.Contains(string(text), line) {
					t.Errorf("docs/nodeenforcer.md has no %s", line)
				}
			}
			want.apparmor = corev1.AppArmorProfileTypeUnconfined
			if got, _ := enforcerWith(t, args...); !cmp.Equal(want, got, cmp.AllowUnexported(ofNode{})) {
				t.Error(cmp.Diff(want, got, cmp.AllowUnexported(ofNode{})))
			}
		})
		if name != "" && !slices.ContainsFunc(platforms(t), func(file string) bool { return file == name+".yaml" }) {
			t.Errorf("there is no %s.yaml", name)
		}
	}
	if n := len(platforms(t)); n != 7 {
		t.Errorf("%d files, and some of them are not tested", n)
	}
}

func platforms(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(manifests, "platforms"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// The runtime's folder is there where it is named, and nowhere else; and neither it nor any other is made on a node.
func TestRuntimesFolder(t *testing.T) {
	got, pod := enforcerWith(t, "--set", "nodeEnforcer.imageRoot=/data/containerd")
	if want := foldersOf(map[string]string{"images": "/data/containerd"}); !cmp.Equal(want, got.folders) {
		t.Error(cmp.Diff(want, got.folders))
	}
	if host, mount := hostOf(pod, "/var/lib/containerd"); host != "/data/containerd" || !mount.ReadOnly {
		t.Errorf("it is %q, by %+v", host, mount)
	}
}

// What a node's security modules let the enforcer do is what the values say.
func TestSecurityModules(t *testing.T) {
	for value, want := range map[string]*corev1.AppArmorProfile{
		"Unconfined":         {Type: corev1.AppArmorProfileTypeUnconfined},
		"RuntimeDefault":     {Type: corev1.AppArmorProfileTypeRuntimeDefault},
		"Localhost/podgrace": {Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("podgrace")},
		"":                   nil,
	} {
		_, pod := enforcerWith(t, "--set", "nodeEnforcer.appArmorProfile="+value)
		if got := pod.Containers[0].SecurityContext.AppArmorProfile; !cmp.Equal(want, got) {
			t.Errorf("%q: %s", value, cmp.Diff(want, got))
		}
	}
}

// The enforcer listens, is probed and is scraped at the ports that the values name, and asks the kubelet where they say.
func TestEnforcersPorts(t *testing.T) {
	for _, tc := range []struct {
		values          []string
		health, metrics int32
		kubelet         []string
	}{
		{nil, 10346, 10347, nil},
		{[]string{"nodeEnforcer.ports.health=20346", "nodeEnforcer.ports.metrics=20347", "nodeEnforcer.kubelet=$(HOST_IP):10260"}, 20346, 20347, []string{"--kubelet=$(HOST_IP):10260"}},
	} {
		_, pod := enforcerWith(t, set(append(slices.Clone(tc.values), "monitoring.enabled=true"))...)
		c := pod.Containers[0]
		if got := []int32{c.LivenessProbe.HTTPGet.Port.IntVal, c.ReadinessProbe.HTTPGet.Port.IntVal, c.Ports[0].ContainerPort, c.Ports[0].HostPort}; !slices.Equal(got, []int32{tc.health, tc.health, tc.metrics, tc.metrics}) {
			t.Errorf("%v: %v", tc.values, got)
		}
		flags := programFlagsOf(c.Args, "--health-port=", "--metrics-port=", "--kubelet=")
		if want := append([]string{"--health-port=" + strconv.Itoa(int(tc.health)), "--metrics-port=" + strconv.Itoa(int(tc.metrics))}, tc.kubelet...); !slices.Equal(flags, want) {
			t.Errorf("%v: %q, want %q", tc.values, flags, want)
		}
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == "HOST_IP" && e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "status.hostIP"
		}) {
			t.Errorf("HOST_IP is not in %v", c.Env)
		}
	}
	for values, want := range map[string]string{
		"nodeEnforcer.ports.health=10347": "must be two ports",
		"nodeEnforcer.ports.health=80":    "nodeEnforcer",
		"nodeEnforcer.kubelet=127.0.0.1":  "nodeEnforcer",
		"nodeEnforcer.ports.health=20346,webhook.hostNetwork=true,webhook.ports.https=20346":          "webhook.ports.https: with webhook.hostNetwork port 20346",
		"nodeEnforcer.appArmorProfile=unconfined":                                                     "nodeEnforcer",
		"nodeEnforcer.appArmorProfile=Localhost/":                                                     "nodeEnforcer",
		"nodeEnforcer.ports.health=20346,nodeEnforcer.ports.metrics=20347,nodeEnforcer.ports.https=1": "nodeEnforcer",
	} {
		if _, err := helm(t, "template", "podgrace", chart, "--set", noRegistry, "--set", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", values, err)
		}
	}
	// What the enforcer does not take is free for the webhook.
	if _, err := helm(t, "template", "podgrace", chart, "--set", noRegistry, "--set", "nodeEnforcer.enabled=false,webhook.hostNetwork=true,webhook.ports.https=10346"); err != nil {
		t.Error(err)
	}
}

// programFlagsOf are those of the arguments that begin in one of these ways, in their order.
func programFlagsOf(args []string, prefixes ...string) (found []string) {
	for _, arg := range args {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(arg, prefix) }) {
			found = append(found, arg)
		}
	}
	return found
}
