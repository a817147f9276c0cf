package terminate

import "time"

// Deadline is when the local sequence begins at the latest; 0: none.
func (s *State) Deadline() time.Duration { return s.local.deadline }

// Refused reports whether it is let be.
func (s *State) Refused() bool { return s.phase == refused }

// Looser is looser.
var Looser = looser

// Committed reports whether a release would change nothing.
func (s *State) Committed() bool { return s.committed() }

// Call is the number of the last request.
func (s *State) Call() int { return s.call.number }

// RefusedUntil is until when it is not asked for again.
func (s *State) RefusedUntil() time.Duration { return s.refusal.until }
