package terminate

import "time"

// Deadline is when the local sequence begins at the latest; 0: none.
func (s *State) Deadline() time.Duration { return s.local.deadline }

// Refused says whether it is let be.
func (s *State) Refused() bool { return s.phase == refused }

// Looser is looser.
var Looser = looser
