// Package suite tests policies: a PolicySuite, a YAML file beside the policies, names what somebody does to an object and what must come
// of it. The cases are judged by package review's Engine, and hence by the webhook's own handlers.
//
// A suite that asserts nothing is an error, as is a word that it does not know: a test must be able to fail.
//
//	load.go    files and folders become Suites; decode.go: strictly, with file and line
//	world.go   a suite's policies, state and manifests; object.go: those that it names or holds itself
//	run.go     each case is judged; check.go: by what it expects; path.go: fields of a pod by their path
//	block.go   what happened as a then to paste
//	write.go   the report as a table, JUnit, JSON
package suite
