// Package guest runs a test binary in a bare virtual machine, for what this machine's kernel can't give: cgroup v2 with all its
// controllers, and PSI. The machine is QEMU under software emulation, so it runs anywhere; its kernel is Debian's for clouds; its
// only programs are e2e/guest/init and the test binary. It boots in seconds and leaves nothing behind.
//
// The kernel speaks on the first serial port, which is shown only when something fails, the test binary on the second one, so
// that neither disturbs the other. The init ends the output with a line that has the exit code and that only it can know.
//
// Package kernel, below this one, has the tests that are run there. e2e/node/guest runs them, and e2e/node/vm those that want systemd.
package guest
