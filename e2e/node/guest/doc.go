// Package guest runs the tests of e2e/guest/kernel in a virtual machine and reports each as its own.
package guest
