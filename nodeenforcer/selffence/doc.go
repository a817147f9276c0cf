// Package selffence has a machine reset itself when it is cut off: it feeds the hardware watchdog only while the Node's Lease is known to have been renewed a short while ago.
// The fencer, which sees no renewal either, reckons from the same Lease when the machine must have been reset (fencing, evidence WatchdogExpired).
//
// What the reckoning rests on, with D the patience and W the timeout of the watchdog:
//
//   - A renewal counts from when the Lease was asked for that did not have it yet (Evidence): it was stored after that, by the API server's word, whose reads are of now
//     (a GET without resourceVersion, k8s.io/apiserver pkg/storage, 1.36). So whoever sees the last renewal, sees it D or less before the last decision to feed.
//   - Between decision and feeding the process may be held up, for less than W: a machine that was not fed for W is gone. So the last feeding is at most D+W after the last renewal.
//     Nothing bounds that before the watchdog is armed: one that was opened when the evidence was too old by then is disarmed again, and was never announced.
//   - A process that ends without disarming the watchdog has the kernel feed it once more (drivers/watchdog/watchdog_dev.c watchdog_release, Linux 6.1), at most W later. Another
//     process opens the watchdog, which feeds it, only by evidence of its own.
//   - W is when the machine is reset, and not when the watchdog first expires: some count down twice (stages).
//   - So the machine is gone D+3W after the last renewal, by its own clock: CLOCK_BOOTTIME, which goes on while the machine sleeps, and is slewed as CLOCK_MONOTONIC is. The fencer's may
//     be slewed the other way (fencing, resetAfter).
//   - The annotation podgrace.dev/self-fence says off, by the API server's word, before the watchdog is opened and before it is disarmed. As long as it says otherwise for this boot,
//     the watchdog is armed as it says. It names the UID of the Node, so that a Node which somebody recreates from what was saved of it says nothing.
//   - The fencer reads the Node before its Lease, and counts the silence until it asked for them. So the Lease has each renewal by which a watchdog was armed that the Node says is armed; and
//     where the silence is long enough the machine was gone before it was asked for, so that nothing it does can come between the two.
//
// What is assumed, and neither seen nor prevented:
//
//   - Nobody else feeds it. While this process has it open nobody can (watchdog_open: EBUSY). One that ends without disarming it leaves it to whoever opens it next: systemd does so, again and
//     again, with RuntimeWatchdogSec; and at shutdown, for RebootWatchdogSec (10 min by default), while it ends the processes that are left.
//   - What the kernel stops when it reboots (watchdog_stop_on_reboot) is stopped once all processes have ended. reboot -f ends none, and a driver that hangs then has them run on.
//   - A timeout above what the hardware can the kernel bridges by a thread of its own, which runs before all others (watchdog_ping_work): that is not late by more than the fencer's margin.
//   - The machine does not sleep. Drivers stop the watchdog then, and start it again: the machine goes on for up to W when it wakes, whenever that is.
//   - What the watchdog does is to reset the machine or to power it off, as firmware, hypervisor and driver were told.
//
// A watchdog that is paused with its machine, as that of a virtual machine is, breaks this as well: the machine goes on when it is continued, for up to W. The annotation says so, and the
// fencer takes no evidence from it unless told to. A watchdog in software is not used: what stops the kernel stops it.
package selffence
