// Package guesttest reports tests that ran in a virtual machine as tests of this machine's, each under its own name.
package guesttest
