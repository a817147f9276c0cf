// Package selffence has a machine reset itself when it is cut off: it feeds the hardware watchdog only while the Node's Lease is known to have been renewed a short while ago.
// The fencer, which sees no renewal either, reckons from the same Lease when the machine must have been reset (fencing, evidence WatchdogExpired).
//
// What the reckoning rests on, with D the patience and W the timeout of the watchdog:
//
//   - A renewal counts from when the Lease was asked for that did not have it yet (Evidence): it was stored after that, by the API server's word, whose reads are of now
//     (a GET without resourceVersion, k8s.io/apiserver pkg/storage, 1.36). So whoever sees the last renewal, sees it D or less before the last decision to feed.
//   - Between decision and feeding the process may be held up, for less than W: a machine that was not fed for W is gone. So the last feeding is at most D+W after the last renewal.
//   - A process that ends without disarming the watchdog has the kernel feed it once more (drivers/watchdog/watchdog_dev.c watchdog_release, Linux 6.1), at most W later. Another
//     process opens the watchdog, which feeds it, only by evidence of its own.
//   - So the machine is gone D+3W after the last renewal, by its own clock: CLOCK_BOOTTIME, which goes on while the machine sleeps.
//   - The annotation podgrace.dev/self-fence says off, by the API server's word, before the watchdog is opened and before it is disarmed. As long as it says otherwise for this boot,
//     the watchdog is armed as it says.
//
// A watchdog that is paused with its machine, as that of a virtual machine is, breaks this: the machine goes on when it is continued, for up to W. The annotation says so, and the
// fencer takes no evidence from it unless told to. A watchdog in software is not used: what stops the kernel stops it.
package selffence
