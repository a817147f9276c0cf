// Package webhook answers the API server's AdmissionReviews. intake.go reads them within bounds; a handler decodes the object, looks up the facts that the
// decision depends on (Lookup), lets package defaulting or guard decide, and answer.go makes a response of the decision. It decides nothing itself.
//
// Mutation and /validate-pods fail open: where a fact is missing (informers not synced, a namespace that can't be read), the pod is allowed, and a warning
// says what was not done. Removals fail closed.
//
// The leader alone runs the controllers: it arms the removal guard (arming.go), writes allowed actors into match conditions (actors.go), compiles limits for
// the API server (limits.go), and reports the status of policies and exceptions (status.go, exceptionstatus.go).
package webhook
