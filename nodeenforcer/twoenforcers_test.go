package nodeenforcer

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// A second enforcer of the node writes nothing until the first has ended, and says so in its log and to the probe.
func TestTwoEnforcers(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi"))
	b.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300}}`}
	root, folder := cgroupFiles(b), t.TempDir()
	weight := func() string {
		text, err := os.ReadFile(filepath.Join(root, b.Path("a", ""), "cpu.weight"))
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(string(text))
	}
	first, held := repair.NewLock(folder, clock.RealClock{}, logr.Discard()), make(chan struct{})
	go func() { _ = first.Start(t.Context()) }()
	go func() { _ = first.Alone(func(context.Context) error { close(held); return nil })(t.Context()) }()
	<-held
	log, known := &statetest.Log{}, state.State{}
	b.Live(v1alpha1.NodeModeTune)(&known)
	known.Node.Status.Capacity = corev1.ResourceList(statetest.Capacity())
	health, _ := freePorts(t)
	o := Options{
		NodeName: "n", Machine: state.Machine{CgroupRoot: root, ProcRoot: t.TempDir(), Version: cgroupfile.V2, Driver: plan.Cgroupfs}, RuntimeDir: folder, Fixed: &known, Resync: time.Minute,
		BindAddress: "127.0.0.1", HealthPort: health, Registry: prometheus.NewRegistry(), Log: funcr.New(log.Write, funcr.Options{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	until(t, "it says that it waits", func() bool { return log.Count("another node enforcer runs on this node") == 1 })
	until(t, "it says that it is not ready", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode != http.StatusOK
	})
	if got := weight(); got != "1" {
		t.Errorf("while the other runs, cpu.weight is %s", got)
	}
	first.Release()
	until(t, "it writes", func() bool { return weight() == "300" })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// cgroupFiles makes the planned cgroups in a folder and returns it. Their files are not as planned.
func cgroupFiles(b *bed) string {
	b.T.Helper()
	root := b.T.TempDir()
	for _, g := range b.Tree().Groups {
		for name, text := range map[string]string{"cgroup.procs": "", "cpu.weight": "1\n", "memory.max": "max\n", "memory.current": "0\n"} {
			if err := os.MkdirAll(filepath.Join(root, g.Path), 0o700); err != nil {
				b.T.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, g.Path, name), []byte(text), 0o600); err != nil {
				b.T.Fatal(err)
			}
		}
	}
	return root
}

// With --mode=Observe no file is written, in the cgroups or for the enforcer itself, whatever the policy asks for, and another enforcer is not waited for.
func TestReadOnly(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi"))
	b.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300}}`}
	root, folder := cgroupFiles(b), filepath.Join(t.TempDir(), "none")
	before := contents(t, root)
	log, known := &statetest.Log{}, state.State{}
	b.Live(v1alpha1.NodeModeRepair)(&known)
	known.Node.Status.Capacity = corev1.ResourceList(statetest.Capacity())
	health, _ := freePorts(t)
	o := Options{
		NodeName: "n", Machine: state.Machine{CgroupRoot: root, ProcRoot: t.TempDir(), Version: cgroupfile.V2, Driver: plan.Systemd}, SystemdBus: "/nowhere", RuntimeDir: folder, Mode: v1alpha1.NodeModeObserve,
		Fixed: &known, Resync: time.Second, BindAddress: "127.0.0.1", HealthPort: health, Registry: prometheus.NewRegistry(), Log: funcr.New(log.Write, funcr.Options{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	until(t, "it is ready", func() bool {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode == http.StatusOK
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if d := gocmp.Diff(before, contents(t, root)); d != "" {
		t.Errorf("the cgroups changed:\n%s", d)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("its runtime folder: %v", err)
	}
	if log.Count(`"mode"="Observe"`) != 1 || log.Count("wrote") > 0 {
		t.Errorf("logged %q", log.Lines())
	}
}

// contents are the files of a folder.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("a minute long not so: %s", what)
		}
	}
}
