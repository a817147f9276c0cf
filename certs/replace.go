package certs

import (
	"fmt"
	"slices"
	"time"
)

// State is all that is known about the CA. It stands in the Secret, so that any leader goes on where the last one ended.
//
// At each moment one phase is under way, the first of these that applies: a CA that nobody has published yet (Settling), one that
// will sign next (Publishing), some that no longer sign (Retiring). No phase ends before its time has passed since all was in
// place, and nothing signs with a CA that the API servers don't have, or is dropped while a leaf of it may be valid.
type State struct {
	// Current signs the leaves.
	Current Pair
	// Next is published, and signs once every API server has it.
	Next *Pair
	// NextBroken says that there is a next CA which cannot be read.
	NextBroken bool
	// Previous are those that may have signed leaves which are still valid.
	Previous []Authority
	// Settled is the ID of the CA that every API server had when it began to sign.
	Settled string
	// Since is when what the phase waits for was in place; zero where it is not.
	Since time.Time
	// Request is what an administrator wrote to have the CA replaced, Handled the request that was taken up last.
	Request, Handled string
}

// Phase is the part of a replacement that is under way, as people read it.
type Phase string

// The phases.
const (
	Ready      Phase = "Ready"      // nothing to do
	Settling   Phase = "Settling"   // the API servers learn of a CA that was not published before: the first, or one after a loss
	Publishing Phase = "Publishing" // they learn of the next CA
	Retiring   Phase = "Retiring"   // leaves of an old CA run out
)

// Phase says what is under way.
func (s State) Phase() Phase {
	switch {
	case s.Settled != s.Current.ID:
		return Settling
	case s.Next != nil || s.NextBroken:
		return Publishing
	case len(s.Previous) > 0:
		return Retiring
	}
	return Ready
}

// Trusted are the CAs that caBundle must have.
func (s State) Trusted() []Authority {
	all := append(slices.Clone(s.Previous), s.Current.Authority)
	if s.Next != nil {
		all = append(all, s.Next.Authority)
	}
	return union(all)
}

// Observed is what a step is decided by, beside the state.
type Observed struct {
	Now time.Time
	// Carried says that caBundle of every webhook is just State.Trusted.
	Carried bool
	// Present are the CAs of ours that some webhook's caBundle has.
	Present []Authority
}

// Step is a change of the state. The names are for logs.
type Step string

// The steps.
const (
	Wait    Step = "Wait"    // nothing, until Decision.After
	Note    Step = "Note"    // nothing, but that people can read in which phase it is
	Count   Step = "Count"   // what the phase waits for is in place
	Recount Step = "Recount" // it no longer is
	Keep    Step = "Keep"    // the CA was lost: those that the API servers have stay trusted while leaves of them may be valid
	Settle  Step = "Settle"  // the API servers have the CA: leaves may be signed by it
	Begin   Step = "Begin"   // make the next CA
	Swap    Step = "Swap"    // the next CA signs
	Drop    Step = "Drop"    // the old CAs are no longer trusted
)

// Decision is what to do now.
type Decision struct {
	Step Step
	// Why is for the log and the Event.
	Why string
	// After is when to decide again at the latest, if nothing changes; zero where that makes no difference.
	After time.Duration
}

// Decide says what to do now.
func Decide(s State, o Observed, t Timing) Decision {
	switch s.Phase() {
	case Settling:
		if lost := without(o.Present, s.Trusted()); len(lost) > 0 {
			return Decision{Step: Keep, Why: "the Secret has another CA than the webhook configurations: it was deleted or changed"}
		}
		return s.published(o, t, Decision{Step: Settle, Why: "the API servers have the CA"})
	case Publishing:
		if s.NextBroken || !o.Now.Before(s.Next.NotAfter) || o.Now.Before(s.Next.NotBefore) {
			return Decision{Step: Begin, Why: "the next CA cannot be used"}
		}
		return s.published(o, t, Decision{Step: Swap, Why: "the API servers have the next CA"})
	}
	// An API server takes no leaf of a CA that has not begun (crypto/x509, Certificate.isValid), whatever the leaf says.
	if o.Now.Before(s.Current.NotBefore) {
		return Decision{Step: Begin, Why: "the CA has not begun: it was made by a clock that was ahead"}
	}
	if s.Phase() == Retiring {
		return s.elapsed(o.Now, t.retire(), Decision{Step: Drop, Why: "the leaves of the old CA have run out"})
	}
	half := s.Current.NotBefore.Add(s.Current.NotAfter.Sub(s.Current.NotBefore) / 2)
	switch {
	case s.Request != "" && s.Request != s.Handled:
		return Decision{Step: Begin, Why: fmt.Sprintf("%s asks for it: %q", AnnotationReplace, s.Request)}
	case !o.Now.Before(half):
		return Decision{Step: Begin, Why: "half of the CA's life is over"}
	}
	return Decision{Step: Wait, After: half.Sub(o.Now)}
}

// published is the decision once all of caBundle has been in place for the time that the API servers need.
func (s State) published(o Observed, t Timing, then Decision) Decision {
	if o.Carried {
		return s.elapsed(o.Now, t.Settle, then)
	}
	if s.Since.IsZero() {
		return Decision{Step: Wait}
	}
	return Decision{Step: Recount, Why: "somebody changed caBundle: the time for the API servers starts anew"}
}

// elapsed is the decision once a time has passed. A start in the future is by another leader's clock and does not count.
func (s State) elapsed(now time.Time, want time.Duration, then Decision) Decision {
	passed := now.Sub(s.Since)
	switch {
	case s.Since.IsZero() || passed < 0:
		return Decision{Step: Count, Why: "all is in place for the phase " + string(s.Phase())}
	case passed < want:
		return Decision{Step: Wait, After: want - passed}
	}
	return then
}

// After is the state after a step. Only Begin needs the CA that it makes the next.
func (s State) After(step Step, o Observed, next Pair) State {
	s.Since = time.Time{}
	switch step {
	case Count:
		s.Since = o.Now
	case Keep:
		s.Previous = oldest(without(union(s.Previous, o.Present), []Authority{s.Current.Authority}))
	case Settle:
		s.Settled = s.Current.ID
	case Begin:
		s.Next, s.NextBroken, s.Handled = &next, false, s.Request
	case Swap:
		s.Previous = union(s.Previous, []Authority{s.Current.Authority})
		s.Current, s.Next, s.Settled = *s.Next, nil, s.Next.ID
	case Drop:
		s.Previous = nil
	}
	return s
}

// maxKept is how many lost CAs are kept in caBundle: two are in use in a replacement.
const maxKept = 4

// oldest bounds what Keep takes from caBundle, which others may write. Those of CAs that were lost before they settled few
// leaves are, if any.
func oldest(all []Authority) []Authority { return all[:min(len(all), maxKept)] }

// MaySign reports whether a leaf may be signed by the Secret's CA, for a replica that has a leaf of the CA held, valid until a
// time. One that was never published must wait while that leaf serves. Where there is none, or the leader has published all that
// it found and the CA of that leaf was not among it, any leaf is better.
func (s State) MaySign(held string, until, now time.Time) bool {
	serves := held != "" && now.Before(until)
	lost := !s.Since.IsZero() && !slices.ContainsFunc(s.Trusted(), func(a Authority) bool { return a.ID == held })
	return s.Settled == s.Current.ID || held == s.Current.ID || !serves || lost
}
