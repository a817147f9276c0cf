// Command writer appends ten lines a second to a file, each of who writes it. Whoever reads the file sees who wrote when.
//
//	writer FILE NAME
package main

import (
	"errors"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want a file and a name")
	}
	file, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_SYNC, 0o644)
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	defer file.Close()
	for ticker := time.NewTicker(100 * time.Millisecond); ; <-ticker.C {
		if _, err := fmt.Fprintln(file, args[1]); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
}
