package suite

import (
	"errors"
	"testing"
)

func TestRefusedBy(t *testing.T) {
	const limits, webhook = "limits.podgrace.dev", "pods.validate.podgrace.dev"
	for says, by := range map[string]string{
		`pods "p" is forbidden: ValidatingAdmissionPolicy 'limits.podgrace.dev' with binding 'limits.podgrace.dev' denied request: at most 60 s`:       limits,
		`admission webhook "pods.validate.podgrace.dev" denied the request: at most 60 s`:                                                              webhook,
		`Internal error occurred: failed calling webhook "pods.validate.podgrace.dev": failed to call webhook: at most 60 s`:                           webhook,
		`admission webhook "pods.validate.podgrace.dev" denied the request: at most 60 s (limits.podgrace.dev)`:                                        webhook,
		`pods is forbidden: User "limits.podgrace.dev" cannot create resource "pods" in API group "" in the namespace "pods.validate.podgrace.dev"`:    "",
		`pods "p" is forbidden: ValidatingAdmissionPolicy 'limits.podgrace.dev.other' with binding 'limits.podgrace.dev' denied request: at most 60 s`: "",
	} {
		for _, name := range []string{limits, webhook} {
			if got := RefusedBy(errors.New(says), name, "at most", "60 s"); got != (name == by) {
				t.Errorf("by %s: %t of %s", name, got, says)
			}
			if RefusedBy(errors.New(says), name, "at most", "61 s") {
				t.Errorf("by %s in other words: %s", name, says)
			}
		}
	}
	if RefusedBy(nil, limits) {
		t.Error("what is let through")
	}
}
