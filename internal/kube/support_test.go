package kube

import "testing"

func TestTooOld(t *testing.T) {
	for is, old := range map[string]bool{
		"v1.32.9": true, "v1.32.9-gke.1200": true, "1.32+": true, "v1.9.0": true, "v0.40.0": true,
		"v1.33.0": false, "v1.33.0-alpha.1": false, "v1.36.3+k3s1": false, "v1.101.0": false, "v2.0.0": false, "": false, "latest": false,
	} {
		want := ""
		if old {
			want = "the kubelet is of Kubernetes " + is + ", and Podgrace works with 1.33 and newer"
		}
		if got := TooOld("the kubelet", is); got != want {
			t.Errorf("%q: got %q, want %q", is, got, want)
		}
	}
}
