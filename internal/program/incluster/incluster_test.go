package incluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/program/version"
)

// The API server's audit log has the user agent, and no request waits in this process.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := version.Info{Program: version.Webhook, Version: "v1.2.3", Platform: "linux/amd64"}
	config, err := Config(file, program)
	if err != nil || config.Host != "https://127.0.0.1:1" || config.UserAgent != "podgrace-webhook/v1.2.3 (linux/amd64)" || config.QPS >= 0 {
		t.Errorf("got %+v, %v", config, err)
	}
	if _, err := Config(file+".gone", program); err == nil || !strings.HasPrefix(err.Error(), "configure the API server's client: ") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAddress(t *testing.T) {
	for port, want := range map[int]string{0: "0", 8080: "[::1]:8080"} {
		if got := Address("::1", port); got != want {
			t.Errorf("port %d: got %s, want %s", port, got, want)
		}
	}
}
