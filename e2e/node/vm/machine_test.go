package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
)

// The node is of this Kubernetes version, has cgroup v2 alone, and its kubelet is reached through the API server.
func TestTheNode(t *testing.T) {
	s, n := start(t)
	var object corev1.Node
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: nodeName}, &object); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(s.BinDir, object.Status.NodeInfo.KubeletVersion) {
		t.Errorf("kubelet %s, programs in %s", object.Status.NodeInfo.KubeletVersion, s.BinDir)
	}
	if object.Labels["podgrace.test/guest"] != "yes" {
		t.Errorf("labels %v", object.Labels)
	}
	if got := run(t, n, "stat --file-system --format=%T "+vm.CgroupRoot); got != "cgroup2fs\n" {
		t.Errorf("cgroups are %q", got)
	}
	// See the slice's unit file: without it the guest hangs sooner or later.
	if got := run(t, n, "cat "+vm.CgroupRoot+"/podgracequota.slice/cpu.max"); got != "100000 100000\n" {
		t.Errorf("the quota that never ends is %q", got)
	}
	if got := config(t, s); got.CgroupDriver != "systemd" || got.EvictionHard["memory.available"] != threshold {
		t.Errorf("the kubelet runs with %+v", got)
	}
}

// kubeletConfig is a part of what the kubelet says it runs with.
type kubeletConfig struct {
	CgroupDriver string
	EvictionHard map[string]string
}

func config(t *testing.T, s *suite.Suite) kubeletConfig {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + nodeName + "/proxy/configz").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ KubeletConfig kubeletConfig }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.KubeletConfig
}

// The API server is all that the guest reaches: neither the host's other ports, though one listens, nor a network
// beyond, to which it has no route, and which QEMU refuses itself where it gets one.
func TestNothingLeavesTheGuest(t *testing.T) {
	_, n := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host := fmt.Sprintf("/dev/tcp/10.0.2.2/%d", listener.Addr().(*net.TCPAddr).Port)
	reach := func(path string, seconds int) error {
		_, err := n.Run(t.Context(), fmt.Sprintf("timeout %d bash -c 'exec 3<>%s'", seconds, path))
		return err
	}
	if err := reach("/dev/tcp/10.0.2.100/6443", 60); err != nil {
		t.Errorf("the API server: %v", err)
	}
	if err := reach(host, 5); err == nil {
		t.Error("the guest reaches a port of the host")
	}
	if routes := run(t, n, "ip route show default"); routes != "" {
		t.Errorf("default route %q", routes)
	}
	// Nobody is at 192.0.2.1 (RFC 5737), so it is QEMU that answers.
	got := run(t, n, "ip route add 192.0.2.0/24 via 10.0.2.2; timeout 60 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'; ip route delete 192.0.2.0/24")
	if !strings.Contains(got, "Connection refused") {
		t.Errorf("a connection to another network: %q", got)
	}
}
