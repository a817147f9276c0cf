package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// DialSystemd connects by a unix socket: the system bus's (/run/dbus/system_bus_socket) or systemd's own
// (/run/systemd/private, root only, works without a bus daemon), wherever the host's are mounted. systemd's own is told by its
// name, private.
func DialSystemd(socket string) Dialer {
	return func(ctx context.Context) (Bus, error) {
		conn, err := dbus.NewConnection(func() (*godbus.Conn, error) { return dialBus(ctx, socket) })
		if err != nil {
			return nil, fmt.Errorf("dialing %s: %w", socket, err)
		}
		return conn, nil
	}
}

// dialBus makes one connection, which is bounded by ctx only until it stands. A peer that accepts and then says nothing would
// hold godbus for ever; the deadline is on the socket.
func dialBus(ctx context.Context, socket string) (*godbus.Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := handshake(raw, filepath.Base(socket) == "private")
	if !stop() && err == nil { // closed just now
		_ = conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return conn, nil
}

// handshake authenticates by user id (by name it would need a database of users) and, where there is a bus, says hello to it.
func handshake(raw net.Conn, private bool) (*godbus.Conn, error) {
	conn, err := godbus.NewConn(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && !private {
		err = conn.Hello()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Bus is a connection to systemd; *dbus.Conn is one.
type Bus interface {
	SetUnitPropertiesContext(ctx context.Context, unit string, runtime bool, properties ...dbus.Property) error
	Connected() bool
	Close()
}

// Dialer makes a connection, which outlives ctx.
type Dialer func(ctx context.Context) (Bus, error)

func (s *Systemd) set(ctx context.Context, cgroup, unit string, properties []dbus.Property) error {
	if len(properties) == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, busPatience)
	defer cancel()
	bus, err := s.connected(ctx)
	if err != nil {
		return err
	}
	err = bus.SetUnitPropertiesContext(ctx, unit, true, properties...)
	if err == nil {
		return nil
	}
	var answer godbus.Error
	if !errors.As(err, &answer) {
		s.drop(bus) // no answer: the connection is lost, or not to be trusted
		return fmt.Errorf("setting properties of %s: the connection to systemd failed, the next write makes a new one: %w", unit, err)
	}
	if answer.Name == noSuchUnit {
		return fmt.Errorf("setting properties of %s: %w", unit, ErrGone)
	}
	if _, gone := s.Read(cgroup); errors.Is(gone, ErrGone) {
		return gone
	}
	return fmt.Errorf("setting properties of %s: %w", unit, err)
}

// connected returns the connection, a new one where there is none that works.
func (s *Systemd) connected(ctx context.Context) (Bus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bus != nil && s.bus.Connected() {
		return s.bus, nil
	}
	if s.bus != nil {
		s.bus.Close()
		s.bus = nil
	}
	bus, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	s.bus = bus
	return bus, nil
}

// drop closes the connection if it is still this one; nil is any.
func (s *Systemd) drop(bus Bus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bus != nil && (bus == nil || s.bus == bus) {
		s.bus.Close()
		s.bus = nil
	}
}

// Close ends the connection.
func (s *Systemd) Close() { s.drop(nil) }

// busPatience bounds one call; systemd answers in milliseconds unless it is being re-executed.
const busPatience = 5 * time.Second

// noSuchUnit is systemd's word for a unit that is gone (systemd: src/libsystemd/sd-bus/bus-common-errors.h). A slice has none:
// systemd would load it and keep the properties for one that comes back, so the cgroup is asked again.
const noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"
