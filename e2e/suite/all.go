package suite

import "os"

// AllVariable names the environment variable that asks for more than the gate has time for: 1 asks for what make test-all runs, and
// combinations also for every combination of installations in kind.
const AllVariable = "PODGRACE_ALL"

// All reports whether more is asked for than the gate has time for.
func All() bool { return os.Getenv(AllVariable) != "" }
