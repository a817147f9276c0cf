// Package kernel tests what talks to the kernel against a real one: the cgroup trees and the PSI trigger. Its binary is made to
// be carried into a virtual machine and does not run elsewhere: TestV2 and TestPressure want a machine of their own with cgroup v2
// at /sys/fs/cgroup and no systemd (e2e/vm makes one), TestSystemd one that systemd has booted (e2e/vm), TestWatchdog one with a hardware
// watchdog, which ends it (e2e/vm as well).
package kernel
