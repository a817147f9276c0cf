package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// In every other era there is one process of the enforcer, in the others it is ended in each way.
func TestSparesEnforcer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, number, o := drawn(t)
		for _, s := range Draw(seed, number, o).Steps {
			if EndsEnforcer(s.Fault) && SparesEnforcer(number) {
				t.Fatalf("round %d: %+v", number, s)
			}
		}
	})
	if SparesEnforcer(EraRounds-1) || !SparesEnforcer(EraRounds) || SparesEnforcer(2*EraRounds) {
		t.Error("it is not spared in every other era")
	}
}

// No time that the kubelet is away comes near to how long a pod stays on a node that is not heard of (five minutes), also where two follow each other: the enforcer's witness goes by which pods there are.
// The node may count as not heard of meanwhile, which is so after 22 s here, and a heartbeat is 10 s old at most when the kubelet goes away.
func TestKubeletIsNotAwayForLong(t *testing.T) {
	for number := range 200 {
		for _, s := range Draw(1, number, Options{Storm: time.Minute}).Steps {
			if Of(s.Fault) == Kubelet && s.For > 15*time.Second {
				t.Errorf("round %d: %+v", number, s)
			}
		}
	}
}
