package selffence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

const (
	// askEvery is how often the Lease is asked for, and how long an answer may take. A kubelet renews it every 10 s (pkg/kubelet/kubelet.go nodeLeaseRenewIntervalFraction, 1.36.3).
	askEvery = 5 * time.Second
	// lookEvery is how often it is looked whether the Node still says that the watchdog is armed: a Node that is recreated does not.
	lookEvery = time.Minute
	// unfitFor is how long a watchdog that is not there, or can't be used, is not tried again. Each time the Node is written.
	unfitFor = time.Hour
	// feeds is how often the watchdog is fed within its timeout.
	feeds = 6
	// leaveWithin is for how long an enforcer that ends tries to say so: its pod has ten seconds (deploy/nodeenforcer/daemonset.yaml).
	leaveWithin = 8 * time.Second
)

// The bounds of what can be asked for.
const (
	MinPatience = time.Minute
	MaxPatience = time.Hour
	MinTimeout  = 10 * time.Second
	MaxTimeout  = 10 * time.Minute
)

var errSaying = errors.New("it is just being said that the watchdog is armed")

// Leases tells when the Node's Lease was renewed.
type Leases interface {
	// Renewal is the Lease's renewTime as the API server has it now, in any form that differs where the time does.
	Renewal(ctx context.Context, node string) (string, error)
}

// Feeder feeds a machine's watchdog.
type Feeder struct {
	Node   string
	BootID string
	// Patience is for how long it is fed after the Lease was known to be renewed for the last time.
	Patience time.Duration
	// Open arms the watchdog.
	Open     func() (Watchdog, error)
	Pausable bool
	Leases   Leases
	Nodes    status.Nodes
	// HangUp closes all connections to the API server, so that what is asked next goes over a new one.
	HangUp func()
	// Clock is for waiting, Now for how old the evidence is (Now).
	Clock clock.WithTicker
	Now   func() time.Duration
	Log   logr.Logger

	saying sync.Mutex // that it is armed, or off: one at a time, and nobody waits for it

	mu       sync.Mutex
	evidence Evidence
	unread   string // why the Lease could not be read, as last logged
	looked   time.Duration
	looks    bool // it is not known whether the Node says that it is armed
	// unannounced is why it could not be said, as last logged.
	unannounced string
	// worked: the Node is being worked on.
	worked bool
	// refused: the API server does not tell whether the Lease is renewed.
	refused bool

	watchdog Watchdog      // written by Run's goroutine alone
	again    time.Duration // when to try to arm it next
	told     string        // why it is not fed, as last logged
}

// Run feeds the watchdog until the context ends, and disarms it then if it can be said.
func (f *Feeder) Run(ctx context.Context) error {
	f.looks = true
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		f.ask(ctx)
	}()
	for ctx.Err() == nil {
		f.tend(ctx)
		select {
		case <-ctx.Done():
		case <-f.Clock.After(f.pause()):
		}
	}
	<-asked
	return f.leave()
}

// pause is the time between two feedings.
func (f *Feeder) pause() time.Duration {
	if f.watchdog == nil {
		return time.Second
	}
	return f.watchdog.Timeout() / feeds
}

// ask asks for the Lease until the context ends.
func (f *Feeder) ask(ctx context.Context) {
	for {
		f.learn(ctx)
		f.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-f.Clock.After(askEvery):
		}
	}
}

func (f *Feeder) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	asked := f.Now()
	renewal, err := f.Leases.Renewal(ctx, f.Node)
	// Nobody tells of a connection that takes what is written and brings nothing: HTTP/2 finds it out after 45 s (k8s.io/apimachinery pkg/util/net/http.go readIdleTimeoutSeconds and
	// pingTimeoutSeconds, 0.36.3), and never where a proxy answers its pings. Who is not cut off is not to be reset for that. Kubelets do the same (pkg/kubelet/kubelet.go
	// onRepeatedHeartbeatFailure, 1.36.3). What did answer is let be, whatever it said.
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.HangUp()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
	if err != nil {
		if text := err.Error(); text != f.unread { // what is armed already is told of by hold
			f.unread = text
			f.Log.Error(err, "failed to read the node's Lease, trying again")
		}
		return
	}
	f.unread = ""
	f.evidence.Learn(asked, renewal)
}

// justified reports whether the watchdog may be fed now.
func (f *Feeder) justified() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.evidence.Within(f.Now(), f.Patience)
}

// tend feeds the watchdog, or arms it, where the Lease is known to be renewed.
func (f *Feeder) tend(ctx context.Context) {
	f.mu.Lock()
	worked := f.worked
	f.mu.Unlock()
	switch {
	case worked && f.watchdog == nil:
		return
	case worked && f.disarm(ctx) == nil: // else it is fed as ever, and tried again
		f.Log.Info("not arming the watchdog: the node is under maintenance", "annotation", v1alpha1.AnnotationMaintenance)
		return
	case !f.justified():
		f.hold(ctx)
		return
	}
	if f.watchdog == nil {
		if now := f.Now(); now >= f.again {
			f.again = now + lookEvery
			f.arm(ctx)
		}
		return
	}
	if err := f.watchdog.Feed(); err != nil {
		f.say("failed to feed the watchdog", err)
		return
	}
	if f.told != "" {
		f.Log.Info("feeding the watchdog again")
	}
	f.told = ""
}

// hold lets the watchdog expire, and tells so. Where the API server refuses to tell of the Lease nobody is cut off, and a right is missing, or the Node is gone: then it is disarmed, if
// that can be said.
func (f *Feeder) hold(ctx context.Context) {
	if f.watchdog == nil {
		return
	}
	f.say("not feeding the watchdog: the machine resets itself", fmt.Errorf("the node's Lease is not known to have been renewed for %s; the watchdog waits for another %s at most", f.Patience, f.watchdog.Timeout()))
	f.mu.Lock()
	refused := f.refused
	f.mu.Unlock()
	if !refused {
		return
	}
	if err := f.disarm(ctx); err != nil {
		f.say("failed to disarm the watchdog, though the API server answers", err)
	}
}

// say logs what is wrong once.
func (f *Feeder) say(what string, err error) {
	if text := what + err.Error(); f.told != text {
		f.told = text
		f.Log.Error(err, what)
	}
}

// arm opens the watchdog. What the Node says of one that was armed otherwise is taken away before.
func (f *Feeder) arm(ctx context.Context) {
	if err := f.sayOff(ctx); err != nil {
		f.say("failed to withdraw the annotation of an armed watchdog, not arming it", err)
		return
	}
	if !f.justified() { // to open it is to feed it
		return
	}
	watchdog, err := f.Open()
	if err != nil {
		f.say("failed to arm the watchdog: the machine does not reset itself", err)
		if errors.Is(err, ErrUnfit) || errors.Is(err, fs.ErrNotExist) {
			f.again = f.Now() + unfitFor
		}
		return
	}
	if !f.justified() { // nothing ended a process that was held up before: the watchdog was not armed. The Node says off
		if err := watchdog.Disarm(); err != nil {
			f.say("failed to disarm a watchdog that was armed too late", err)
		}
		return
	}
	f.told = ""
	f.Log.Info("armed the watchdog: the machine resets itself when the node's Lease is not renewed", "watchdog", watchdog.Identity(), "timeout", watchdog.Timeout(), "patience", f.Patience, "pausable", f.Pausable)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchdog, f.looks = watchdog, true
}

// look reads the Node: whether it is being worked on, and whether it says that the watchdog is armed. Where it does not, that is said, for the Node as it was read: a write that is late
// comes to nothing once off was said.
func (f *Feeder) look(ctx context.Context) {
	if !f.saying.TryLock() {
		return
	}
	defer f.saying.Unlock()
	f.mu.Lock()
	watchdog, due := f.watchdog, f.looks || f.Now()-f.looked >= lookEvery
	f.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	node, err := f.Nodes.Get(ctx, f.Node)
	worked := err == nil && node.Annotations[v1alpha1.AnnotationMaintenance] != "" && (watchdog != nil || !f.saysArmed(node))
	if err == nil && watchdog != nil && !worked {
		err = f.announce(ctx, watchdog, node)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if watchdog != nil && err != nil && text != f.unannounced {
		f.Log.Error(err, "failed to annotate the node with its armed watchdog, trying again")
	}
	f.unannounced = text
	f.looked, f.looks = f.Now(), err != nil
	if err == nil {
		f.worked = worked
	}
}

// saysArmed reports whether the watchdog of this boot is armed by the Node's word. Where this process has not opened it, another one armed it and ended: it must be opened to be disarmed.
func (f *Feeder) saysArmed(node *corev1.Node) bool {
	var says v1alpha1.SelfFence
	err := json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationSelfFence]), &says)
	return err == nil && says.BootID == f.BootID && says.Off == ""
}

func (f *Feeder) announce(ctx context.Context, watchdog Watchdog, node *corev1.Node) error {
	text, err := json.Marshal(v1alpha1.SelfFence{
		NodeUID: node.UID, BootID: f.BootID, Patience: metav1.Duration{Duration: f.Patience}, Timeout: metav1.Duration{Duration: watchdog.Timeout()}, Watchdog: watchdog.Identity(), Pausable: f.Pausable,
	})
	if err != nil || node.Annotations[v1alpha1.AnnotationSelfFence] == string(text) {
		return err
	}
	return f.annotate(ctx, string(text), node.ResourceVersion)
}

// sayOff says that the watchdog is not armed. A Node that is not there says nothing else; that is the API server's to say, and no proxy's before it.
func (f *Feeder) sayOff(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	text, err := json.Marshal(map[string]string{"bootID": f.BootID, "off": f.Now().String()})
	if err != nil {
		return err
	}
	if err := f.annotate(ctx, string(text), ""); !apierrors.IsNotFound(err) || apierrors.IsUnexpectedServerError(err) {
		return err
	}
	return nil
}

// annotate writes the annotation, to the Node of this resourceVersion; empty: to any.
func (f *Feeder) annotate(ctx context.Context, text, version string) error {
	metadata := map[string]any{"annotations": map[string]any{v1alpha1.AnnotationSelfFence: text}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		err = f.Nodes.Patch(ctx, f.Node, types.MergePatchType, patch)
	}
	if err != nil {
		return fmt.Errorf("annotate node %s: %w", f.Node, err)
	}
	return nil
}

// disarm disarms the watchdog once the API server has said that it is not announced any more.
func (f *Feeder) disarm(ctx context.Context) error {
	if !f.saying.TryLock() {
		return errSaying
	}
	defer f.saying.Unlock()
	if err := f.sayOff(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	watchdog := f.watchdog
	f.watchdog = nil
	f.mu.Unlock()
	if err := watchdog.Disarm(); err != nil {
		f.say("failed to disarm the watchdog", err)
		return fmt.Errorf("disarm the watchdog: %w", err)
	}
	f.Log.Info("disarmed the watchdog")
	return nil
}

// leave disarms the watchdog of an enforcer that ends. One request that fails is no reason to reset the machine. Where it can't be said in time it stays armed: somebody may reckon
// with it.
func (f *Feeder) leave() error {
	if f.watchdog == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	timeout := f.watchdog.Timeout()
	err := f.disarm(ctx)
	for err != nil && f.watchdog != nil && ctx.Err() == nil {
		if f.justified() {
			err = errors.Join(err, f.watchdog.Feed())
		}
		select {
		case <-ctx.Done():
		case <-f.Clock.After(time.Second):
			f.HangUp() // which may be what is broken
			err = f.disarm(ctx)
		}
	}
	if err == nil {
		return nil
	}
	if f.watchdog != nil {
		_ = f.watchdog.Close() // which leaves it armed
	}
	return fmt.Errorf("the watchdog stays armed, and resets the machine in %s: %w", timeout, err)
}
