package volumelocktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// API is the world as a client sees it: what the volume lock reads and writes, and nothing else.
type API struct {
	client.Client
	*World
	// Before is called before each request, and After after it: others do something between, or the request fails, or its answer is lost.
	Before, After func() error
}

// Status writes the status of objects.
func (a *API) Status() client.SubResourceWriter { return status{api: a} }

type status struct {
	client.SubResourceWriter
	api *API
}

func (a *API) request(do func() error) error {
	if err := a.Before(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return a.After()
}

func absent(name string) error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

func conflict(name string) error {
	return apierrors.NewConflict(schema.GroupResource{}, name, errors.New("it was changed"))
}

// Get reads one object.
func (a *API) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return a.request(func() error {
		switch o := into.(type) {
		case *v1alpha1.VolumeLock:
			if a.lock == nil || a.lock.Name != key.Name {
				return absent(key.Name)
			}
			a.lock.DeepCopyInto(o)
		case *storagev1.VolumeAttachment:
			if a.attachments[key.Name] == nil {
				return absent(key.Name)
			}
			a.attachments[key.Name].DeepCopyInto(o)
		case *corev1.Node:
			if a.nodes[key.Name] == nil {
				return absent(key.Name)
			}
			a.nodes[key.Name].DeepCopyInto(o)
		case *corev1.PersistentVolume:
			volumeNamed(key.Name).DeepCopyInto(o)
		case *storagev1.CSIDriver:
			if a.driver == nil {
				return absent(key.Name)
			}
			a.driver.DeepCopyInto(o)
		default:
			return fmt.Errorf("nobody reads a %T", into)
		}
		return nil
	})
}

// List reads the receipts. No two of its volumes have the same handle, and there is one lock.
func (a *API) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch into.(type) {
	case *corev1.PersistentVolumeList, *v1alpha1.VolumeLockList: // of an informer
		return nil
	}
	return a.request(func() error {
		into.(*v1alpha1.FenceReceiptList).Items = a.receipts
		return nil
	})
}

// Create makes the VolumeLock.
func (a *API) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	return a.request(func() error {
		if a.lock != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
		}
		l := o.(*v1alpha1.VolumeLock).DeepCopy()
		l.UID, l.ResourceVersion, l.CreationTimestamp, l.Status = a.uid("lock-"), a.next(), metav1.NewTime(a.Now()), v1alpha1.VolumeLockStatus{}
		a.lock = l
		l.DeepCopyInto(o.(*v1alpha1.VolumeLock))
		a.Seen.taken++
		return nil
	})
}

// Delete deletes the VolumeLock, or a VolumeAttachment, where it is as the preconditions say.
func (a *API) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	return a.request(func() error {
		var with client.DeleteOptions
		with.ApplyOptions(options)
		refused := func(is client.Object) bool {
			p := with.Preconditions
			return p != nil && (p.UID != nil && *p.UID != is.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != is.GetResourceVersion())
		}
		if _, ok := o.(*storagev1.VolumeAttachment); ok {
			stored := a.attachments[o.GetName()]
			switch {
			case stored == nil:
				return absent(o.GetName())
			case refused(stored):
				return conflict(o.GetName())
			}
			a.Seen.forgotten++
			a.remove(stored)
			return nil
		}
		switch {
		case a.lock == nil || a.lock.Name != o.GetName():
			return absent(o.GetName())
		case refused(a.lock):
			return conflict(o.GetName())
		}
		a.lock = nil
		a.Seen.handed++
		return nil
	})
}

// Update stores the VolumeLock's status.
func (w status) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s := w.api
	return s.request(func() error {
		l := o.(*v1alpha1.VolumeLock)
		switch {
		case s.lock == nil:
			return absent(l.Name)
		case s.lock.UID != l.UID, l.ResourceVersion != "" && l.ResourceVersion != s.lock.ResourceVersion:
			return conflict(l.Name)
		}
		s.store(l.Status)
		s.lock.DeepCopyInto(l)
		return nil
	})
}

// Merge is a stored object with a patch, if it is as the patch says it was read.
func Merge[T client.Object](stored, into T, o client.Object, patch client.Patch) (T, error) {
	data, err := patch.Data(o)
	if err != nil {
		return into, err
	}
	var says struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(data, &says); err != nil {
		return into, err
	}
	if rv := says.Metadata.ResourceVersion; rv != "" && rv != stored.GetResourceVersion() {
		return into, conflict(o.GetName())
	}
	old, err := json.Marshal(stored)
	if err != nil {
		return into, err
	}
	merged, err := jsonpatch.MergePatch(old, data)
	if err != nil {
		return into, err
	}
	return into, json.Unmarshal(merged, into)
}

// Patch changes a VolumeAttachment, but not its status.
func (a *API) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return a.request(func() error {
		stored := a.attachments[o.GetName()]
		if stored == nil {
			return absent(o.GetName())
		}
		c, err := Merge(stored, &storagev1.VolumeAttachment{}, o, patch)
		if err != nil {
			return err
		}
		c.Status, c.ResourceVersion = stored.Status, a.next()
		a.attachments[c.Name] = c
		c.DeepCopyInto(o.(*storagev1.VolumeAttachment))
		if c.DeletionTimestamp != nil && len(c.Finalizers) == 0 {
			delete(a.attachments, c.Name)
		}
		return nil
	})
}

// Patch changes the status of a VolumeAttachment or of a Node.
func (w status) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	s := w.api
	return s.request(func() error {
		switch o.(type) {
		case *storagev1.VolumeAttachment:
			stored := s.attachments[o.GetName()]
			if stored == nil {
				return absent(o.GetName())
			}
			c, err := Merge(stored, &storagev1.VolumeAttachment{}, o, patch)
			if err != nil {
				return err
			}
			if c.Status.Attached && !stored.Status.Attached {
				s.Seen.attached++
				delete(s.forgotten, stored.UID)
			} else if stored.Status.Attached && !c.Status.Attached {
				s.Seen.withdrawn++
				s.forgotten[stored.UID] = true
			}
			kept := stored.DeepCopy()
			kept.Status, kept.ResourceVersion = c.Status, s.next()
			s.attachments[kept.Name] = kept
		case *corev1.Node:
			stored := s.nodes[o.GetName()]
			if stored == nil {
				return absent(o.GetName())
			}
			c, err := Merge(stored, &corev1.Node{}, o, patch)
			if err != nil {
				return err
			}
			kept := stored.DeepCopy()
			kept.Status, kept.ResourceVersion = c.Status, s.next()
			s.nodes[kept.Name] = kept
		default:
			return fmt.Errorf("nobody patches a %T", o)
		}
		return nil
	})
}
