package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"

	"github.com/podgrace/podgrace/cli/nodeplan"
)

// call returns the exit code, and what was printed and logged.
func call(t testing.TB, args ...string) (code int, out, log string) {
	t.Helper()
	var o, l bytes.Buffer
	code = command(t.Context(), args, &o, &l)
	return code, o.String(), l.String()
}

// unpack writes the archive's files into a folder, which becomes the working directory.
func unpack(t testing.TB) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/plan.txtar")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(folder, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	return archive
}

var offline = []string{"plan", "--pods-from=pods.yaml", "--node=node.yaml", "--policy=policy.yaml", "--kubelet-config=kubelet.yaml"}

func TestPlan(t *testing.T) {
	file, err := filepath.Abs("testdata/plan.txtar")
	if err != nil {
		t.Fatal(err)
	}
	archive := unpack(t)
	want := txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			want.Files = append(want.Files, f)
		}
	}
	for _, output := range []string{"text", "json"} {
		for _, version := range []string{"1", "2"} {
			for _, driver := range []string{"cgroupfs", "systemd"} {
				code, out, log := call(t, append(offline, "--cgroup-version="+version, "--cgroup-driver="+driver, "-o", output)...)
				if code != 0 || log != "" {
					t.Errorf("v%s, %s, %s: exit %d: %s", version, driver, output, code, log)
				}
				want.Files = append(want.Files, txtar.File{Name: fmt.Sprintf("%s v%s %s", output, version, driver), Data: []byte(out)})
			}
		}
	}
	golden.Assert(t, string(txtar.Format(&want)), file)
}

// Programs rely on the names of the JSON's fields, and on lists that are there also where they are empty.
func TestPlanJSON(t *testing.T) {
	unpack(t)
	if err := os.WriteFile("none.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for pods, want := range map[string]struct{ cgroups, processes int }{"pods.yaml": {9, 3}, "none.yaml": {3, 0}} {
		code, out, log := call(t, "plan", "--pods-from="+pods, "--node=node.yaml", "--cgroup-version=2", "-o=json")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, log)
		}
		var got struct {
			APIVersion string
			Kind       string
			Cgroups    []map[string]any
			Processes  []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.APIVersion != "podgrace.dev/v1alpha1" || got.Kind != "NodePlan" || got.Cgroups == nil || got.Processes == nil || len(got.Cgroups) != want.cgroups || len(got.Processes) != want.processes {
			t.Errorf("%s: %d cgroups, %d processes in:\n%s", pods, len(got.Cgroups), len(got.Processes), out)
		}
		for _, c := range got.Cgroups {
			fields := []string{"path", "level", "files", "drift"}
			switch c["level"] {
			case "container":
				fields = append(fields, "pod", "container")
			case "pod":
				fields = append(fields, "pod")
			}
			for _, field := range fields {
				if c[field] == nil || c[field] == "" {
					t.Errorf("%v has no %s", c, field)
				}
			}
		}
		for _, p := range got.Processes {
			if _, number := p["oomScoreAdj"].(float64); !number || p["pod"] == nil || p["container"] == nil {
				t.Errorf("process %v", p)
			}
		}
	}
}

// Each container of a manifest has its oom_score_adj in the plan, though the pod's status names none.
func TestPlanOfProcesses(t *testing.T) {
	unpack(t)
	pod := func(name, rest string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop" + rest
	}
	const spec = "spec: {initContainers: [{name: mesh, restartPolicy: Always}], containers: [{name: app, resources: {requests: {memory: 4Gi}}}, {name: log}]}\n"
	text := pod("manifest", "}\n"+spec) + "---\n" + pod("pending", ", uid: u}\n"+spec+"status: {phase: Pending}\n") + "---\n" + pod("trimmed", ", uid: v}\n"+spec)
	if err := os.WriteFile("some.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, log := call(t, "plan", "--pods-from=some.yaml", "--node=node.yaml", "--cgroup-version=2", "-o=json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, log)
	}
	var plan struct {
		Processes []struct {
			Pod, Container string
			OOMScoreAdj    int
		}
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, p := range plan.Processes {
		got[p.Pod+" "+p.Container] = p.OOMScoreAdj
	}
	want := map[string]int{}
	for _, name := range []string{"manifest", "pending", "trimmed"} { // 4 of 16Gi
		want["shop/"+name+" app"], want["shop/"+name+" log"], want["shop/"+name+" mesh"] = 750, 999, 999
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is never done there is said to be so: Repair with cgroup v1 and systemd.
func TestPlanOfARefusedMode(t *testing.T) {
	unpack(t)
	for args, mode := range map[string]string{"1 systemd": "Tune", "1 cgroupfs": "Repair", "2 systemd": "Repair"} {
		version, driver, _ := strings.Cut(args, " ")
		code, out, log := call(t, append(slices.Clone(offline), "--mode=Repair", "--cgroup-version="+version, "--cgroup-driver="+driver)...)
		if said := strings.Contains(out, "mode Repair is not used, but Tune"); code != 0 || !strings.Contains(out, "NodePolicy web, mode "+mode+";") || said != (mode == "Tune") {
			t.Errorf("%s: exit %d: %s%s", args, code, out, log)
		}
	}
}

// The states of another machine's kubelet are read where its folder is named, and never this machine's in their place.
func TestPlanOfStates(t *testing.T) {
	unpack(t)
	for name, text := range map[string]string{
		"cpu_manager_state":    `{"policyName":"static","defaultCpuSet":"0-1","entries":{"11111111-1111-1111-1111-111111111111":{"db":"2"}},"checksum":0}`,
		"memory_manager_state": `{"policyName":"Static","entries":{"11111111-1111-1111-1111-111111111111":{"db":[{"numaAffinity":[1],"type":"memory","size":2147483648}]}}}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for root, want := range map[string]map[string]string{"": {}, "--kubelet-root=.": {"db": "2 on 1", "web": "0-1 on ", "work": "0-1 on "}} {
		args := append(slices.Clone(offline), "--cgroup-version=2", "--cgroup-driver=systemd", "-o=json")
		if root != "" {
			args = append(args, root)
		}
		code, out, log := call(t, args...)
		var plan nodeplan.NodePlan
		if err := json.Unmarshal([]byte(out), &plan); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, log)
		}
		got := map[string]string{}
		for _, c := range plan.Cgroups {
			if cpus, mems := c.Files["cpuset.cpus"], c.Files["cpuset.mems"]; cpus+mems != "" {
				got[c.Container] = cpus + " on " + mems
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %q: %s", root, diff)
		}
	}
}

func TestPlanWithoutNode(t *testing.T) {
	unpack(t)
	t.Setenv("NODE_NAME", "")
	if err := os.WriteFile("meminfo", []byte("MemTotal: 2097152 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"plan", "--pods-from=pods.yaml", "--proc-root=.", "--cgroup-version=2"}
	if code, out, log := call(t, args...); code != 0 || !strings.HasPrefix(out, "node: cgroup v2") || !strings.Contains(out, "4 pods from pods.yaml") || !strings.Contains(out, "2Gi") {
		t.Errorf("this machine's memory, all pods of the file: exit %d: %s%s", code, out, log)
	}
	if code, out, log := call(t, append(args, "--node-name=worker-2")...); code != 0 || !strings.HasPrefix(out, "worker-2: cgroup v2") || !strings.Contains(out, "2 pods") {
		t.Errorf("by name: exit %d: %s%s", code, out, log)
	}
}

// Workloads are what people have in files: none of them is passed over without a word.
func TestPlanOfWorkloads(t *testing.T) {
	unpack(t)
	text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 3\n  template:\n    spec: {initContainers: [{name: setup}], containers: [{name: c}]}\n---\napiVersion: v1\nkind: Service\n"
	if err := os.WriteFile("workloads.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, log := call(t, "plan", "--pods-from=workloads.yaml", "--node=node.yaml", "--cgroup-version=2")
	for _, says := range []string{"1 pod from workloads.yaml (objects that make no pods: 1)\n", "shop/web  BestEffort", "  setup ", "  c "} {
		if code != 0 || !strings.Contains(out, says) {
			t.Errorf("exit %d, without %q: %s%s", code, says, out, log)
		}
	}
}

// A whole node's pods, of which each has a container, a sidecar and an init container: each has its values when it runs.
func TestPlanOf500Pods(t *testing.T) {
	unpack(t)
	writePods(t, 500)
	code, out, log := call(t, "plan", "--pods-from=many.yaml", "--node=node.yaml", "--cgroup-version=2", "-o=json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, log)
	}
	var got struct {
		Cgroups   []struct{ Level string }
		Processes []struct{}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Cgroups) != 3+4*500 || len(got.Processes) != 3*500 {
		t.Errorf("%d cgroups, %d processes, %v", len(got.Cgroups), len(got.Processes), err)
	}
}

func BenchmarkPlanOf500Pods(b *testing.B) {
	unpack(b)
	writePods(b, 500)
	for b.Loop() {
		if code, _, log := call(b, "plan", "--pods-from=many.yaml", "--node=node.yaml", "--cgroup-version=2", "-o=json"); code != 0 {
			b.Fatal(log)
		}
	}
}

func writePods(t testing.TB, n int) {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `apiVersion: v1
kind: Pod
metadata: {name: web-%d, namespace: shop}
spec:
  initContainers:
  - {name: once}
  - {name: proxy, restartPolicy: Always, resources: {requests: {cpu: 1m, memory: 8Mi}}}
  containers:
  - {name: web, resources: {requests: {cpu: 5m, memory: 16Mi}, limits: {memory: 64Mi}}}
---
`, i)
	}
	if err := os.WriteFile("many.yaml", []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
