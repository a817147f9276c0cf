package suite

import "os"

// All reports whether everything is asked for that a nightly run has time for: PODGRACE_ALL=1.
func All() bool { return os.Getenv("PODGRACE_ALL") == "1" }
