package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podgrace/podgrace/internal/kube"
)

func TestRetriesWithinTenSeconds(t *testing.T) {
	limiter, longest := kube.Retries(), time.Duration(0)
	for range 50 {
		longest = max(longest, limiter.When(reconcile.Request{}))
	}
	if longest != 10*time.Second {
		t.Errorf("the longest wait is %s", longest)
	}
}

// No controller of the product has the default, which waits up to 1000 s.
func TestEachControllerHasALimitOfItsOwn(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../certs/*.go", "../../webhook/*/*.go", "../../volumelock/*/*.go", "../../fencing/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if built := strings.Count(string(text), "NewControllerManagedBy("); built > 0 {
				found += built
				if limited := strings.Count(string(text), "RateLimiter: "); limited < built {
					t.Errorf("%s: %d controllers, and %d of them have a RateLimiter", file, built, limited)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d controllers were found", found)
	}
}
