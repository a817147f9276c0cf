package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/program"
	"github.com/podgrace/podgrace/webhook"
)

// examples are applied in this order; expected is how many pods they make.
var examples = []string{"production-web", "stateful", "batch"}

const expected = 3 + 2 + 3 + 2

func main() {
	program.Main("demo", program.None, func(ctx context.Context) error {
		err := run(ctx, os.Getenv("DEMO_EXIT") == "1")
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

func run(ctx context.Context, exit bool) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{ControllerManager: true, Scheduler: true, AuditLog: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	var e *enforced
	for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
		name := fmt.Sprintf("node-%d", i+1)
		labels := map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}
		if name == realNode && cluster.NodeSupported() == nil {
			if e, err = startNode(ctx, c, labels); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.stop()) }()
			continue
		}
		if err := c.AddNode(ctx, name, labels); err != nil {
			return err
		}
	}
	dir, err := programs(ctx, c)
	if err != nil {
		return err
	}
	if err := show(ctx, c, e, dir); err != nil {
		return err
	}
	if exit {
		return nil
	}
	fmt.Print(try(c, dir))
	<-ctx.Done()
	return nil
}

// show applies the examples and prints what came of them. dir has podgrace.
func show(ctx context.Context, c *cluster.Cluster, e *enforced, dir string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	kube, err := client.New(rest.CopyConfig(c.Config), client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return err
	}
	if err := applyExamples(ctx, c, root); err != nil {
		return err
	}
	policies, _, err := c.Kubectl(ctx, "get", "podpolicies")
	if err != nil {
		return err
	}
	fmt.Printf("\n$ kubectl get podpolicies\n%s\n", policies)
	pods, err := createdPods(ctx, kube)
	if err != nil {
		return err
	}
	reasons, err := waitReasons(ctx, c.AuditLog, pods)
	if err != nil {
		return err
	}
	asked, err := templates(ctx, kube)
	if err != nil {
		return err
	}
	nodes, err := zones(ctx, kube)
	if err != nil {
		return err
	}
	fmt.Print(describe(asked, pods, reasons, nodes, e != nil))
	if e == nil {
		fmt.Printf("No node enforcer runs here, so that no cgroup has what the rows \"node\" ask for: %v.\n\n", cluster.NodeSupported())
	} else if err := e.show(ctx, pods); err != nil {
		return err
	}
	if err := refused(ctx, kube); err != nil {
		return err
	}
	if err := guarded(ctx, c); err != nil {
		return err
	}
	return pending(ctx, c, kube, root, dir)
}

// guarded shows the removal guard: a force delete of a database's pod is refused.
func guarded(ctx context.Context, c *cluster.Cluster) error {
	args := []string{"-n", "data", "delete", "pod", "db-0", "--force"}
	// The guard is armed once a replica has answered for the policy; until then a force delete would go through.
	if err := cluster.Until(ctx, "the removal guard", func(ctx context.Context) (bool, error) {
		_, _, err := c.Kubectl(ctx, append(args, "--dry-run=server")...)
		return err != nil, nil
	}); err != nil {
		return err
	}
	_, said, err := c.Kubectl(ctx, args...)
	if err == nil {
		return errors.New("the force delete of data/db-0 was let through")
	}
	if !strings.Contains(said, "may still run") { // not the guard's words
		return err
	}
	fmt.Printf("$ kubectl %s\n%s\n", strings.Join(args, " "), indent(said))
	return nil
}

// policiesReady returns when every policy has been judged: then the webhook has seen it.
func policiesReady(ctx context.Context, c *cluster.Cluster) error {
	_, _, err := c.Kubectl(ctx, "wait", "podpolicies", "--all", "--for=condition=Ready", "--timeout=30s")
	return err
}

// createdPods returns when all pods of the examples exist and are bound to nodes.
func createdPods(ctx context.Context, kube client.Client) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := cluster.Until(ctx, "the examples' pods", func(ctx context.Context) (bool, error) {
		if err := kube.List(ctx, &list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if list.Items[i].Spec.NodeName == "" {
				return false, nil
			}
		}
		return len(list.Items) >= expected, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%d of %d)", err, len(list.Items), expected)
	}
	return list.Items, nil
}

// templates returns what each workload asks of its pods, by namespace/name. What nobody asked for is unset in it: the
// API server's own defaults are taken out by report.
func templates(ctx context.Context, kube client.Client) (map[string]corev1.PodSpec, error) {
	asked := map[string]corev1.PodSpec{}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var jobs batchv1.JobList
	if err := errors.Join(kube.List(ctx, &deployments), kube.List(ctx, &sets), kube.List(ctx, &jobs)); err != nil {
		return nil, err
	}
	for _, d := range deployments.Items {
		asked[d.Namespace+"/"+d.Name] = d.Spec.Template.Spec
	}
	for _, s := range sets.Items {
		asked[s.Namespace+"/"+s.Name] = s.Spec.Template.Spec
	}
	for _, j := range jobs.Items {
		asked[j.Namespace+"/"+j.Name] = j.Spec.Template.Spec
	}
	return asked, nil
}

func zones(ctx context.Context, kube client.Client) (map[string]string, error) {
	var list corev1.NodeList
	if err := kube.List(ctx, &list); err != nil {
		return nil, err
	}
	byNode := map[string]string{}
	for _, n := range list.Items {
		byNode[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	return byNode, nil
}

// refused prints why the ReplicaSet of the example that asks for a forbidden class has no pods.
func refused(ctx context.Context, kube client.Client) error {
	return cluster.Until(ctx, "an event of the refusal", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		if err := kube.List(ctx, &events, client.InNamespace("shop")); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == "FailedCreate" {
				fmt.Printf("shop/impatient: its pods are refused\n%s\n", indent(e.Message))
				return true, nil
			}
		}
		return false, nil
	})
}

func try(c *cluster.Cluster, dir string) string {
	return fmt.Sprintf(`The cluster stays up until you press Ctrl-C. In another terminal:

  export KUBECONFIG=%s PATH=%s:%s:$PATH
  kubectl get podpolicies -o wide
  kubectl -n shop run once --image=none --dry-run=server -o yaml | grep -E 'priority|Grace'
  kubectl -n data run short --image=none --overrides='{"spec":{"terminationGracePeriodSeconds":5}}'
  podgrace explain -n data db-0
  podgrace explain next
`, c.Kubeconfig, dir, c.BinDir)
}

// applyExamples applies them, the workloads once the policies are in force, and prints what is warned of.
func applyExamples(ctx context.Context, c *cluster.Cluster, root string) error {
	for _, file := range []string{"cluster.yaml", "policy.yaml", "workloads.yaml"} {
		if file == "workloads.yaml" {
			if err := policiesReady(ctx, c); err != nil {
				return err
			}
		}
		for _, name := range examples {
			path := filepath.Join("examples", name, file)
			_, warnings, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(root, path))
			if err != nil {
				return err
			}
			if file == "workloads.yaml" {
				fmt.Printf("$ kubectl apply -f %s\n%s", path, indent(warnings))
			}
		}
	}
	_, _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(root, "examples", "node-enforcer", "nodepolicy.yaml"))
	return err
}
