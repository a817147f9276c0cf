package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/webhook/ratelimit"
)

// Reads are the live reads of the API server for pods that are created. Whoever may create pods causes them, so that they are rate-limited for each namespace, and
// their results are cached for a moment.
type Reads struct {
	live   client.Reader
	limits *ratelimit.Limiters
	// absent caches that an owner does not exist, by its UID.
	absent *cache.LRUExpireCache
	// counted caches lists of pods by namespace and selector, listing shares those under way.
	counted *cache.LRUExpireCache
	listing singleflight.Group
}

const (
	readsPerSecond = 50
	readsBurst     = 200

	maxAbsent = 8192
	absentFor = time.Minute

	// Lists are cached for about as long as informers are stale. One has some names for each pod.
	maxLists   = 64
	countedFor = time.Second
	// countTimeout leaves time for the other reads of a review.
	countTimeout = 2 * time.Second
	// maxCounted is how many pods are counted, and countedAtOnce how many of them are read at once, some 10 KB each.
	maxCounted    = 5000
	countedAtOnce = 500
)

var (
	errTooManyReads = errors.New("pods of this namespace have needed too many reads of the API server in the last seconds")
	errTooManyPods  = fmt.Errorf("more than %d pods", maxCounted)
)

// NewReads returns limited and cached reads of the API server.
func NewReads(live client.Reader) *Reads {
	return &Reads{live: live, limits: ratelimit.New(readsPerSecond, readsBurst), absent: cache.NewLRUExpireCache(maxAbsent), counted: cache.NewLRUExpireCache(maxLists)}
}

// get reads an object of a namespace, unless the namespace's limit is reached.
func (r *Reads) get(ctx context.Context, key types.NamespacedName, into client.Object) error {
	if !r.limits.Allow(key.Namespace) {
		return errTooManyReads
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if err := r.live.Get(ctx, key, into); err != nil {
		return fmt.Errorf("read %s %s: %w", KindOf(into), key, err)
	}
	return nil
}

// owner reads the object that an owner reference names. NotFound is cached.
func (r *Reads) owner(ctx context.Context, key types.NamespacedName, uid types.UID, into client.Object) error {
	if known, ok := r.absent.Get(uid); ok {
		return known.(error)
	}
	err := r.get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		r.absent.Add(uid, err, absentFor)
	}
	return err
}

// pods returns each pod of a namespace that is bound, selected and neither finished nor about to go, as the scheduler counts
// them (pkg/scheduler/framework/plugins/podtopologyspread/common.go countPodsMatchSelector, 1.36.3).
func (r *Reads) pods(ctx context.Context, namespace string, selector labels.Selector) ([]defaulting.Neighbour, error) {
	key := namespace + "\x00" + selector.String()
	if known, ok := r.counted.Get(key); ok {
		return known.([]defaulting.Neighbour), nil
	}
	// A workload's pods arrive together and share one list, which therefore does not end with the request that began it.
	pods, err, _ := r.listing.Do(key, func() (any, error) {
		if !r.limits.Allow(namespace) {
			return nil, errTooManyReads
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		pods, err := r.list(ctx, namespace, selector)
		if err == nil {
			r.counted.Add(key, pods, countedFor)
		}
		return pods, err
	})
	if err != nil {
		return nil, fmt.Errorf("count the pods of %s that %s selects: %w", namespace, selector, err)
	}
	return pods.([]defaulting.Neighbour), nil
}

func (r *Reads) list(ctx context.Context, namespace string, selector labels.Selector) ([]defaulting.Neighbour, error) {
	pods, next := []defaulting.Neighbour{}, ""
	for read := 0; ; {
		var page corev1.PodList
		err := r.live.List(ctx, &page, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
			client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "")}, client.Limit(countedAtOnce), client.Continue(next))
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if p := &page.Items[i]; counts(p) {
				pods = append(pods, neighbour(p))
			}
		}
		if next = page.Continue; next == "" {
			return pods, nil
		}
		if read += len(page.Items); read >= maxCounted {
			return nil, errTooManyPods
		}
	}
}

// counts reports whether the scheduler counts a pod.
func counts(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !graceperiod.Finished(p)
}

func neighbour(p *corev1.Pod) defaulting.Neighbour {
	n := defaulting.Neighbour{Node: p.Spec.NodeName, Priority: ptr.Deref(p.Spec.Priority, 0)}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		n.Controller = defaulting.ControllerName(owner.Kind, owner.Name)
	}
	return n
}
