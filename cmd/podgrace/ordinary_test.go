package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// inOrdinary makes the folders of testdata/ordinary.txtar, and theirs the working directory.
func inOrdinary(t *testing.T) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/ordinary.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	inFolder(t, files)
}

// What is usual in a repository, and nothing that its owner must repair, does not end a review with exit code 2; what the API server or kubectl refuses does.
func TestReviewOfOrdinaryRepositories(t *testing.T) {
	inOrdinary(t)
	if err := os.MkdirAll("link", 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link/config.yaml": "../elsewhere/config.yaml", "link/web.yaml": "../borrowed/web.yaml"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	helm := t.TempDir()
	if err := os.WriteFile(filepath.Join(helm, "helm"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", helm)
	const known = " --policy policies --state cluster"
	for name, test := range map[string]struct {
		args string
		code int
		says []string
	}{
		"a builtin transformer":    {"-f transformer/overlay --render=kustomize" + known, 1, []string{"DENIED   Deployment shop/web", "system-cluster-critical"}},
		"nothing was rendered":     {"-f remote --render=kustomize" + known, 2, []string{"ERROR    remote: nothing in it could be reviewed; 1 kustomization was not built", "(not on this machine: https://git.example.com/team/web.yaml): remote"}},
		"beside something":         {"-f remote -f transformer/overlay --render=kustomize --fail-on never" + known, 2, []string{"nothing in it could be reviewed", "DENIED"}},
		"nothing that makes pods":  {"-f settings --render=kustomize" + known, 0, []string{"1 other object is no pod and makes none"}},
		"nothing to render":        {"-f grafana --render=kustomize" + known, 2, []string{"grafana: nothing in it could be reviewed; 1 file has no manifest."}},
		"Grafana":                  {"-f grafana" + known, 0, []string{"Left out: 1 file has no manifest."}},
		"JSON with comments":       {"-f comments" + known, 0, []string{"Left out: 1 file has no manifest."}},
		"SOPS":                     {"-f sops" + known, 0, []string{"Left out: 1 object is encrypted by SOPS: sops/secret.yaml."}},
		"SOPS, named":              {"-f sops/secret.yaml" + known, 0, []string{"1 object is encrypted by SOPS"}},
		"Flux":                     {"-f flux" + known, 0, []string{"2 objects have a variable in place of a value (does Flux fill it in?): ", "flux/claim.yaml (${CAPACITY:=5Gi})", "flux/budget.yaml (${SELECTOR})"}},
		"Flux, in the state":       {"-f clone --state flux" + known, 0, []string{"Reviewed 1", "flux/claim.yaml (${CAPACITY:=5Gi})"}},
		"Flux, a class":            {"-f fluxclass --policy policies", 1, []string{"PriorityClass ${CLASS} (a variable that Flux fills in?)"}},
		"Flux, in a workload":      {"-f fluxreplicas" + known, 2, []string{"fluxreplicas/web.yaml:5", "spec.replicas is ${REPLICAS:=2} (a variable that Flux fills in?)"}},
		"a library chart":          {"-f library --render=helm" + known, 0, []string{"1 Helm chart is a library, of which nothing is rendered: library."}},
		"a template":               {"-f template" + known, 0, []string{"1 file is a template that was not rendered: template/daemonset.yaml."}},
		"a template, named":        {"-f template/daemonset.yaml" + known, 2, []string{"(a template that was not rendered?)"}},
		"a link to nothing":        {"-f link" + known, 0, []string{"Reviewed 1", "1 link leads nowhere: link/config.yaml (../elsewhere/config.yaml)."}},
		"a clone of Podgrace":      {"-f clone", 0, []string{"Reviewed 1 in 1 file", "No PodPolicy is known"}},
		"names that are generated": {"-f generated -v" + known, 0, []string{"Job shop/mig-*", "Pod shop/p-*"}},
		"a Rollout's revisions":    {"-f rollout/web.yaml -v --policy rollout/policy.yaml --state cluster", 0, []string{"app: web"}},
		"a Rollout that borrows":   {"-f borrowed" + known, 0, []string{"Reviewed 1", "1 other object is no pod"}},
		"it borrows from nowhere":  {"-f borrowed/rollout.yaml" + known, 0, []string{"Rollout shop/web: it has the template of Deployment web, which is not among the manifests: its pods were not judged"}},
		"a directive":              {"-f corners/directive.yaml" + known, 2, []string{"corners/directive.yaml:1: kubectl does not take a directive before a document: %YAML 1.1", "Reviewed 1"}},
		"a directive, in --state":  {"-f clone --state corners/directive.yaml" + known, 0, nil},
		"text after a separator":   {"-f corners/inline.yaml" + known, 2, []string{"kubectl does not take what stands after a separator", "Reviewed 1"}},
		"a container that is null": {"-f corners/null.yaml" + known, 2, []string{"spec.containers[0].name is missing, so that the API server would refuse it"}},
		"no name":                  {"-f corners/nameless.yaml" + known, 2, []string{"Pod: metadata.name: Required value: name or generateName is required"}},
		"jsonnet's map":            {"-f corners/map.json" + known, 2, []string{"jsonnet writes them as documents with -y"}},
		"jsonnet's list":           {"-f corners/list.json" + known, 2, []string{"a list, not an object (manifests are in it: jsonnet writes them as documents with -y)"}},
		"a negative grace period":  {"-f corners/negative.yaml" + known, 0, []string{"is now 15, not -1 (which counts as 1)"}},
		"a policy without a class": {"-f corners/never.yaml" + known, 1, []string{"it is PreemptLowerPriority without a PriorityClass"}},
		"a number without a class": {"-f corners/number.yaml" + known, 1, []string{"it is 0 without a PriorityClass"}},
		"another namespace":        {"-f nowhere --state cluster", 0, []string{"or -n NAMESPACE, if what names none goes into another"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, complaints := typed(t, "", "review "+test.args)
			for _, says := range test.says {
				if folded := strings.Join(strings.Fields(out+complaints), " "); !strings.Contains(folded, strings.Join(strings.Fields(says), " ")) {
					t.Errorf("does not say %q", says)
				}
			}
			if code != test.code || strings.Contains(out, "rollouts-pod-template-hash") || strings.Contains(out, "--template") {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			if t.Failed() {
				t.Log(out + complaints)
			}
		})
	}
}
