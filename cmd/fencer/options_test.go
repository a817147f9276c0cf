package main

import (
	"strings"
	"testing"
)

func TestSecretsNamespace(t *testing.T) {
	for in, wrong := range map[string]bool{"podgrace-fencing": false, "podgrace-system": true} {
		o := defaultOptions()
		o.Namespace, o.secretsNamespace = "podgrace-system", in
		if err := o.Complete(); err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "--secrets-namespace") {
			t.Errorf("%s: got %v", in, err)
		}
	}
	if got := defaultOptions().secretsNamespace; got != "podgrace-fencing" {
		t.Errorf("by default %s: deploy/components/fencer/namespace.yaml has another", got)
	}
}
