// Package enforcement says what becomes on a node of what a PodPolicy's node section asks for: how admission's annotation is read (annotation.go), which NodePolicy a node has
// (nodepolicy.go), what that leaves of each field (outcome.go), and on how many nodes of a cluster (reach.go). It is pure. The node enforcer plans by it, and the webhook and
// the offline commands tell by it what the plan will be.
package enforcement

import "github.com/podgrace/podgrace/internal/program/version"

// NodeEnforcer is the node enforcer's name at the API server: the user agent and the field manager of what it writes, and the reporting controller of its Events.
const NodeEnforcer = version.NodeEnforcer
