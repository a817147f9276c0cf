package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/processclock"
)

// moveEvery is how often a clock is moved that is wrong: one that runs fast does so in steps of a quarter of that.
const moveEvery = 50 * time.Millisecond

// moveClock has a replica's clock be wrong as a step says, until it is mended: then its time of day is right at once. What its timers gained they keep, as where a clock was slewed. From when
// confirmations are void by it on, what was confirmed may be held up.
func (l *lab) moveClock(r *replica, s plan.Step) (mend func(context.Context) error, err error) {
	began, before, end, ended := time.Now(), r.timersGained(), make(chan struct{}), make(chan error, 1)
	var hold sync.Once
	valid := func() {}
	move := func() error {
		after := time.Since(began)
		if s.Voids(after) {
			hold.Do(func() { valid = l.weather.begin(plan.Confirmation) })
		}
		wall, monotonic := s.Moved(after)
		return r.setClock(wall, before+monotonic)
	}
	if err := move(); err != nil {
		valid()
		return nil, err
	}
	go func() {
		ticker := time.NewTicker(moveEvery)
		defer ticker.Stop()
		var err error
		for {
			select {
			case <-ticker.C:
				err = errors.Join(err, move())
			case <-end:
				err = errors.Join(err, r.setClock(0, r.timersGained()))
				valid()
				ended <- err
				return
			}
		}
	}()
	return func(context.Context) error {
		close(end)
		return <-ended
	}, nil
}

// setClock has the process's clocks be ahead by so much. Processes that follow it have the same time of day: it is their machine's. Their timers are their own.
func (r *replica) setClock(wall, monotonic time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead, r.gained = wall, monotonic
	return r.moved()
}

// moved moves the clock of the process that it is now, for who has the lock. One that has just ended has none.
func (r *replica) moved() error {
	clock, err := processclock.Of(r.w.PID)
	if err == nil {
		err = clock.Set(r.ahead, r.gained)
	}
	if err != nil && (r.w.Exited() != nil || processclock.Ended(r.w.PID)) { // it may be known to the kernel before it is to us
		return nil
	}
	return err
}

// timersGained is by how much the process's timers are ahead.
func (r *replica) timersGained() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gained
}

// certificatesHold looks that API servers take each replica's certificate: by what they were told, and by the time that they have.
func (l *lab) certificatesHold(ctx context.Context) error {
	var hooks admissionregistrationv1.ValidatingWebhookConfiguration
	if err := l.kube.Get(ctx, client.ObjectKey{Name: "podgrace"}, &hooks); err != nil {
		return fmt.Errorf("read caBundle: %w", err)
	}
	roots := x509.NewCertPool()
	for _, h := range hooks.Webhooks {
		roots.AppendCertsFromPEM(h.ClientConfig.CABundle)
	}
	for _, r := range l.replicas.all {
		if err := handshake(ctx, r.process().URL, roots); err != nil {
			l.violated("in the calm no API server would take the certificate of replica %d, which is ready: %v", r.index, err)
		}
	}
	return nil
}

// handshake makes a connection to a server, and ends it.
func handshake(ctx context.Context, at string, roots *x509.CertPool) error {
	to, err := url.Parse(at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout*probeFailures)
	defer cancel()
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", to.Host)
	if err != nil {
		return err
	}
	return c.Close()
}

// For how many looks, one a second, two replicas may say that they lead. Leader election keeps 5 s between the end of one's lead and the beginning of another's (LeaseDuration 15 s, RenewDeadline 10 s). One
// that was paused between two renewals (RetryPeriod, 2 s) says so, when it goes on, until it has tried to renew for RenewDeadline, although the lease is another one's by then (client-go
// tools/leaderelection/leaderelection.go, renew, 0.36.3).
const (
	togetherAtMost  = 5
	togetherResumed = 13
)

// pausedOf are the scopes of the jobs that are scraped.
var pausedOf = map[string]plan.Scope{"podgrace-webhook": plan.PausedWebhook, "podgrace-volumelock": plan.PausedVolumeLock, "podgrace-fencer": plan.PausedFencer}

// together is for how many looks two of a job may say now that they lead.
func (l *lab) together(job string) int {
	lately := time.Now().Add(-togetherResumed*tick - scrapeTimeout)
	if l.weather.quietSince(lately, []plan.Scope{pausedOf[job]}).After(lately) {
		return togetherResumed
	}
	return togetherAtMost
}

// leaders knows for how long more than one has said that it leads.
type leaders struct {
	together int
	told     bool
}

// more is told how many say so, once a second, and for how many looks they may, and reports whether that is a violation. It is told of once, however long it lasts.
func (w *leaders) more(leading, atMost int) bool {
	if leading < 2 {
		*w = leaders{}
		return false
	}
	w.together++
	tell := w.together > atMost && !w.told
	w.told = w.told || tell
	return tell
}

// leads reports whether the metrics of a replica tell that it leads.
func leads(metrics string) (bool, error) {
	n, err := measure.Sum(metrics, "leader_election_master_status")
	return n > 0, err
}
