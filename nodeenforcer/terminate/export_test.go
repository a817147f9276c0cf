package terminate

import "time"

// Deadline is when the local sequence begins at the latest; 0: none.
func (s *State) Deadline() time.Duration { return s.local.deadline }

// Looser is looser.
var Looser = looser
