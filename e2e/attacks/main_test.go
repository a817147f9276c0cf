package attacks

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

var (
	requests = flag.Int("attacks.requests", 1000, "how many requests TestWalk sends")
	seed     = flag.Uint64("attacks.seed", 0, "what TestWalk chooses by; 0: RAPID_SEED, or a random one; it is printed")
	flood    = flag.Duration("attacks.flood", 20*time.Second, "how long TestFlood floods")
)

var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// start returns the suite, whose cluster is always its own.
func start(t *testing.T) *suite.Suite {
	t.Helper()
	if os.Getenv(suite.KubeconfigVariable) != "" {
		t.Skip("it attacks no cluster that somebody else may need")
	}
	return shared.Get(t)
}
