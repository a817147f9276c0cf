// Package confirm is how a person says knowingly what Podgrace refuses to assume: that a pod may run twice, or that a node
// is off. It shows what is known and what may happen, asks, and writes one annotation. It deletes nothing.
// In the same way it shows an exception from a policy's limits, asks, and grants it (exception.go).
//
// The pure part: PodFacts and NodeFacts go in, a judgement (pod.go, node.go) and a text (the same files, page.go, rights.go)
// come out. The edge: a Session (session.go) asks the person, a Client (client.go) reads and writes the cluster.
//
// What the annotations mean is decided elsewhere, by package guard, at each removal. A confirmation that this package
// should not have written is void there.
package confirm
