package state_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func TestKubelet(t *testing.T) {
	server := statetest.Answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/configz":
			fmt.Fprint(w, `{"kubeletconfig":{"cgroupDriver":"systemd","kubeReserved":{"memory":"1Gi"},"notKnownYet":{"a":[1]}}}`)
		case "/stats/summary":
			fmt.Fprint(w, `{"node":{"nodeName":"n"},"pods":[{"podRef":{"name":"a","namespace":"shop","uid":"1"}}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ca := range []string{"", ca} {
		k := statetest.KubeletAt(t, server, ca)
		config, err := k.Config(t.Context())
		if err != nil || config.CgroupDriver != "systemd" || config.KubeReserved["memory"] != "1Gi" || config.CPUCFSQuota != nil {
			t.Errorf("configuration: %v, %v", config, err)
		}
		stats, err := k.Stats(t.Context())
		if err != nil || len(stats.Pods) != 1 || stats.Pods[0].PodRef.UID != "1" {
			t.Errorf("statistics: %v, %v", stats, err)
		}
	}
}

func TestKubeletThatDoesNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not authenticated": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) }, "/configz 401 Unauthorized: Unauthorized"},
		"forbidden, at length": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, strings.Repeat("no ", 1<<20))
		}, "403 Forbidden: no no"},
		"garbage":         {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "/configz: invalid character"},
		"empty":           {func(http.ResponseWriter, *http.Request) {}, "/configz: EOF"},
		"nothing in it":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"componentconfig":{}}`) }, "has no kubeletconfig"},
		"null":            {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"kubeletconfig":null}`) }, "has no kubeletconfig"},
		"of a wrong type": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"kubeletconfig":{"maxPods":"many"}}`) }, "maxPods"},
		"half of it":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"kubeletconfig":{"maxPods":1`) }, "unexpected EOF"},
		"without end":     {endless, "larger than 1 MiB"},
		"sent elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "302"},
		"gone in a moment": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			k := statetest.KubeletAt(t, statetest.Answering(t, tc.answer), "")
			k.Limit(1 << 20)
			_, err := k.Config(t.Context())
			if err == nil || !strings.Contains(err.Error(), "read the kubelet's configuration") || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1000 {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the token is in the error")
			}
		})
	}
}

func endless(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"kubeletconfig":{"hostnameOverride":"`)
	for chunk := strings.Repeat("x", 1<<20); ; {
		if _, err := io.WriteString(w, chunk); err != nil {
			return // the client has had enough
		}
	}
}

// A kubelet that is slow is waited for no longer than the caller wants.
func TestKubeletThatIsSlow(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	server := statetest.Answering(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"pods":[`)
		_ = http.NewResponseController(w).Flush()
		asked <- struct{}{}
		<-release
	})
	defer close(release)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-asked; stop() }()
	if _, err := statetest.KubeletAt(t, server, "").Stats(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "statistics") {
		t.Errorf("got %v", err)
	}
}

func TestNewKubeletRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ address, ca, want string }{
		"no port":      {"127.0.0.1", "", "the kubelet's address"},
		"no CA":        {"127.0.0.1:10250", filepath.Join(t.TempDir(), "none"), "make a client for the kubelet"},
		"IPv6, no []":  {"::1:10250", "", "the kubelet's address"},
		"no such host": {"", "", "the kubelet's address"},
	} {
		if _, err := state.NewKubelet(tc.address, "node", &rest.Config{}, tc.ca); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A certificate that is not of the CA.
	server := statetest.Answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	other := filepath.Join(t.TempDir(), "ca.crt")
	text, _, err := cert.GenerateSelfSignedCertKey("other", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, text, 0o600); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(mine, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ node, ca, want string }{
		"another CA": {statetest.NodeOfServer, other, "unknown authority"},
		// It has the address 127.0.0.1, as a kubelet's does not, and not this name.
		"another node": {"node", mine, "not node"},
		"this node":    {statetest.NodeOfServer, mine, "has no kubeletconfig"},
	} {
		if k, err := state.NewKubelet(server.Listener.Addr().String(), tc.node, &rest.Config{}, tc.ca); err != nil {
			t.Error(err)
		} else if _, err := k.Config(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
