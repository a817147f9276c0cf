package podgrace

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/volumelock"
	"github.com/podgrace/podgrace/webhook"
)

// VolumeLockUser is the volume lock's service account.
const VolumeLockUser = "system:serviceaccount:podgrace-system:podgrace-volumelock"

// VolumeLock is a running volume lock.
type VolumeLock = Replica

// AllowVolumeLock gives the volume lock's service account its rights, and has the API server judge what others write of VolumeLocks, and of volumes of these drivers, as deploy
// has both. Without drivers others may say attached, as an attacher does that somebody runs beside it.
func AllowVolumeLock(ctx context.Context, c *cluster.Cluster, drivers ...string) error {
	if err := applyOfComponent(ctx, c, "volumelock", "rbac.yaml"); err != nil {
		return err
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	policies := filepath.Join(root, "deploy", "components", "volumelock", "policies.yaml")
	return apply(ctx, kube, policies, func(o *unstructured.Unstructured) { gate(o, drivers) })
}

// gate has a policy be about these drivers, as the chart does.
func gate(o *unstructured.Unstructured, drivers []string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "spec", "matchConditions")
	for _, c := range conditions {
		if of, is := c.(map[string]any); is && of["name"] == "gated" {
			of["expression"] = fmt.Sprintf("object.spec.attacher in ['%s']", strings.Join(drivers, "', '"))
			_ = unstructured.SetNestedSlice(o.Object, conditions, "spec", "matchConditions") // it was one
		}
	}
}

// CreateAdopted makes a CSIDriver for which kubelets wait, and marks it as adopted: nothing of it is mounted yet. The mark has its UID, so that it comes second.
func CreateAdopted(ctx context.Context, kube client.Client, name string) (*storagev1.CSIDriver, error) {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}
	if err := kube.Create(ctx, d); err != nil {
		return nil, fmt.Errorf("make CSIDriver %s: %w", name, err)
	}
	d.Annotations = map[string]string{v1alpha1.AnnotationGated: volumelock.AdoptedMark(d.UID)}
	if err := kube.Update(ctx, d); err != nil {
		return nil, fmt.Errorf("mark CSIDriver %s as adopted: %w", name, err)
	}
	return d, nil
}

// BuildVolumeLock compiles the volume lock into a folder and returns the program's path.
func BuildVolumeLock(ctx context.Context, dir string) (string, error) {
	return build(ctx, dir, "volumelock")
}

// VolumeLockKubeconfig writes a kubeconfig of the volume lock's service account, and returns its path.
func VolumeLockKubeconfig(c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(VolumeLockUser, groups...)
}

// StartVolumeLock starts one replica on this machine, which reaches the API server by a kubeconfig and attaches volumes of some CSI drivers, and returns when it is ready. It may not lead yet.
func StartVolumeLock(ctx context.Context, c *cluster.Cluster, program, kubeconfig string, drivers []string, args ...string) (*VolumeLock, error) {
	return startReplica(ctx, c, "volumelock", program, kubeconfig, append([]string{"--drivers", strings.Join(drivers, ",")}, args...)...)
}
