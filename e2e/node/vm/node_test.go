package vm

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/vm"
)

// See the slice's unit file: without it a machine hangs sooner or later.
func TestThereIsAQuotaThatNeverEnds(t *testing.T) {
	if got := start(t).Get(t, "podgracequota.slice", "cpu.max"); got != "100000 100000" {
		t.Errorf("it is %q", got)
	}
}

// The API server is all that the guest reaches: neither the host's other ports, though one listens, nor a network
// beyond, to which it has no route, and which QEMU refuses itself where it gets one.
func TestNothingLeavesTheGuest(t *testing.T) {
	g := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host := fmt.Sprintf("/dev/tcp/10.0.2.2/%d", listener.Addr().(*net.TCPAddr).Port)
	reach := func(path string, seconds int) error {
		_, err := g.node.Run(t.Context(), fmt.Sprintf("timeout %d bash -c 'exec 3<>%s'", seconds, path))
		return err
	}
	if err := reach("/dev/tcp/10.0.2.100/6443", 60); err != nil {
		t.Errorf("the API server: %v", err)
	}
	if err := reach(host, 5); err == nil {
		t.Error("the guest reaches a port of the host")
	}
	if routes := g.script(t, "ip route show default"); routes != "" {
		t.Errorf("default route %q", routes)
	}
	// Nobody is at 192.0.2.1 (RFC 5737), so it is QEMU that answers.
	got := g.script(t, "ip route add 192.0.2.0/24 via 10.0.2.2; timeout 60 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80'; ip route delete 192.0.2.0/24")
	if !strings.Contains(got, "Connection refused") {
		t.Errorf("a connection to another network: %q", got)
	}
}

// The node's own processes outlive its pods where memory runs out.
func TestKubeletAndSandboxesAreTheLastToGo(t *testing.T) {
	g := start(t)
	p := g.Pod(g.Namespace(t), "one", cluster.PauseImage, "", "", nil)
	g.Running(t, p)
	got := g.script(t, "cat /proc/$(systemctl show --property=MainPID --value kubelet)/oom_score_adj\n"+
		"for scope in "+vm.PodCgroup(p)+"/cri-containerd-*; do cat /proc/$(cat $scope/cgroup.procs)/oom_score_adj; done | sort --numeric-sort")
	if want := "-999\n-998\n1000"; got != want {
		t.Errorf("kubelet, sandbox and container: got %q, want %q", got, want)
	}
}
