package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What somebody has set for his own builds is in no release; from where he has modules stays.
func TestEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("GOFLAGS=-tags=his\nGOAMD64=v3\nGOPROXY=https://proxy.example.com\nGOPRIVATE=example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", file)
	for _, name := range []string{"GOFLAGS", "GOAMD64", "GOPROXY", "GOPRIVATE"} { // the file's hold where the environment has none
		t.Setenv(name, "")
	}
	t.Setenv("GOEXPERIMENT", "jsonv2")
	t.Setenv("GOARM64", "v9.0")
	t.Setenv("GOFIPS140", "latest")
	for p, level := range map[platform]string{{"linux", "amd64"}: "GOAMD64=v1", {"windows", "arm64"}: "GOARM64=v8.0"} {
		env, err := environment(t.Context(), ".", p)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "go", "env", "-json")
		c.Env = env
		text, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		name, value, _ := strings.Cut(level, "=")
		for name, want := range map[string]string{
			"GOOS": p.OS, "GOARCH": p.Arch, "GOFIPS140": "off", "GOFLAGS": "", name: value, "GOEXPERIMENT": "", "GOWORK": "off",
			"GOPROXY": "https://proxy.example.com", "GOPRIVATE": "example.com", "GONOSUMDB": "example.com",
		} {
			if got, there := got[name]; !there || got != want {
				t.Errorf("%s: %s is %q, want %q", p, name, got, want)
			}
		}
	}
}
