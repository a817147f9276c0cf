// Package task is what a guest's init and the machine that starts it agree on. It is apart so that the init stays small.
package task

// File is where the init finds what to do, as JSON of Task.
const File = "/task.json"

// Program is where the init finds what to run.
const Program = "/program"

// Marker begins the line with the exit code; what follows is the task's word, a space, and the code.
const Marker = "podgrace-guest-exit "

// Task is what a guest does.
type Task struct {
	// Args of the program, its name excluded.
	Args []string
	// Word is known to the init only, so that no output of the program looks like its end.
	Word string
	// Parameters of the modules that the guest loads, as in modprobe.d(5), by the module's name.
	Parameters map[string]string
}
