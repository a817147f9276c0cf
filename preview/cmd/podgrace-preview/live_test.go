package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who may not list pods is not told that each node is empty.
func TestPodsThatNobodyListed(t *testing.T) {
	bodies := map[string]string{
		"/version":      `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`,
		"/api":          `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":         `{"kind": "APIGroupList", "groups": []}`,
		"/api/v1":       `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node", "verbs": ["list"]}, {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["list"]}]}`,
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, ok := bodies[r.URL.Path]
		switch {
		case !ok && r.URL.Path == "/api/v1/pods":
			w.WriteHeader(http.StatusForbidden)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", pod, "--server", server.URL, "--cache-dir", t.TempDir()}
	if out, errs, code := typed(t, args...); code != 1 || out != "" || !strings.Contains(errs, "the pods of all namespaces can't be listed") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	bodies["/api/v1/pods"] = `{"kind": "PodList", "apiVersion": "v1", "items": []}`
	if out, errs, code := typed(t, args...); code != 0 || !strings.Contains(out, "on 1 of 1 node") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}
