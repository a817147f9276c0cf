// Package explain says why a pod is ranked, spread, stopped and evicted as it is, what its cgroups hold, and whether it could be
// force-deleted now. It is pure: what is known goes in, an Explanation comes out, and Text prints it.
//
// It decides nothing itself. Which policies match, and what they would change or refuse, it asks of package defaulting, where need be
// of a copy of the pod or a policy with one thing taken away; whether a removal is safe, of package guard; how a container is
// stopped, of graceperiod; what files hold, of nodeenforcer/plan; who goes first, of nodeenforcer/eviction. So it can't say something
// else than what happens.
//
// What is not known is said to be unknown, and never taken for absent. A pod does not record whether a value was its author's choice
// or a policy's: of a pod that exists already both are named where both are possible.
package explain
