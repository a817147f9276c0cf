// Package guest runs the tests of e2e/vm/kernel in a virtual machine and reports each as its own.
package guest
