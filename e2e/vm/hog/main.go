// Command hog is the workload of tests of pressure on memory and disks, and what their hooks run; see vm.HogImage.
//
//	hog eat [-ignore-sigterm] MIB MIB_PER_SECOND
//	hog fill MIB MIB_PER_SECOND DIR
//	hog files NUMBER NUMBER_PER_SECOND DIR
//	hog threads NUMBER NUMBER_PER_SECOND
//	hog touch FILE [ONCE]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("want eat, fill, files, threads or touch, and arguments")
	}
	switch command, rest := args[0], args[1:]; command {
	case "eat":
		return eat(rest)
	case "fill":
		return inDir(rest, fill)
	case "files":
		return inDir(rest, files)
	case "threads":
		return threads(rest)
	case "touch":
		return touch(rest[0], rest[1:])
	default:
		return fmt.Errorf("no command %q", command)
	}
}

// stepsPerSecond is how often eat takes more.
const stepsPerSecond = 10

// eat takes memory until it has the total, then waits for SIGTERM. It says on standard output how much it has, and
// when SIGTERM came. With -ignore-sigterm it goes on as before.
func eat(args []string) error {
	flags := flag.NewFlagSet("eat", flag.ContinueOnError)
	ignore := flags.Bool("ignore-sigterm", false, "go on after SIGTERM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return grow(flags.Args(), *ignore, "MiB", func(mib float64) error { return take(int(mib * (1 << 20))) })
}

// grow takes more and more, by a total and how much a second, and then waits for SIGTERM.
func grow(args []string, ignore bool, unit string, more func(step float64) error) error {
	if len(args) < 2 {
		return errors.New("want a total and how much a second")
	}
	total, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return fmt.Errorf("the total: %w", err)
	}
	rate, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return fmt.Errorf("how much a second: %w", err)
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	ticker := time.NewTicker(time.Second / stepsPerSecond)
	for has := 0.0; ; {
		if step := min(rate/stepsPerSecond, total-has); step > 0 {
			if err := more(step); err != nil {
				return err
			}
			has += step
			fmt.Printf("%s has %.1f %s\n", now(), has, unit)
		}
		select {
		case <-terms:
			fmt.Println(now(), "got SIGTERM")
			if !ignore {
				return nil
			}
		case <-ticker.C:
		}
	}
}

// take maps memory and touches each page, so that it counts. Nothing gives it back.
func take(bytes int) error {
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("taking %d bytes: %w", bytes, err)
	}
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return nil
}

// inDir makes the folder that is the third argument, and has it filled.
func inDir(args []string, what func(args []string, dir string) error) error {
	if len(args) != 3 {
		return errors.New("want a total, how much a second and a folder")
	}
	if err := os.MkdirAll(args[2], 0o755); err != nil {
		return err
	}
	return what(args[:2], args[2])
}

// fill writes one file.
func fill(args []string, dir string) error {
	file, err := os.Create(filepath.Join(dir, "filled"))
	if err != nil {
		return err
	}
	defer file.Close()
	return grow(args, false, "MiB on disk", func(mib float64) error {
		if _, err := file.Write(make([]byte, int(mib*(1<<20)))); err != nil {
			return err
		}
		return file.Sync() // the blocks are taken now, and the pages of the file are no dirty memory
	})
}

// files makes empty files, each of which takes an inode. What is less than one is made with the next step.
func files(args []string, dir string) error {
	made, due := 0, 0.0
	return grow(args, false, "files", func(step float64) error {
		for due += step; float64(made)+0.5 < due; made++ {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(made)), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// threads starts threads that do nothing, each of which takes an id as a process does.
func threads(args []string) error {
	made, due := 0, 0.0
	return grow(args, false, "threads", func(step float64) error {
		for due += step; float64(made)+0.5 < due; made++ {
			go func() {
				runtime.LockOSThread()
				select {}
			}()
		}
		return nil
	})
}

// touch makes a file, once all of the others are there.
func touch(file string, once []string) error {
	for _, other := range once {
		for {
			_, err := os.Stat(other)
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return os.WriteFile(file, []byte(now()+"\n"), 0o644)
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
