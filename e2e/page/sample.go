package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// enforcement is the annotation of the contract between webhook and node.
const enforcement = "/metadata/annotations/podgrace.dev~1enforcement"

// Sample is a report with every kind of result, as of the policies in examples/.
func Sample() (*review.Report, error) {
	results := []review.Result{web("frontend", 18), checkout(), impatient(), ledger(), database(), forced(), eviction(), unknown(), batch("monthly"), batch("weekly"), clean("cart", "shop"), clean("metrics", "tools")}
	for i := range results {
		if err := patchPod(&results[i]); err != nil {
			return nil, err
		}
	}
	return review.NewReport(9, 7, results, []*manifest.Error{
		{File: "deploy/shop/legacy.yaml", Line: 14, Message: "mapping values are not allowed in this context"},
		{File: "deploy/tools/values.bin", Message: "not text: byte 0x00 at offset 12"},
	}), nil
}

// Large is a report of n results like those of the sample, each with a name of its own, which stands in its changes and reasons too.
func Large(n int) (*review.Report, error) {
	sample, err := Sample()
	if err != nil {
		return nil, err
	}
	results := make([]review.Result, 0, n)
	for i := range n {
		r := sample.Results[i%len(sample.Results)]
		r.Resource.Name = fmt.Sprintf("%s-%d", r.Resource.Name, i)
		r.After = bytes.ReplaceAll(r.After, []byte(`"app":"web"`), fmt.Appendf(nil, `"app":%q`, r.Resource.Name))
		r.Changes = slices.Clone(r.Changes)
		for i := range r.Changes {
			r.Changes[i].Why = strings.ReplaceAll(r.Changes[i].Why, "app=frontend", "app="+r.Resource.Name)
		}
		r.Resource.Namespace = fmt.Sprintf("%s-%d", r.Resource.Namespace, i%50)
		r.Source = manifest.Source{File: fmt.Sprintf("clusters/%s/%s.yaml", r.Resource.Namespace, r.Resource.Name), Line: 1}
		results = append(results, r)
	}
	return review.NewReport(n, 0, results, nil), nil
}

func workload(kind, namespace, name string, line int) review.Result {
	return review.Result{
		Resource: manifest.Resource{APIVersion: "apps/v1", Kind: kind, Namespace: namespace, Name: name},
		Source:   manifest.Source{File: "deploy/" + namespace + "/workloads.yaml", Line: line},
		Via:      review.ViaTemplate, Operation: "CREATE", Decision: review.Allowed, Before: pod(name),
	}
}

// pod is a pod with the defaults of the API server, in JSON.
func pod(name string) json.RawMessage {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",
"metadata":{"generateName":"%[1]s-","labels":{"app":"%[1]s","pod-template-hash":"78cf85bdb"},"annotations":{"prometheus.io/scrape":"true"}},
"spec":{"containers":[{"image":"registry.example/%[1]s:4.2.1","imagePullPolicy":"IfNotPresent","name":"%[1]s",
"resources":{"requests":{"cpu":"250m","memory":"256Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority","priority":0,"restartPolicy":"Always",
"schedulerName":"default-scheduler","securityContext":{},"serviceAccountName":"default","terminationGracePeriodSeconds":30}}`, name)
}

// patchPod makes the pod after the patch.
func patchPod(r *review.Result) error {
	if r.Before == nil || len(r.Patch) == 0 {
		return nil
	}
	operations, err := json.Marshal(r.Patch)
	if err != nil {
		return fmt.Errorf("the patch of %s: %w", r.Resource, err)
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return fmt.Errorf("the patch of %s: %w", r.Resource, err)
	}
	if r.After, err = patch.Apply(r.Before); err != nil {
		return fmt.Errorf("patching the pod of %s: %w", r.Resource, err)
	}
	return nil
}

// set is an operation that sets a field to a value in JSON.
func set(path, value string) review.Operation {
	return review.Operation{Op: "add", Path: path, Value: json.RawMessage(value)}
}

const spread = `[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}},` +
	`{"maxSkew":1,"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"web"}}}]`

func web(name string, line int) review.Result {
	r := workload("Deployment", "shop", name, line)
	r.Policies = []string{"production-web"}
	r.Patch = []review.Operation{
		set("/spec/priorityClassName", `"web-high"`), set("/spec/priority", `100000`), set("/spec/topologySpreadConstraints", spread),
		set("/spec/terminationGracePeriodSeconds", `45`), set(enforcement, `"{\"memory\":\"Low\",\"cpuWeight\":200,\"oomRank\":20}"`),
	}
	r.Changes = []review.Change{
		{Name: "priorityClassName", Value: `"web-high"`, Why: "PodPolicy production-web: the pod named no class"},
		{Name: "topologySpreadConstraints", Value: "2 constraints", Why: "PodPolicy production-web: the pod has no constraints; selector app=" + name},
		{Name: "terminationGracePeriodSeconds", Value: "45", Why: "PodPolicy production-web: default 45 s (30 counts as unset)"},
		{Name: "enforcement", Value: `{"memory":"Low","cpuWeight":200,"oomRank":20}`, Why: "PodPolicy production-web"},
	}
	return r
}

func checkout() review.Result {
	r := workload("Deployment", "shop", "checkout", 43)
	r.Policies = []string{"production-web"}
	r.Patch = []review.Operation{set("/spec/terminationGracePeriodSeconds", `35`)}
	r.Warnings = []string{"PodPolicy production-web: terminationGracePeriodSeconds 25 became 35: preStop of container checkout takes 20 s plus a margin of 15 s"}
	r.Changes = []review.Change{{Name: "terminationGracePeriodSeconds", Value: "35", Why: "PodPolicy production-web: preStop of container checkout takes 20 s plus a margin of 15 s"}}
	return r
}

func impatient() review.Result {
	r := workload("Deployment", "shop", "impatient", 71)
	r.Policies = []string{"production-web"}
	r.Decision, r.Reason = review.Denied, "PriorityClassNotAllowed"
	r.Message = "PodPolicy production-web does not allow the PriorityClass system-cluster-critical in namespace shop: choose one of web-high, web-low, or name none and get web-high"
	return r
}

func ledger() review.Result {
	r := workload("StatefulSet", "bank", "ledger", 5)
	r.Policies = []string{"stateful", "tenant-limits"}
	r.Patch = []review.Operation{set("/spec/priorityClassName", `"data"`), set("/spec/terminationGracePeriodSeconds", `120`)}
	r.Warnings = []string{
		"PodPolicy stateful: terminationGracePeriodSeconds 0 became 120: a grace period of 0 makes every delete a force delete",
		"PodPolicy tenant-limits: topologySpreadConstraints over topology.kubernetes.io/rack: no node has this label, the constraint is left out",
	}
	r.Unknown = []string{"PriorityClass data: whether it exists, and its value"}
	r.Changes = []review.Change{
		{Name: "priorityClassName", Value: `"data"`, Why: "PodPolicy stateful: the pod named no class"},
		{Name: "terminationGracePeriodSeconds", Value: "120", Why: "PodPolicy stateful: minimum 60 s, default 120 s"},
	}
	return r
}

func database() review.Result {
	r := workload("StatefulSet", "data", "db", 2)
	r.Policies = []string{"stateful"}
	r.Patch = []review.Operation{set("/spec/priorityClassName", `"data"`), set("/spec/terminationGracePeriodSeconds", `120`)}
	r.Changes = []review.Change{
		{Name: "priorityClassName", Value: `"data"`, Why: "PodPolicy stateful: the pod named no class"},
		{Name: "terminationGracePeriodSeconds", Value: "120", Why: "PodPolicy stateful: default 120 s"},
	}
	return r
}

func forced() review.Result {
	r := removal("DELETE", "db-0", 1)
	r.Decision, r.Reason = review.Denied, "Unsafe"
	r.Message = "data/db-0 may still run on node-7 (not ready, silent since 02:41:07Z, 14m20s ago): a force delete lets StatefulSet db start a second db-0 beside it. " +
		"Ways on: let its kubelet stop it: kubectl delete pod -n data db-0, without --force; if node-7 is known to be off: kubectl podgrace confirm node/node-7. (PodPolicy stateful)"
	r.User = "alice"
	return r
}

func eviction() review.Result {
	r := removal("EVICT", "db-1", 2)
	r.User = "system:serviceaccount:kube-system:descheduler"
	r.Patch = []review.Operation{set("/deleteOptions/gracePeriodSeconds", `120`)}
	r.Warnings = []string{"PodPolicy stateful: the eviction's grace period of 0 s became 120 s, the pod's own"}
	return r
}

func removal(operation, name string, line int) review.Result {
	return review.Result{
		Resource: manifest.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "data", Name: name}, Operation: operation,
		Source: manifest.Source{File: "recorded/reviews.jsonl", Line: line}, Decision: review.Allowed, Policies: []string{"stateful"},
	}
}

func unknown() review.Result {
	r := workload("DaemonSet", "edge", "proxy", 9)
	r.Unknown = []string{"Namespace edge: its labels, by which 2 policies select"}
	return r
}

func batch(name string) review.Result {
	r := workload("Job", "reports", name, 1)
	r.Resource.APIVersion, r.Policies = "batch/v1", []string{"batch"}
	r.Patch = []review.Operation{set("/spec/priorityClassName", `"batch"`), set("/spec/terminationGracePeriodSeconds", `20`)}
	r.Changes = []review.Change{
		{Name: "priorityClassName", Value: `"batch"`, Why: "PodPolicy batch: the pod named no class"},
		{Name: "terminationGracePeriodSeconds", Value: "20", Why: "PodPolicy batch: default 20 s (30 counts as unset)"},
	}
	return r
}

func clean(name, namespace string) review.Result {
	r := workload("Deployment", namespace, name, 1)
	if namespace == "shop" {
		r.Policies = []string{"production-web"}
	}
	return r
}
