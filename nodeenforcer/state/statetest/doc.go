// Package statetest is the world that tests of the node enforcer share: a node in memory (Bed), a source that knows what it is told,
// a kubelet, a log. It knows neither what writes cgroups nor what evicts: the tests of both build upon it.
package statetest
