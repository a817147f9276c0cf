package locks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
)

// NewScheme returns a scheme with the kinds that are read and written.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two kinds of one name: a mistake in the program
		}
	}
	return scheme
}

// fieldManager owns what is written.
const fieldManager = "podgrace-volumelock"

// aPage is how many objects are read at once.
const aPage = 500

// Client reads and writes a cluster.
type Client struct {
	Kube client.Client
	// Namespace that Podgrace is installed in: the volume lock's, and that of the copy of a CSIDriver.
	Namespace string
}

// all reads the objects of a kind, page by page: there may be many pods.
func all[T any, L client.ObjectList](ctx context.Context, kube client.Reader, list L, items func(L) []T) (read []T, err error) {
	for token := ""; ; {
		page := list.DeepCopyObject().(L) // not the last one: what its objects point to is kept, and a reader need not clear it before it decodes
		if err := kube.List(ctx, page, client.Limit(aPage), client.Continue(token)); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		read = append(read, items(page)...)
		if token = page.GetContinue(); token == "" {
			return read, nil
		}
	}
}

// Facts reads what an adoption is planned by.
func (c *Client) Facts(ctx context.Context, driver string) (*adoption.Facts, error) {
	f, err := c.HolderFacts(ctx, driver)
	if err != nil {
		return nil, err
	}
	var errs [4]error
	f.Nodes, errs[0] = all(ctx, c.Kube, &corev1.NodeList{}, func(l *corev1.NodeList) []corev1.Node { return l.Items })
	f.CSINodes, errs[1] = all(ctx, c.Kube, &storagev1.CSINodeList{}, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items })
	f.Receipts, errs[2] = all(ctx, c.Kube, &v1alpha1.FenceReceiptList{}, func(l *v1alpha1.FenceReceiptList) []v1alpha1.FenceReceipt { return l.Items })
	if meta.IsNoMatchError(errs[2]) {
		errs[2] = nil // nothing is fenced here
	}
	f.Gated, f.GatedUnknown = c.gated(ctx)
	f.Pods, errs[3] = all(ctx, c.Kube, &corev1.PodList{}, func(l *corev1.PodList) []corev1.Pod { return l.Items })
	return f, errors.Join(errs[:]...)
}

// HolderFacts reads what the way back is planned by, which is neither nodes nor pods: who holds and who waits. VolumeAttachments are read last.
func (c *Client) HolderFacts(ctx context.Context, driver string) (*adoption.Facts, error) {
	f := &adoption.Facts{Driver: driver}
	var errs [5]error
	f.Object, errs[0] = c.driver(ctx, driver)
	f.Kept, errs[1] = c.kept(ctx, driver)
	f.Volumes, errs[2] = all(ctx, c.Kube, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) []corev1.PersistentVolume { return l.Items })
	f.Locks, errs[3] = all(ctx, c.Kube, &v1alpha1.VolumeLockList{}, func(l *v1alpha1.VolumeLockList) []v1alpha1.VolumeLock { return l.Items })
	if meta.IsNoMatchError(errs[3]) {
		return nil, errors.New("there is no kind VolumeLock in this cluster: install Podgrace's CustomResourceDefinitions first (docs/volume-lock.md)")
	}
	f.Attachments, errs[4] = all(ctx, c.Kube, &storagev1.VolumeAttachmentList{}, func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items })
	return f, errors.Join(errs[:]...)
}

func (c *Client) driver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	d := &storagev1.CSIDriver{}
	switch err := c.Kube.Get(ctx, client.ObjectKey{Name: name}, d); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read CSIDriver %s: %w", name, err)
	}
	return d, nil
}

// nameLabel finds the volume lock's Deployment, whatever it is called.
var nameLabel = client.MatchingLabels{"app.kubernetes.io/name": "podgrace-volumelock"}

// gated are the drivers that the volume lock is told to gate.
func (c *Client) gated(ctx context.Context) (drivers []string, unknown string) {
	var list appsv1.DeploymentList
	if err := c.Kube.List(ctx, &list, client.InNamespace(c.Namespace), nameLabel); err != nil {
		return nil, err.Error()
	}
	if len(list.Items) == 0 {
		return nil, "there is no Deployment podgrace-volumelock in namespace " + c.Namespace
	}
	for i := range list.Items {
		for j := range list.Items[i].Spec.Template.Spec.Containers {
			drivers = append(drivers, driversOf(list.Items[i].Spec.Template.Spec.Containers[j].Args)...)
		}
	}
	return drivers, ""
}

// driversOf reads --drivers=A,B and --drivers A,B.
func driversOf(args []string) (drivers []string) {
	for i, a := range args {
		value, found := strings.CutPrefix(a, "--drivers=")
		if a == "--drivers" && i+1 < len(args) {
			value, found = args[i+1], true
		}
		if found {
			drivers = append(drivers, strings.Split(value, ",")...)
		}
	}
	return slices.DeleteFunc(drivers, func(d string) bool { return d == "" })
}

// copiesName is the ConfigMap with copies of the CSIDrivers that are being recreated, by their names. It is one, and installed with the volume lock, empty: rights to it are bound to its name, and those to
// make ConfigMaps can't be.
const copiesName = "podgrace-volumelock-csidrivers"

var partLabels = map[string]string{"app.kubernetes.io/part-of": "podgrace"}

// kept is the CSIDriver that was to be recreated by a command that did not end; nil: there is none.
func (c *Client) kept(ctx context.Context, driver string) (*storagev1.CSIDriver, error) {
	text, err := c.copyOf(ctx, driver)
	if text == "" || err != nil {
		return nil, err
	}
	return keptIn(driver, text)
}

// copyOf is the copy of a CSIDriver, as it is stored; empty: there is none.
func (c *Client) copyOf(ctx context.Context, driver string) (string, error) {
	m, err := c.copies(ctx)
	return m.Data[driver], err
}

// copies is the ConfigMap with the copies; one without any where there is none.
func (c *Client) copies(ctx context.Context) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	if err := c.Kube.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: copiesName}, m); client.IgnoreNotFound(err) != nil {
		return m, fmt.Errorf("read ConfigMap %s/%s, which has the CSIDrivers of adoptions that were interrupted: %w", c.Namespace, copiesName, err)
	}
	return m, nil
}

// keptIn is a copy, whose creationTimestamp is when it was made.
func keptIn(driver, text string) (*storagev1.CSIDriver, error) {
	d := &storagev1.CSIDriver{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		return nil, fmt.Errorf("key %s of ConfigMap %s does not hold a CSIDriver: %w", driver, copiesName, err)
	}
	if d.Name != driver {
		return nil, fmt.Errorf("key %s of ConfigMap %s holds CSIDriver %q", driver, copiesName, d.Name)
	}
	return d, nil
}

// keep stores the CSIDriver that is to be made before the one of its name is deleted.
func keep(ctx context.Context, kube client.Client, namespace string, d *storagev1.CSIDriver, now time.Time) error {
	d = d.DeepCopy()
	d.CreationTimestamp = metav1.NewTime(now)
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("encode CSIDriver %s: %w", d.Name, err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: copiesName}}
	err = set(ctx, kube, m, d.Name, string(text))
	if apierrors.IsNotFound(err) {
		m.Labels, m.Data = partLabels, map[string]string{d.Name: string(text)}
		err = kube.Create(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("keep a copy of the CSIDriver in ConfigMap %s/%s, which is installed with the volume lock; nothing was changed: %w", namespace, copiesName, err)
	}
	return nil
}

// set writes a key of a ConfigMap, and no other; nil deletes it.
func set(ctx context.Context, kube client.Client, m *corev1.ConfigMap, key string, value any) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]any{key: value}})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	return kube.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch))
}

func (c *Client) forget(ctx context.Context, driver string) error {
	err := set(ctx, c.Kube, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: copiesName}}, driver, nil)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("all is done, but for key %s of ConfigMap %s/%s, which is not needed any more: %w", driver, c.Namespace, copiesName, err)
	}
	return nil
}

// remove deletes the CSIDriver as it was read, and no other.
func remove(ctx context.Context, kube client.Client, d *storagev1.CSIDriver) error {
	err := kube.Delete(ctx, d.DeepCopy(), client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("CSIDriver %s is not what was shown any more: it was not deleted, look again: %w", d.Name, err)
	case err != nil:
		return fmt.Errorf("delete CSIDriver %s: %w", d.Name, err)
	}
	return nil
}

// mark says how far the adoption of a CSIDriver is.
func mark(ctx context.Context, kube client.Client, d *storagev1.CSIDriver, how string) error {
	to := d.DeepCopy()
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[v1alpha1.AnnotationGated] = how
	if err := kube.Patch(ctx, to, client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("mark CSIDriver %s as %s: %w", d.Name, how, err)
	}
	return nil
}
