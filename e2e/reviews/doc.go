// Package reviews asks webhooks what the API server would ask them, and has the bare webhook that benches compare others with (e2e/bench/bare).
package reviews
