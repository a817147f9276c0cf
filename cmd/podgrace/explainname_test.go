package main

import (
	"strings"
	"testing"
)

func TestExplainTakesKindsAsKubectlDoes(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{"deploy/twin.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}\n"})
	for name, code := range map[string]int{"deploy/web": 0, "deployments/web": 0, "DEPLOYMENT/web": 0, "sts/web": 0, "statefulset/web": 0, "po/calm": 0, "pods/calm": 0, "ds/web": 2, "web": 2} {
		got, out, complaints := typed(t, "", "explain "+name+" -f deploy"+whole)
		if got != code {
			t.Errorf("%s: exit %d: %s%s", name, got, out, complaints)
		}
		if name == "web" && !strings.Contains(complaints, "which one? There are StatefulSet/web (deploy/twin.yaml:1), Deployment/web (deploy/web.yaml:2)") {
			t.Errorf("two of a name: %s", complaints)
		}
	}
}
