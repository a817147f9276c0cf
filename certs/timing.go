package certs

import (
	"errors"
	"fmt"
	"time"
)

// Timing is how long self-managed certificates last, and how long a replacement of the CA waits.
type Timing struct {
	// CA is the life of a new CA. It is replaced at half of it.
	CA time.Duration
	// Leaf is the life of a serving certificate. A replica makes another at two thirds of it.
	Leaf time.Duration
	// Settle is how long the API servers get to see a change of caBundle, and how far clocks may be apart.
	Settle time.Duration
}

// DefaultTiming is what runs where nobody says otherwise.
func DefaultTiming() Timing {
	return Timing{CA: 10 * 365 * 24 * time.Hour, Leaf: 7 * 24 * time.Hour, Settle: 10 * time.Minute}
}

// The shortest times that can work: a leaf needs some seconds to be renewed in, an API server some to see a change.
const (
	minLeaf   = 10 * time.Second
	minSettle = time.Second
)

// Validate says all that is wrong with the times, by the names of the webhook's flags.
func (t Timing) Validate() error {
	var errs []error
	if t.Leaf < minLeaf {
		errs = append(errs, fmt.Errorf("--leaf-duration: %s is less than %s", t.Leaf, minLeaf))
	}
	if t.Settle < minSettle {
		errs = append(errs, fmt.Errorf("--ca-settle: %s is less than %s", t.Settle, minSettle))
	}
	// When the CA's Secret is lost a leaf that is due is not renewed for this long, and a third of its life is left then.
	if t.Leaf < 6*t.Settle {
		errs = append(errs, fmt.Errorf("--ca-settle: %s is more than a sixth of --leaf-duration, %s", t.Settle, t.Leaf))
	}
	// From half of the CA's life, when a replacement starts, to two thirds, when cert-manager's library makes another CA at
	// once (pkg/server/tls/authority, caRequiresRegeneration), there must be room for it.
	if least := 12 * (t.Leaf + t.Settle); t.CA < least {
		errs = append(errs, fmt.Errorf("--ca-duration: %s is less than %s, 12 times --leaf-duration and --ca-settle together", t.CA, least))
	}
	return errors.Join(errs...)
}

// retire is how long an old CA stays in caBundle after the last leaf was signed by it: until that has ended.
func (t Timing) retire() time.Duration { return t.Leaf + t.Settle }

// backdate is how long before now a leaf begins, for an API server whose clock is behind.
func (t Timing) backdate() time.Duration { return min(time.Hour, t.Leaf/10) }
