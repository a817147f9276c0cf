package main

import (
	"strconv"
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

// What kubectl get -o name prints names the object, and so do the names of custom workloads.
func TestExplainTakesWhatKubectlPrints(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{
		"deploy/hello.yaml":   "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: hello, namespace: shop}\nspec: {template: {spec: {containers: [{image: i}]}}}\n",
		"deploy/rollout.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: shop, namespace: shop}\nspec: {selector: {matchLabels: {app: shop}}, template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: c, image: i}]}}}\n",
		"deploy/job.yaml":     "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: mig-, namespace: shop}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n",
	})
	for name, code := range map[string]int{
		"deployment.apps/web": 0, "deployments.apps/web": 0, "Deployment.v1.apps/web": 0, "deployment.v1/web": 2, "deployment.extensions/web": 2, "pod/calm": 0, "pod.v1/calm": 0,
		"service.serving.knative.dev/hello": 0, "ksvc/hello": 0, "Service/hello": 0, "ksvc.serving.knative.dev/hello": 0, "service.v1/hello": 2,
		"rollout.argoproj.io/shop": 0, "ro/shop": 0, "job.batch/mig-*": 0,
	} {
		if got, out, complaints := typed(t, "", "explain "+name+" -n shop -f deploy"+whole); name != "pod/calm" && name != "pod.v1/calm" && got != code {
			t.Errorf("%s: exit %d: %s%s", name, got, out, complaints)
		}
	}
}

// The pods of a StatefulSet have names that are known before they are there.
func TestExplainAPodOfAStatefulSet(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{
		"deploy/db.yaml":   "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: shop}\nspec: {replicas: 3, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}}\n",
		"deploy/mq.yaml":   "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: mq, namespace: shop}\nspec: {replicas: 1, ordinals: {start: 5}, selector: {matchLabels: {app: mq}}, template: {metadata: {labels: {app: mq}}, spec: {containers: [{name: c, image: i}]}}}\n",
		"deploy/gone.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: gone, namespace: shop}\nspec: {replicas: 0, selector: {matchLabels: {app: gone}}, template: {metadata: {labels: {app: gone}}, spec: {containers: [{name: c, image: i}]}}}\n",
	})
	for asked, test := range map[string]struct {
		code int
		says string
	}{
		"db-0": {0, "shop/db-0, of StatefulSet db"}, "db-2": {0, "shop/db-2, of StatefulSet db"}, "pod/db-1": {0, "shop/db-1, of"}, "db-2 -n shop": {0, "shop/db-2"}, "mq-5": {0, "shop/mq-5"}, "db": {0, "shop/db-0"},
		"db-3":         {2, "StatefulSet db (deploy/db.yaml:1) makes no pod db-3: its pods are db-0 to db-2"},
		"mq-0":         {2, "its only pod is mq-5"},
		"gone-0":       {2, "it has no replicas"},
		"db-02":        {2, "of the name " + strconv.Quote("db-02")},
		"sts/db-0":     {2, "no pod"},
		"db-0 -n else": {2, "no pod"},
		"web-7d4f-x2":  {2, "Deployment/web is explained by its own"},
	} {
		got, out, complaints := typed(t, "", "explain "+asked+" -f deploy"+whole)
		if got != test.code || !strings.Contains(out+complaints, test.says) {
			t.Errorf("%s: exit %d, not %d with %q: %s%s", asked, got, test.code, test.says, out, complaints)
		}
	}
}
