package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// suites are the packages whose tests also run in the kind cluster: all that need no process or machine of their own.
var suites = []string{"apiserver", "controlplane", "agreement"}

// notHere are their tests which only the cluster of their own can have.
var notHere = []string{
	"TestNodeWithFinalizer",            // waits for as long as a request can take: a minute, where the webhook is told nothing else
	"TestClassOfPodGroups",             // wants an API that is off in 1.36
	"TestDecisionsAreLoggedAndCounted", // reads the log of the process that it started
	// They make VolumeAttachments by hand, which this cluster's controllers would detach.
	"TestOnlyTheVolumeLockAttaches", "TestVolumeLocksAreWrittenByTheVolumeLock", "TestVolumeLockHasWhatItNeeds", "TestAdoptWithItsRole", "TestNamesThatKubeletsLookFor",
	"TestSecondReplica", // starts a replica beside the first: waitReady and the churn have two
}

// buildSuites compiles them; in the box no module can be fetched.
func buildSuites(ctx context.Context, dir string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-o", filepath.Join(dir, "suites") + string(filepath.Separator)}
	for _, name := range suites {
		args = append(args, "./"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, "e2e")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the suites: %w: %s", err, cluster.Tail(out, 30))
	}
	return nil
}

// runSuites runs them against the installation as it is, with one replica of the webhook: a test that waits until the webhook
// knows something waits for one.
func (w *world) runSuites(t *testing.T) {
	t.Helper()
	w.scale(t, 1)
	defer w.scale(t, 2)
	// Their nodes have no kubelet, so that no pod of theirs ever runs.
	w.kubectl(t, "cordon", kind.Node)
	defer w.kubectl(t, "uncordon", kind.Node)
	address := w.gateway(t)
	for _, name := range suites {
		t.Run(name, func(t *testing.T) { w.runSuite(t, name, address) })
	}
}

// ends are how the top-level tests of a test binary ended.
var ends = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

func (w *world) runSuite(t *testing.T, name, address string) {
	t.Helper()
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	// Not the test's context: the suite is to remove its nodes. The box ends what does not end.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(w.lab.Dir, "suites", name+".test"), "-test.v", "-test.timeout=15m") //nolint:gosec // compiled by buildSuites
	cmd.Dir = filepath.Join(root, "e2e", name)
	cmd.Env = append(os.Environ(), suite.KubeconfigVariable+"="+w.Kubeconfig, suite.AddressVariable+"="+address)
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err = cmd.Run()
	count := map[string]int{}
	for _, m := range ends.FindAllStringSubmatch(out.String(), -1) {
		how, test := m[1], m[2]
		count[how]++
		if how == "SKIP" && !slices.Contains(notHere, test) {
			t.Errorf("%s was skipped", test)
		}
	}
	w.lab.Logf("%s: %d tests passed, %d failed, %d left out, %.0f s", t.Name(), count["PASS"], count["FAIL"], count["SKIP"], time.Since(start).Seconds())
	if err != nil || count["PASS"] == 0 {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

// scale sets the number of replicas and waits until there are just so many pods, all ready.
func (w *world) scale(t *testing.T, replicas int) {
	t.Helper()
	w.kubectl(t, "scale", "deployment/podgrace-webhook", "--namespace="+namespace, fmt.Sprintf("--replicas=%d", replicas))
	w.kubectl(t, "rollout", "status", "deployment/podgrace-webhook", "--namespace="+namespace, "--timeout=2m")
	suite.EventuallyWithin(t, 2*time.Minute, fmt.Sprintf("%d pods of the webhook", replicas), func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := w.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-webhook"})
		return len(pods.Items) == replicas, err
	})
}

func (w *world) kubectl(t *testing.T, args ...string) {
	t.Helper()
	if _, err := w.Kubectl(context.WithoutCancel(t.Context()), args...); err != nil {
		t.Error(err)
	}
}

// gateway is the address of this machine in the network of kind's containers.
func (w *world) gateway(t *testing.T) string {
	t.Helper()
	text, err := w.lab.Docker.Run(t.Context(), "network", "inspect", "kind", "--format={{json .IPAM.Config}}")
	if err != nil {
		t.Fatal(err)
	}
	var networks []struct{ Gateway string }
	if err := json.Unmarshal([]byte(text), &networks); err != nil {
		t.Fatal(err)
	}
	for _, n := range networks {
		if a, err := netip.ParseAddr(n.Gateway); err == nil && a.Is4() {
			return n.Gateway
		}
	}
	t.Fatalf("kind's network has no IPv4 gateway: %s", text)
	return ""
}
