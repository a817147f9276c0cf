// Command hog is the workload of tests of memory pressure, and what their hooks run; see vmnode.HogImage.
//
//	hog eat [-ignore-sigterm] MIB MIB_PER_SECOND
//	hog touch FILE
//	hog sleep SECONDS
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
		return errors.New("want eat, touch or sleep, and arguments")
	}
	switch command, rest := args[0], args[1:]; command {
	case "eat":
		return eat(rest)
	case "touch":
		return os.WriteFile(rest[0], []byte(now()+"\n"), 0o644)
	case "sleep":
		seconds, err := strconv.ParseFloat(rest[0], 64)
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		return err
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
	total, err := strconv.ParseFloat(flags.Arg(0), 64)
	if err != nil {
		return fmt.Errorf("MIB: %w", err)
	}
	rate, err := strconv.ParseFloat(flags.Arg(1), 64)
	if err != nil {
		return fmt.Errorf("MIB_PER_SECOND: %w", err)
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	ticker := time.NewTicker(time.Second / stepsPerSecond)
	for has := 0.0; ; {
		if step := min(rate/stepsPerSecond, total-has); step > 0 {
			if err := take(int(step * (1 << 20))); err != nil {
				return err
			}
			has += step
			fmt.Printf("%s has %.1f MiB\n", now(), has)
		}
		select {
		case <-terms:
			fmt.Println(now(), "got SIGTERM")
			if !*ignore {
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

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }
