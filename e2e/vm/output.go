package vm

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/podgrace/podgrace/e2e/vm/task"
)

// output passes on what the guest writes, up to the marker's line.
type output struct {
	to     io.Writer
	marker []byte
	line   []byte // not complete yet
	code   int
	exited bool
}

func newOutput(to io.Writer, word string) *output {
	return &output{to: to, marker: []byte(task.Marker + word + " "), code: -1}
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.line = append(o.line, text...)
	for {
		end := bytes.IndexByte(o.line, '\n')
		if end < 0 {
			return len(text), nil
		}
		line := o.line[:end+1]
		o.line = o.line[end+1:]
		if o.exited {
			continue
		}
		if err := o.take(line); err != nil {
			return 0, err
		}
	}
}

// take passes a line on. The marker comes after a newline of its own, since the binary's last line may have none; that newline is
// the init's and makes one line more at most.
func (o *output) take(line []byte) error {
	if rest, ok := bytes.CutPrefix(line, o.marker); ok {
		code, err := strconv.Atoi(string(bytes.TrimSpace(rest)))
		if err != nil {
			return fmt.Errorf("reading the guest's exit code: %w", err)
		}
		o.code, o.exited = code, true
		return nil
	}
	_, err := o.to.Write(line)
	return err
}
