package plan

import "time"

// jumps are by how much a clock is wrong: less than a certificate lives, longer than a confirmation is valid (55 minutes), longer than leaves begin early (an hour at most), half a day as of a wrong time zone.
var jumps = []time.Duration{90 * time.Second, 12 * time.Minute, 95 * time.Minute, 13 * time.Hour}

// Fast is how much faster a clock is that runs fast. chronyd slews one by a twelfth at most (chrony.conf(5), maxslewrate); leader election stands half more, LeaseDuration by RenewDeadline
// (client-go tools/leaderelection, package documentation, 0.36.3).
const Fast = 0.25

// For how far a replica's clock may be ahead of that of who confirms, and how far behind, before a confirmation is void for it (guard/confirm.go, confirmationLasts and clockTolerance).
const (
	confirmedAhead  = 55 * time.Minute
	confirmedBehind = 5 * time.Minute
)

// Voids reports whether, at a time after a step began, its target's clock is so wrong that a confirmation of this moment is void for it.
func (s Step) Voids(after time.Duration) bool {
	wall, _ := s.Moved(after)
	return wall > confirmedAhead || wall < -confirmedBehind
}

// Moved is by how much the clocks of a step's target are wrong at a time after it began: that which tells the time of day, and the monotonic one, which never jumps.
func (s Step) Moved(after time.Duration) (wall, monotonic time.Duration) {
	switch s.Fault {
	case JumpClock:
		by := jumps[int(s.For/time.Millisecond)%len(jumps)]
		if after < s.For/2 {
			return by, 0
		}
		return -by, 0
	case FastClock:
		ahead := time.Duration(Fast * float64(after))
		return ahead, ahead
	default:
		return 0, 0
	}
}
