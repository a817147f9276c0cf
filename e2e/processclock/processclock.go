// Package processclock moves the clock of one process, of a program that knows nothing of that.
//
// A program that is linked statically, as all of ours are, preloads no library (libfaketime). A time namespace moves only the monotonic clocks, and none of a process that is in it already. The
// machine's clock is everybody's. But a program reads the time by a function in a page that the kernel maps into each process (vdso(7)), and that page becomes the process's own when it is written
// to, as a debugger does for a breakpoint. So we put a function of ours in its place, as Chaos Mesh's TimeChaos does: it asks the kernel, and adds what stands beside it in the page.
//
// What a moved clock does not move: sleeps and deadlines that the kernel keeps, and what others than Go ask for, such as gettimeofday. A process that is started next has the machine's clock.
package processclock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hook is clock_gettime(clockid, timespec) for amd64, with 16 bytes after it: how many nanoseconds are added to CLOCK_REALTIME (0), and to CLOCK_MONOTONIC (1).
var hook = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, //             mov  $228, %eax        clock_gettime
	0x0f, 0x05, //                               syscall
	0x83, 0xff, 0x01, //                         cmp  $1, %edi
	0x77, 0x2e, //                               ja   out               another clock
	0x48, 0x8d, 0x0d, 0x2d, 0x00, 0x00, 0x00, // lea  table(%rip), %rcx
	0x89, 0xff, //                               mov  %edi, %edi
	0x48, 0x8b, 0x04, 0xf9, //                   mov  (%rcx,%rdi,8), %rax
	0x48, 0x03, 0x46, 0x08, //                   add  8(%rsi), %rax     with the timespec's nanoseconds
	0x48, 0x99, //                               cqto
	0x41, 0xb8, 0x00, 0xca, 0x9a, 0x3b, //       mov  $1000000000, %r8d
	0x49, 0xf7, 0xf8, //                         idiv %r8
	0x48, 0x85, 0xd2, //                         test %rdx, %rdx
	0x79, 0x06, //                               jns  store
	0x4c, 0x01, 0xc2, //                         add  %r8, %rdx
	0x48, 0xff, 0xc8, //                         dec  %rax
	0x48, 0x01, 0x06, //                  store: add  %rax, (%rsi)
	0x48, 0x89, 0x56, 0x08, //                   mov  %rdx, 8(%rsi)
	0x31, 0xc0, //                          out: xor  %eax, %eax
	0xc3,             //                         ret
	0x0f, 0x1f, 0x00, //                         nopl (%rax)            table is aligned, so that a number in it is written at once
}

// room is how many bytes at the end of the page are ours: they are behind all that the kernel puts there.
const room = 128

// jumpSize is how long the jump from the kernel's function to ours is.
const jumpSize = 5

// Clock is that of one process.
type Clock struct {
	mem   string // the file of the process's memory
	table int64  // where in it the nanoseconds stand
}

// Of returns the clock of a process, which is right until it is set. The process stands still for a moment; it is not to be stopped (SIGSTOP) by somebody else meanwhile.
func Of(pid int) (*Clock, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("move the clock of a process: nobody has written that for %s", runtime.GOARCH)
	}
	c, err := of(pid)
	if err != nil {
		return nil, fmt.Errorf("move the clock of process %d: %w", pid, err)
	}
	return c, nil
}

func of(pid int) (*Clock, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	begin, end, err := page(dir)
	for since := time.Now(); errors.Is(err, errNoFunction) && !Ended(pid) && time.Since(since) < mappedIn; begin, end, err = page(dir) {
		time.Sleep(pollStopped)
	}
	if err != nil {
		return nil, err
	}
	c := &Clock{mem: dir + "/mem", table: end - room + int64(len(hook))}
	mem, err := os.OpenFile(c.mem, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	image := make([]byte, end-begin)
	if _, err := mem.ReadAt(image, begin); err != nil {
		return nil, fmt.Errorf("read what the kernel has mapped: %w", err)
	}
	entry, err := function(image)
	if err != nil {
		return nil, err
	}
	ours, jump := image[len(image)-room:], jumpTo(end-room, begin+entry)
	switch there := bytes.HasPrefix(ours, hook); {
	case there && bytes.HasPrefix(image[entry:], jump):
		return c, nil
	case there: // whoever wrote it could not have it called
	case len(bytes.Trim(ours, "\x00")) > 0:
		return nil, errors.New("the end of the page is in use")
	default:
		if _, err := mem.WriteAt(hook, end-room); err != nil {
			return nil, fmt.Errorf("write the function: %w", err)
		}
	}
	return c, stoppedOutside(pid, begin+entry, begin+entry+jumpSize, func() error {
		_, err := mem.WriteAt(jump, begin+entry)
		return err
	})
}

// jumpTo is the instruction at one address that goes on at another.
func jumpTo(to, at int64) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(to-(at+jumpSize))) //nolint:gosec // within a page or two, and two's complement
}

// Set has the process's clocks be ahead of the machine's: that which tells the time of day, and the monotonic one, by which timers run. The latter is never to be set back.
func (c *Clock) Set(wall, monotonic time.Duration) error {
	mem, err := os.OpenFile(c.mem, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("move the clock of a process: %w", err)
	}
	defer mem.Close()
	for i, by := range []time.Duration{wall, monotonic} {
		if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(by)), c.table+8*int64(i)); err != nil { //nolint:gosec // two's complement is what the function takes
			return fmt.Errorf("move the clock of a process: %w", err)
		}
	}
	return nil
}

// Ended reports whether a process has ended, or is about to: whether the kernel has taken its memory from it.
func Ended(pid int) bool {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	return len(maps) == 0 || err != nil
}

// page is where the kernel has mapped its functions into a process.
func page(dir string) (begin, end int64, err error) {
	maps, err := os.ReadFile(dir + "/maps")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			_, err := fmt.Sscanf(line, "%x-%x", &begin, &end)
			return begin, end, err
		}
	}
	return 0, 0, errNoFunction
}

// errNoFunction is of a process that has no function of the kernel's. One that was just started has none yet.
var errNoFunction = errors.New("the kernel has mapped no function into it")

// mappedIn is how long it may take until a process that was just started has one: on a machine that has other things to do the program may not be mapped for a while. The wait is over when the process ends.
const mappedIn = 30 * time.Second

// function is where in the page that one begins by which the time is read.
func function(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return int64(s.Value), nil //nolint:gosec // within the page
		}
	}
	return 0, errors.New("the kernel has no function for the time")
}

// stoppedIn is how long it may take until all threads of a process that has not ended are stopped, and pollStopped how often it is looked whether they are. Where one of them is where it must not be, they go on for longer
// each time, up to mostPause, before they are stopped again, tries times: on a machine that has other things to do it may take a while until that one gets on at all.
const (
	stoppedIn   = 30 * time.Second
	pollStopped = time.Millisecond
	mostPause   = 100 * time.Millisecond
	tries       = 50
)

// stoppedOutside does something while all threads of a process are stopped, and none is to go on behind the first of some instructions, now or when a handler of a signal returns. A thread that is
// further on in the function has passed them, and nothing in it leads back.
//
// The threads are stopped by SIGSTOP, not by ptrace(2): the kernel says as well of them that they are, where they are and which signals they block, and nobody has to wait in their parent's stead.
func stoppedOutside(pid int, begin, end int64, do func() error) error {
	pause := pollStopped
	for range tries {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		outside, err := allOutside(pid, begin, end)
		if err == nil && outside {
			err = do()
		}
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil || outside {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, mostPause)
	}
	return errors.New("a thread is always where the time is read, or handles a signal")
}

// allOutside waits until all threads of a process that was told to stop have, and reports whether none of them is behind the first of some instructions.
func allOutside(pid int, begin, end int64) (bool, error) {
	for deadline := time.Now().Add(stoppedIn); time.Now().Before(deadline); time.Sleep(pollStopped) {
		stopped, outside, err := look(pid, begin, end)
		if err != nil || stopped {
			return outside, err
		}
		if Ended(pid) {
			return false, errors.New("it has ended")
		}
	}
	return false, errors.New("its threads do not stop")
}

// look reports whether all threads of a process are stopped, and if so, whether none of them is behind the first of some instructions.
func look(pid int, begin, end int64) (stopped, outside bool, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		return false, false, err
	}
	outside = true
	for _, t := range threads {
		text, err := os.ReadFile(t + "/status")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has just ended, as it may before it stops
			return false, false, nil
		}
		if err != nil {
			return false, false, err
		}
		is, handles := parseStatus(string(text))
		if !is { // also one that sleeps: it may go on by itself before it is told to stop
			return false, false, nil
		}
		outside = outside && !handles
	}
	for _, t := range threads { // now that none runs, and none can make another
		text, err := os.ReadFile(t + "/syscall")
		if err != nil {
			return false, false, err
		}
		at, known := counter(string(text))
		outside = outside && known && (at <= begin || at >= end)
	}
	return true, outside, nil
}

// parseStatus says by a thread's status (proc(5)) whether it is stopped, and whether it may be handling a signal, after which it goes on wherever it was. While Go handles one it blocks all
// (runtime/os_linux.go, setsig, go1.26); at other times a thread of it never blocks those that are its own fault, such as SIGSEGV, also not that which waits for others (runtime/signal_unix.go, ensureSigM).
func parseStatus(text string) (stopped, handles bool) {
	var blocked, caught uint64
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch key {
		case "State":
			stopped = strings.HasPrefix(value, "T ")
		case "SigBlk":
			blocked, _ = strconv.ParseUint(value, 16, 64)
		case "SigCgt":
			caught, _ = strconv.ParseUint(value, 16, 64)
		}
	}
	return stopped, caught != 0 && blocked&caught == caught
}

// counter is a thread's program counter, by /proc/PID/task/TID/syscall (proc(5)), if it does not run.
func counter(text string) (at int64, still bool) {
	fields := strings.Fields(text)
	if len(fields) < 3 { // running
		return 0, false
	}
	at, err := strconv.ParseInt(strings.TrimPrefix(fields[len(fields)-1], "0x"), 16, 64)
	return at, err == nil
}
