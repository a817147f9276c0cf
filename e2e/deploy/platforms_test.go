package deploy

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
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
	out, err := helm(t, append([]string{"template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", enforcing}, args...)...)
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

// onPlatform is what must come of what docs/platforms.md says is to be set.
type onPlatform struct {
	// webhook and enforcer are the answers, before their reasons.
	webhook, enforcer string
	// port and hostNetwork of the webhook.
	port        int32
	hostNetwork bool
	// leaves are the labels of nodes on which there is no node enforcer though it is installed; nil: there are none.
	leaves map[string]string
	// version of Kubernetes, if it is refused.
	version string
}

// platformsOfDocs are the rows of docs/platforms.md.
var platformsOfDocs = map[string]onPlatform{
	"kubeadm":               {webhook: "yes", enforcer: "yes"},
	"EKS, VPC CNI":          {webhook: "yes", enforcer: "yes"},
	"EKS, overlay network":  {webhook: "yes", enforcer: "yes", hostNetwork: true},
	"EKS, Fargate":          {webhook: "yes", enforcer: "no", leaves: map[string]string{"eks.amazonaws.com/compute-type": "fargate"}},
	"GKE Standard, private": {webhook: "yes", enforcer: "yes", port: 10250},
	"GKE Autopilot":         {webhook: "not known", enforcer: "no", port: 10250},
	"AKS":                   {webhook: "yes", enforcer: "yes"},
	"AKS, virtual nodes":    {webhook: "yes", enforcer: "no", leaves: map[string]string{"type": "virtual-kubelet"}},
	"OpenShift":             {webhook: "yes", enforcer: "yes"},
	"k3s":                   {webhook: "yes", enforcer: "yes"},
	"RKE2":                  {webhook: "yes", enforcer: "yes"},
	"k0s":                   {webhook: "yes", enforcer: "yes"},
	"MicroK8s":              {webhook: "yes", enforcer: "yes"},
	"Talos":                 {webhook: "yes", enforcer: "yes"},
	"Bottlerocket":          {webhook: "yes", enforcer: "yes"},
	"Windows nodes":         {webhook: "yes", enforcer: "no", leaves: map[string]string{corev1.LabelOSStable: "windows"}},
	"arm64 nodes":           {webhook: "yes", enforcer: "yes"},
	"Flatcar, RHEL and RHCOS, where SELinux enforces": {webhook: "yes", enforcer: "yes"},
	"Kubernetes 1.32 and older":                       {webhook: "no", enforcer: "no", version: "1.32.9"},
}

var (
	rowOfPlatform = regexp.MustCompile(`(?m)^\| (.+) \|$`)
	fileOfRow     = regexp.MustCompile(`\]\(\.\./deploy/platforms/([a-z0-9]+\.yaml)\)`)
	valueOfRow    = regexp.MustCompile("`([\\w.]+)=([^`]*)`")
	answerOfRow   = regexp.MustCompile(`^(yes|not known|no)(.*)$`)
)

// Each row of docs/platforms.md gives what it says: its values are the chart's and are rendered, the node enforcer is there where it is said to be, and each no has a reason.
func TestPlatformsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	schema := chartSchema(t)
	there, named := map[string]bool{}, map[string]bool{}
	for _, row := range rowOfPlatform.FindAllStringSubmatch(string(page), -1) {
		cells := strings.Split(row[1], " | ")
		if cells[0] == "platform" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 6 {
			t.Errorf("%q has %d cells", row[1], len(cells))
			continue
		}
		want, known := platformsOfDocs[cells[0]]
		if !known || there[cells[0]] {
			t.Errorf("%s: there once more, or not known to this test", cells[0])
			continue
		}
		there[cells[0]] = true
		t.Run(cells[0], func(t *testing.T) {
			for i, answer := range []string{want.webhook, want.enforcer} {
				said := answerOfRow.FindStringSubmatch(cells[1+i])
				if said == nil || said[1] != answer || answer != "yes" && !strings.HasPrefix(said[2], ": ") {
					t.Errorf("%q, want %s, and why if it is no", cells[1+i], answer)
				}
			}
			if !strings.HasPrefix(cells[4], "tried: ") && !strings.HasPrefix(cells[4], "not tried") {
				t.Errorf("it does not say on what it was tried: %q", cells[4])
			}
			var args []string
			for _, file := range fileOfRow.FindAllStringSubmatch(cells[3], -1) {
				named[file[1]] = true
				path := filepath.Join(manifests, "platforms", file[1])
				args = append(args, "--values", path)
				var values map[string]any
				if text, err := os.ReadFile(path); err != nil {
					t.Error(err)
				} else if err := yaml.Unmarshal(text, &values); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				schema.knows(t, path, values)
			}
			for _, value := range valueOfRow.FindAllStringSubmatch(cells[3], -1) {
				args = append(args, "--set", value[1]+"="+value[2])
				values := any(value[2])
				for _, key := range slices.Backward(strings.Split(value[1], ".")) {
					values = map[string]any{key: values}
				}
				schema.knows(t, value[1], values.(map[string]any))
			}
			if len(args) == 0 && !strings.HasPrefix(cells[3], "nothing") {
				t.Errorf("no value is in %q", cells[3])
			}
			want.check(t, args)
		})
	}
	for name := range platformsOfDocs {
		if !there[name] {
			t.Errorf("no row for %s", name)
		}
	}
	for _, file := range platforms(t) {
		if !named[file] {
			t.Errorf("no row names %s", file)
		}
	}
}

// check renders the chart with a row's values.
func (want onPlatform) check(t *testing.T, args []string) {
	t.Helper()
	args = append([]string{"template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry}, args...)
	if want.enforcer == "yes" || want.leaves != nil {
		args = append(args, "--set", enforcing)
	}
	if want.version != "" {
		if _, err := helm(t, append(args, "--kube-version", want.version)...); err == nil || !strings.Contains(err.Error(), "incompatible with Kubernetes v"+want.version) {
			t.Errorf("Kubernetes %s: got %v", want.version, err)
		}
		return
	}
	out, err := helm(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, []byte(out))
	pod := typed[appsv1.Deployment](t, find(t, all, "Deployment", "podgrace-webhook")).Spec.Template.Spec
	port := want.port
	if port == 0 {
		port = 9443
	}
	if !slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port }) || pod.HostNetwork != want.hostNetwork {
		t.Errorf("the webhook is at %v, hostNetwork %v", pod.Containers[0].Ports, pod.HostNetwork)
	}
	installed := slices.ContainsFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" })
	if want.leaves == nil {
		if (want.enforcer == "yes") != installed {
			t.Errorf("the node enforcer is installed: %v", installed)
		}
		return
	}
	enforcer := typed[appsv1.DaemonSet](t, find(t, all, "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: enforcer})
	for goes, labels := range map[bool]map[string]string{true: {}, false: want.leaves} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		maps.Copy(node.Labels, labels)
		if got, err := affinity.Match(node); err != nil || got != goes {
			t.Errorf("on a node with the labels %v: %v %v", node.Labels, got, err)
		}
	}
}

// valuesSchema is a part of values.schema.json.
type valuesSchema struct {
	Ref        string                   `json:"$ref"`
	Properties map[string]*valuesSchema `json:"properties"`
}

func chartSchema(t *testing.T) *valuesSchema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := &valuesSchema{}
	if err := json.Unmarshal(text, schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// knows fails where a value is not among the properties.
func (s *valuesSchema) knows(t *testing.T, where string, values map[string]any) {
	t.Helper()
	for key, value := range values {
		of := s.Properties[key]
		if of == nil {
			t.Errorf("%s: values.schema.json has no %s", where, key)
			continue
		}
		if inner, ok := value.(map[string]any); ok && of.Ref == "" {
			of.knows(t, where, inner)
		}
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
		if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", enforcing, "--set", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", values, err)
		}
	}
	// What the enforcer does not take is free for the webhook.
	if _, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", "webhook.hostNetwork=true,webhook.ports.https=10346"); err != nil {
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
