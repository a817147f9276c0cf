package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

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
