package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/internal/program/version"
)

// programs of the shell are built into a folder, which is returned: podgrace, and podgrace-preview beside it.
func programs(ctx context.Context, c *cluster.Cluster) (string, error) {
	dir := filepath.Join(c.Dir, "bin")
	for program, folder := range map[string]string{version.CommandLine: "cmd/podgrace", version.Preview: "preview/cmd/podgrace-preview"} {
		if err := cluster.GoBuild(ctx, filepath.Join(dir, program), folder); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// pending makes a pod that no node takes, and shows what the scheduler says of it and what podgrace does.
func pending(ctx context.Context, c *cluster.Cluster, kube client.Client, root, dir string) error {
	if err := c.AddNode(ctx, "node-4", map[string]string{corev1.LabelTopologyZone: "zone-a", corev1.LabelHostname: "node-4"}); err != nil {
		return err
	}
	if _, _, err := c.Kubectl(ctx, "apply", "-f", filepath.Join(root, "e2e", "demo", "pending.yaml")); err != nil {
		return err
	}
	says := ""
	if err := cluster.Until(ctx, "the scheduler to look at default/next", func(ctx context.Context) (bool, error) {
		var pod corev1.Pod
		if err := kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: "next"}, &pod); err != nil {
			return false, err
		}
		if pod.Spec.NodeName != "" {
			return false, fmt.Errorf("default/next, which fits nowhere, is on %s", pod.Spec.NodeName)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Reason == corev1.PodReasonUnschedulable {
				says = condition.Message
			}
		}
		return says != "", nil
	}); err != nil {
		return err
	}
	fmt.Printf("default/next is pending. Kubernetes says:\n%s\n", indent(says))
	const nowhere = 4 // the exit code
	cmd := exec.CommandContext(ctx, filepath.Join(dir, version.CommandLine), "preview", "next")
	cmd.Env, cmd.Stderr = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "COLUMNS=100"), os.Stderr
	out, err := cmd.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || ended.ExitCode() != nowhere) {
		return fmt.Errorf("podgrace preview: %w: %s", err, out)
	} else if err == nil {
		return fmt.Errorf("podgrace preview finds a node for default/next: %s", out)
	}
	fmt.Printf("$ podgrace preview next\n%s\n", indent(string(out)))
	return nil
}
