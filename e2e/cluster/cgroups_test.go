package cluster

import (
	"slices"
	"testing"
)

const mountinfoV1 = `22 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
23 22 0:21 / /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu
24 22 0:22 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
30 1 8:1 / /var/lib/podgrace/nodes rw - ext4 /dev/vda rw
31 1 0:30 / /var/lib/podgrace/node/kubelet rw - tmpfs tmpfs rw
32 31 0:31 / /var/lib/podgrace/node/kubelet/a\040b rw - tmpfs tmpfs rw
`

func TestMountsUnder(t *testing.T) {
	want := []string{"/var/lib/podgrace/node/kubelet/a b", "/var/lib/podgrace/node/kubelet"}
	if got := mountsUnder(mountinfoV1, "/var/lib/podgrace/node"); !slices.Equal(got, want) {
		t.Errorf("got %q: the inner one comes first, and a longer name is another folder", got)
	}
}

func TestInCgroup(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"0::/podgrace\n", true},
		{"3:cpu,cpuacct:/\n2:memory:/podgrace/kubepods/besteffort/podx/c\n", true},
		{"0::/podgrace-other\n", false},
		{"0::/kubepods/podgrace\n", false},
		{"", false},
	}
	for _, test := range tests {
		if got := inCgroup(test.text, "podgrace"); got != test.want {
			t.Errorf("%q: got %v", test.text, got)
		}
	}
}
