package lookup

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Of a pod's volumes those are told of that its own node holds, by what the informer stores of their locks.
func TestHeldBy(t *testing.T) {
	t.Parallel()
	l := &Locks{toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, locksByVolume), func() bool { return true }}
	for volume, node := range map[string]string{"b": "n1", "a": "n1", "c": "n2", "d": "n1"} {
		lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "volume-" + volume}, Spec: v1alpha1.VolumeLockSpec{PersistentVolume: volume, VolumeHandle: "long", Node: v1alpha1.BootReference{Name: node}}}
		if err := l.indexer.Add(trimmedLock(lock)); err != nil {
			t.Fatal(err)
		}
	}
	claims := policy.Claims{"1": {Volume: "a"}, "2": {Volume: "b"}, "3": {Volume: "c"}, "4": {}, "5": {Volume: "free"}, "6": {Volume: "d", Recreated: true}}
	if held := l.HeldBy("n1", claims); !slices.Equal(held, []string{"a", "b"}) {
		t.Errorf("it holds %q", held)
	}
	l.synced = func() bool { return false }
	if held := l.HeldBy("n1", claims); held != nil {
		t.Errorf("before it has synced: %q", held)
	}
	if held := (*Locks)(nil).HeldBy("n1", claims); held != nil {
		t.Errorf("where the kind is not installed: %q", held)
	}
}
