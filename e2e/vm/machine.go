package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

const (
	loopback = "127.0.0.1"
	// guestAddress is the guest's own in QEMU's user-mode network; each guest has a network of its own.
	guestAddress = "10.0.2.15"
	// guestAPIServer is where the API server is for a guest.
	guestAPIServer     = guestAPIServerHost + ":6443"
	guestAPIServerHost = "10.0.2.100"
	// Peer is where a guest finds what Options.Reaches names.
	Peer = "10.0.2.101"
	// Gateway is where to a guest the host's connections come from.
	Gateway     = "10.0.2.2"
	shellPort   = 10022
	kubeletPort = 10250
)

// RawDiskDevice is Options.RawDisk in the guest: the disk after those of image and seed.
const RawDiskDevice = "/dev/vdc"

// machineOptions describe a guest.
type machineOptions struct {
	name     string
	dir      string // of its files
	console  string // the log of the guest's serial line; default: in dir
	image    image
	keepDisk bool // write to the image; otherwise to a file that nobody else sees, and that is gone with QEMU
	seed     seed
	uuid     string // empty: none
	rawDisk  string // the file of a disk without a file system; empty: there is none
	// imageDiskMiB is the size of another disk; 0: there is none.
	imageDiskMiB int
	watchdog     *Watchdog // nil: there is none; otherwise the image has the kernel with its driver
	memoryMiB    int
	cpus         int
	numaNodes    int      // of memory, with the same part of it and of the CPUs each; 0: the machine has no such nodes
	forwards     []string // more of QEMU's user network: hostfwd=, guestfwd=
	more         []string // devices
}

// machine is a running guest.
type machine struct {
	options machineOptions
	process *cluster.Process
	shell   shell
	told    *events // nil without a watchdog
}

// startMachine starts a guest, and does not wait for it.
func startMachine(ctx context.Context, o machineOptions) (*machine, error) {
	if o.console == "" {
		o.console = filepath.Join(o.dir, "console.log")
	}
	port, err := cluster.FreePort(loopback)
	if err != nil {
		return nil, err
	}
	m := &machine{options: o, shell: shell{address: net.JoinHostPort(loopback, strconv.Itoa(port)), token: rand.Text()}}
	m.options.seed.token = m.shell.token
	m.options.forwards = append(o.forwards, fmt.Sprintf("hostfwd=tcp:%s:%d-%s:%d", loopback, port, guestAddress, shellPort))
	if err := m.options.seed.write(m.seedFile()); err != nil {
		return nil, err
	}
	if o.imageDiskMiB > 0 {
		if err := emptyDisk(ctx, m.imageDiskFile(), o.imageDiskMiB); err != nil {
			return nil, err
		}
		m.options.more = append(m.options.more, "-drive", "file="+m.imageDiskFile()+",format=raw,if=virtio,cache=unsafe")
	}
	if o.watchdog != nil {
		if m.told, err = listenEvents(filepath.Join(o.dir, "events")); err != nil {
			return nil, err
		}
		m.options.more = append(m.options.more, append(watchdogDevice, m.told.arguments()...)...)
	}
	if m.process, err = cluster.StartAhead("guest "+o.name, m.logFile(), qemu, m.options.arguments(m.seedFile())...); err != nil {
		return nil, errors.Join(err, m.told.end())
	}
	return m, nil
}

// arguments are QEMU's.
func (o machineOptions) arguments(seedFile string) []string {
	snapshot := "on"
	if o.keepDisk {
		snapshot = "off"
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	network := append([]string{"user", "id=net", "restrict=on", "ipv6=off", "net=10.0.2.0/24", "host=" + Gateway}, o.forwards...)
	devices := append([]string{
		"-name", o.name,
		"-drive", "file=" + o.image.disk() + ",format=raw,if=virtio,cache=unsafe,snapshot=" + snapshot,
		"-drive", "file=" + seedFile + ",format=raw,if=virtio,readonly=on",
	}, append(o.numa(), o.more...)...)
	if o.rawDisk != "" {
		devices = append(devices, "-drive", "file="+o.rawDisk+",format=raw,if=virtio,cache=writethrough")
	}
	if o.uuid != "" {
		devices = append(devices, "-uuid", o.uuid)
	}
	boot := []string{"net.ifnames=0", fmt.Sprintf("systemd.machine_id=%x", id)}
	if o.watchdog != nil {
		boot = append(boot, o.watchdog.boot()...)
	}
	return hardware{
		kernel: o.image.kernel(), initramfs: o.image.initramfs(), console: o.console, threads: "multi", memoryMiB: o.memoryMiB, cpus: o.cpus, boot: boot,
	}.arguments(append(devices,
		"-netdev", strings.Join(network, ","), "-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
	)...)
}

// numa are the nodes of memory.
func (o machineOptions) numa() (args []string) {
	for i := range o.numaNodes {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", i, o.memoryMiB/o.numaNodes),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=memory%d,cpus=%d-%d", i, i, i*o.cpus/o.numaNodes, (i+1)*o.cpus/o.numaNodes-1))
	}
	return args
}

// emptyDisk makes a file system in a file; only what is written takes room.
func emptyDisk(ctx context.Context, file string, mib int) error {
	if err := command(ctx, "/", "truncate", fmt.Sprintf("--size=%dM", mib), file); err != nil {
		return err
	}
	return command(ctx, "/", "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", file)
}

// apiServerForward forwards guestAPIServer to a port of the host's loopback.
func apiServerForward(port string) string { return forward(guestAPIServer, loopback, port) }

// forward leads from an address that the guest sees to one of the host's: for each connection QEMU runs a program
// whose standard input and output it is. A socket instead would serve one connection only.
func forward(from, host, port string) string {
	return fmt.Sprintf("guestfwd=tcp:%s-cmd:socat - TCP4:%s:%s", from, host, port)
}

func (m *machine) seedFile() string      { return filepath.Join(m.options.dir, "seed.tar") }
func (m *machine) imageDiskFile() string { return filepath.Join(m.options.dir, "images.ext4") }
func (m *machine) logFile() string       { return filepath.Join(m.options.dir, "qemu.log") }

// explain adds the end of the console to an error.
func (m *machine) explain(err error) error {
	text, _ := os.ReadFile(m.options.console)
	return fmt.Errorf("%w; the end of the guest's console:\n%s", err, cluster.Tail(text, 20))
}

// stop ends the guest as a power cut does, and removes its files but the console.
func (m *machine) stop() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.process.Stop(), m.told.end(), os.RemoveAll(m.seedFile()), os.RemoveAll(m.imageDiskFile()), os.RemoveAll(m.logFile()))
}

const qemu = "qemu-system-x86_64"

// hardware is what both kinds of machines have.
type hardware struct {
	kernel, initramfs string
	console           string // the file for what the kernel says
	// threads is how the processors are emulated: in one thread ("single"), or in one each ("multi").
	threads         string
	memoryMiB, cpus int
	boot            []string // more for the kernel's command line
}

// arguments are QEMU's: tcg is emulation in software, on every machine alike. Nothing that boots slowly is there, and a machine that
// panics or restarts ends.
func (h hardware) arguments(more ...string) []string {
	boot := append([]string{"console=ttyS0", "quiet", "panic=-1", "psi=1", "mitigations=off", "nokaslr", "audit=0", "apparmor=0"}, h.boot...)
	return append([]string{
		"-machine", "pc,vmport=off", "-accel", "tcg,tb-size=512,thread=" + h.threads, "-cpu", "max",
		"-smp", strconv.Itoa(h.cpus), "-m", strconv.Itoa(h.memoryMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-rtc", "base=utc", "-serial", "file:" + h.console,
		"-kernel", h.kernel, "-initrd", h.initramfs, "-append", strings.Join(boot, " "),
	}, more...)
}
