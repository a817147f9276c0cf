package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/policy"
)

const (
	// watching is how long a round lasts where nothing is being fenced, and acting where something is. Silence.Tick wants one each 5 s.
	watching = 2 * time.Second
	acting   = time.Second
	// pulse is how often the fencer writes, so that it knows whether it can.
	pulse = 5 * time.Second
	// readTimeout bounds one request to the API server.
	readTimeout = 10 * time.Second
	// writeTimeout bounds one action that writes: two requests, each of which may wait for an admission webhook (10 s by default, 30 s at most).
	writeTimeout = time.Minute
	// stepsARound is how many steps a Fence goes at most in one round: there are six phases.
	stepsARound = 8
)

// PulseName is the Lease that the leader renews in its namespace, by which it knows that the API server takes what it writes.
const PulseName = "podgrace-fencer-pulse"

// Agents gives the agent for what a Fence has frozen.
type Agents interface {
	// Agent reads the FenceAgent that has the name and UID, to be called for this Fence. It is an error if that is there no more.
	Agent(ctx context.Context, fence *v1alpha1.Fence, target v1alpha1.FenceTargetAgent) (fencing.Agent, error)
}

// Fencer is what one replica does for all while it leads.
type Fencer struct {
	// Client writes. Cache reads informers' stores, whose objects are not changed. Live reads the API server.
	Client client.Client
	Cache  client.Reader
	Live   client.Reader
	Agents Agents
	// Addresses are those that nodes had while they were healthy. nil: none are known, and no storage is taken away.
	Addresses *AddressBook
	// Recorder of Events. nil: none are recorded.
	Recorder events.EventRecorder
	Metrics  *Metrics
	Clock    clock.WithTicker
	// Namespace that the fencer runs in, and Node that it runs on, if any.
	Namespace, Node string
	// Exempt are the namespaces whose pods no policy protects.
	Exempt policy.Exempt
	// Identity of this replica.
	Identity string

	began    atomic.Pointer[time.Time] // to lead, which agents' answers reckon by from goroutines of their own
	looked   time.Duration             // when the last round began
	silence  fencing.Silence
	self     fencing.Self
	pulsed   time.Duration
	storms   map[string]time.Duration
	progress map[types.UID]*tracked
	read     map[types.UID]lastRead
	told     map[string]string // the last verdict told of a node, by its UID
	waiting  []string          // NetworkFences that are not lifted, as told last
	limits   *patchLimit
}

// NeedLeaderElection is true: one replica decides.
func (f *Fencer) NeedLeaderElection() bool { return true }

// Start leads until the context ends: by losing the lease, whatever is known begins again.
func (f *Fencer) Start(ctx context.Context) error {
	log := log.FromContext(ctx).WithName("fencer")
	f.lead()
	log.Info("leading: every node's silence counts from now")
	defer f.Metrics.reset()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		busy, err := f.round(ctx, log, &calls)
		if ctx.Err() != nil {
			return nil
		}
		f.Metrics.rounded(err)
		if err != nil {
			log.Error(err, "round failed")
		}
		wait := watching
		if busy {
			wait = acting
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.Clock.After(wait):
		}
	}
}

// lead begins with what a new leader knows: nothing.
func (f *Fencer) lead() {
	f.began.Store(new(f.Clock.Now()))
	f.silence, f.self, f.storms, f.read = fencing.Silence{}, fencing.Self{Node: f.Node}, nil, nil
	f.progress, f.told, f.pulsed, f.looked = map[types.UID]*tracked{}, map[string]string{}, -pulse, 0
	f.limits = newPatchLimit(f.Clock)
}

// now is by the monotonic clock: time.Time carries its reading (package time).
func (f *Fencer) now() fencing.Moment {
	now := f.Clock.Now()
	return fencing.Moment{Led: now.Sub(*f.began.Load()), Wall: now}
}

// round looks, decides and acts once. It reports whether something is being fenced.
func (f *Fencer) round(ctx context.Context, log logr.Logger, calls *sync.WaitGroup) (busy bool, err error) {
	var errs []error
	f.look(log)
	if err := f.beat(ctx); err != nil {
		errs = append(errs, err)
	}
	policies, policyObjects, err := f.policies(ctx)
	if err != nil {
		return false, errors.Join(append(errs, err)...)
	}
	facts, err := f.facts(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	f.recount(&facts)
	if f.storms == nil {
		f.storms = fencing.CoolingDown(policyObjects)
	}
	facts.Storms = f.storms
	f.storms = fencing.Storms(policies, facts)
	facts.Storms = f.storms

	voids, alarms := fencing.Voids(facts)
	for _, v := range voids {
		errs = append(errs, f.create(ctx, v))
	}
	f.report(log, nil, step{tell: alarms})
	verdicts := fencing.Decide(policies, facts)
	errs = append(errs, f.condition(ctx, fencing.Conditions(policies, facts, verdicts), facts))
	f.judged(log, verdicts)
	errs = append(errs, f.begin(ctx, log, verdicts, facts))
	if len(voids) > 0 { // what they void must be read again first
		for _, known := range f.progress {
			errs = append(errs, known.stop())
		}
	} else {
		for i := range facts.Fences {
			going, err := f.advance(ctx, log, &facts.Fences[i], verdicts, facts, calls)
			busy = busy || going
			errs = append(errs, err)
		}
	}
	errs = append(errs, f.retire(ctx, log, facts), f.lift(ctx, log, facts))
	f.forget(facts)
	errs = append(errs, f.policyStatus(ctx, policies, policyObjects, facts))
	f.Metrics.round(facts)
	return busy, errors.Join(errs...)
}

// look begins a round by the clock. One that went back, as a monotonic clock does where what it runs on is at fault, has a fencer begin as one that knows nothing: all that it
// timed would be to come, and be waited for as long as the clock went back.
func (f *Fencer) look(log logr.Logger) {
	now := f.now().Led
	switch {
	case now < f.looked:
		log.Info("the clock went back: every node's silence counts from now, and each fence begins with what is stored of it", "by", f.looked-now)
		for _, known := range f.progress {
			_ = known.stop()
		}
		f.lead()
		return
	case !f.silence.Tick(now):
		f.lapsed(now)
	}
	f.looked = now
}

// recount begins all silences again where the look-ups took so long that one which began before them was not watched: what was read first says nothing of now.
func (f *Fencer) recount(facts *fencing.Facts) {
	now := facts.Now.Led
	if f.silence.Watched(now) {
		return
	}
	f.lapsed(now)
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		n.Silent, n.Heard = f.silence.Of(n.UID, now)
	}
	for uid := range facts.Gone {
		facts.Gone[uid] = f.silence.Gone(uid, now)
	}
}

// lapsed begins cooldowns again that went on when the fencer looked last: what it did not watch was not calm.
func (f *Fencer) lapsed(now time.Duration) {
	for policy := range f.storms {
		f.storms[policy] = now
	}
}

// beat renews a Lease of the fencer's own, by which it knows that the API server takes what it writes. Where it does not, nothing that was not heard meanwhile is silence.
func (f *Fencer) beat(ctx context.Context) error {
	led := f.now().Led
	if led-f.pulsed < pulse {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	now := metav1.NewMicroTime(f.Clock.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: PulseName}}
	err := f.Live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &f.Identity, &now
	switch {
	case apierrors.IsNotFound(err):
		err = f.Client.Create(ctx, lease)
	case err == nil:
		err = f.Client.Update(ctx, lease)
	}
	if err != nil {
		f.silence.Restart(f.now().Led)
		return fmt.Errorf("write Lease %s, by which the fencer knows that it can: %w", PulseName, err)
	}
	f.pulsed = f.now().Led
	f.self.Wrote, f.self.HasWritten = f.pulsed, true
	return nil
}

// begin creates the Fences that are decided and not there yet. The next round takes them further.
func (f *Fencer) begin(ctx context.Context, log logr.Logger, verdicts []fencing.Verdict, facts fencing.Facts) error {
	var errs []error
	for _, v := range verdicts {
		if v.Do != fencing.DoFence || v.Fence != "" {
			continue
		}
		fence := fencing.NewFence(v, facts)
		if fence == nil {
			continue
		}
		if err := client.IgnoreAlreadyExists(f.Client.Create(ctx, fence)); err != nil {
			errs = append(errs, fmt.Errorf("create Fence %s of node %s: %w", fence.Name, v.Node.Name, err))
			continue
		}
		f.report(log, fence, step{event: "fence begun", decision: decisionlog.Fence, reason: v.Reason.Code, message: v.Message, policy: v.Policy, values: []any{"bootID", v.Node.BootID}})
	}
	return errors.Join(errs...)
}

// advance takes one Fence as far as it goes now: each status is stored before what follows from it is done.
func (f *Fencer) advance(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, verdicts []fencing.Verdict, facts fencing.Facts, calls *sync.WaitGroup) (busy bool, err error) {
	known := f.progress[fence.UID]
	if known == nil {
		known = &tracked{}
		f.progress[fence.UID] = known
	}
	var verdict *fencing.Verdict
	for i := range verdicts {
		if verdicts[i].Fence == fence.Name {
			verdict = &verdicts[i]
		}
	}
	for range stepsARound {
		facts.Now = f.now()
		next := fencing.Step(fence, verdict, facts, known.get())
		if !next.Changed {
			return next.After > 0 || len(next.Actions) > 0, f.act(ctx, log, fence, known, next.Actions, calls)
		}
		was, version := fence.Status.Phase, fence.ResourceVersion
		fence.Status = next.Status
		if err := f.Client.Status().Update(ctx, fence); err != nil {
			return true, fmt.Errorf("write the status of Fence %s: %w", fence.Name, err)
		}
		if fence.ResourceVersion == version {
			return true, written.NotStored("Fence "+fence.Name, "fences.podgrace.dev")
		}
		s := step{tell: next.Tell}
		if was != fence.Status.Phase {
			s.event, s.decision, s.reason, s.message = "fence goes on", decisionlog.Fence, string(fence.Status.Phase), fence.Status.Message
		}
		f.report(log, fence, s)
	}
	return true, nil
}

// forget drops what is known of Fences and nodes that are there no more.
func (f *Fencer) forget(facts fencing.Facts) {
	if facts.Known.Nodes {
		f.silence.Keep(facts.Nodes)
	}
	if !facts.Known.Fences {
		return
	}
	there := map[types.UID]bool{}
	for i := range facts.Fences {
		there[facts.Fences[i].UID] = true
	}
	for uid := range f.progress {
		if !there[uid] {
			_ = f.progress[uid].stop() // of a Fence that was deleted
			delete(f.progress, uid)
		}
	}
}
