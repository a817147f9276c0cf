package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// loadModules loads those of the initramfs, each with the parameters that its name has.
func loadModules(parameters map[string]string) error {
	modules, err := filepath.Glob("/modules/*") // sorted by the numbers in front of their names
	if err != nil {
		return err
	}
	for _, module := range modules {
		_, file, _ := strings.Cut(filepath.Base(module), "-")
		name, _, _ := strings.Cut(file, ".")
		if err := load(module, parameters[name]); err != nil {
			return fmt.Errorf("loading %s: %w", module, err)
		}
	}
	return nil
}

func load(module, parameters string) error {
	file, err := os.Open(module)
	if err != nil {
		return err
	}
	defer file.Close()
	flags := 0
	if !strings.HasSuffix(module, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	return unix.FinitModule(int(file.Fd()), parameters, flags)
}
