// Package cgrouptest has what tests of cgroups share: a Fake tree in memory, which can be made to fail as the real one does, and
// the Conformance suite, which every Tree passes. Harnesses for the suite are here too, for a tree of ordinary files and for the
// trees of a real kernel, so that one test binary can be run wherever there is such a kernel.
package cgrouptest
