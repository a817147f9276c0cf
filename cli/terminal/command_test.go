package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// The API server's audit log has the user agent.
func TestUserAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
	config, err := NewConfigFlags("podgrace").ToRESTConfig()
	if err != nil || !strings.HasPrefix(config.UserAgent, "podgrace/") {
		t.Errorf("got %+v, %v", config, err)
	}
}
