package podgrace

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/webhook"
)

const fencerUser = "system:serviceaccount:podgrace-system:podgrace-fencer"

// Fencer is a running fencer.
type Fencer = Replica

// AllowFencer creates the namespace of the fencer's Secrets and gives its service account its rights, as deploy has them; also those of other components.
func AllowFencer(ctx context.Context, c *cluster.Cluster, also ...string) error {
	if err := applyOfComponent(ctx, c, "fencer", "namespace.yaml"); err != nil {
		return err
	}
	for _, component := range append([]string{"fencer"}, also...) {
		if err := applyOfComponent(ctx, c, component, "rbac.yaml"); err != nil {
			return err
		}
	}
	return nil
}

// applyOfComponent applies some files of one of deploy's components.
func applyOfComponent(ctx context.Context, c *cluster.Cluster, component string, files ...string) error {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := Apply(ctx, c, filepath.Join(root, "deploy", "components", component, file)); err != nil {
			return err
		}
	}
	return nil
}

// Apply applies the objects of a file.
func Apply(ctx context.Context, c *cluster.Cluster, file string) error {
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return apply(ctx, kube, file, nil)
}

// BMC returns the Secret and the FenceAgent by which the fencer reaches one machine through a BMC with Redfish at an address, whose account is fencer with the password not-a-secret.
func BMC(name, systemUUID, address string, ca []byte) (*corev1.Secret, *v1alpha1.FenceAgent) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-fencing", Name: name}, Data: map[string][]byte{
		"username": []byte("fencer"), "password": []byte("not-a-secret"), "ca.crt": ca,
	}}
	return secret, &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentRedfish, Identity: v1alpha1.IdentityVerified, Redfish: &v1alpha1.RedfishAgent{Secret: name},
		Machines: []v1alpha1.FenceMachine{{SystemUUID: systemUUID, Address: address}},
	}}
}

// BuildFencer compiles the fencer into a folder and returns the program's path.
func BuildFencer(ctx context.Context, dir string) (string, error) { return build(ctx, dir, "fencer") }

// FencerKubeconfig writes a kubeconfig of the fencer's service account, and returns its path.
func FencerKubeconfig(c *cluster.Cluster) (string, error) {
	return c.KubeconfigFor(fencerUser, groups...)
}

// StartFencer starts one replica on this machine, and returns when it is ready. It may not lead yet.
func StartFencer(ctx context.Context, c *cluster.Cluster, program string, args ...string) (*Fencer, error) {
	kubeconfig, err := FencerKubeconfig(c)
	if err != nil {
		return nil, err
	}
	return startReplica(ctx, c, "fencer", program, kubeconfig, args...)
}
