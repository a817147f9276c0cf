package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
)

// events are what QEMU tells of a machine by its protocol QMP (docs/interop/qmp-spec.txt): it connects to a socket of ours as it starts,
// so that no event comes before somebody listens.
type events struct {
	socket net.Listener
	ended  chan struct{} // closed once the connection is over; the others are set before
	names  []string
	err    error
}

func listenEvents(path string) (*events, error) {
	socket, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening to QEMU's events: %w", err)
	}
	e := &events{socket: socket, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		e.err = e.read()
	}()
	return e, nil
}

// arguments are QEMU's.
func (e *events) arguments() []string { return []string{"-qmp", "unix:" + e.socket.Addr().String()} }

// end is called once QEMU has ended, or did not start, and may be called again. All that it told is there then.
func (e *events) end() error {
	if e == nil {
		return nil
	}
	e.socket.Close()
	<-e.ended
	return e.err
}

// has reports whether there was an event of the name.
func (e *events) has(name string) bool { return e != nil && slices.Contains(e.names, name) }

// read takes events until the connection ends. The greeting and the answer to our command are messages that are no events.
func (e *events) read() error {
	conn, err := e.socket.Accept()
	if errors.Is(err, net.ErrClosed) {
		return nil // QEMU says itself why it did not come so far
	}
	if err != nil {
		return fmt.Errorf("listening to QEMU's events: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, `{"execute": "qmp_capabilities"}`); err != nil { // events come after this only
		return fmt.Errorf("asking for QEMU's events: %w", err)
	}
	for messages := json.NewDecoder(conn); ; {
		var message struct{ Event string }
		if err := messages.Decode(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading QEMU's events: %w", err)
		}
		if message.Event != "" {
			e.names = append(e.names, message.Event)
		}
	}
}
