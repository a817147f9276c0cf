package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"sync"
	"time"
)

// Balancer passes connections on to servers of loopback in turn; TLS goes through. A server that refuses connections is passed over.
type Balancer struct {
	listener net.Listener
	port     string

	mu      sync.Mutex
	targets []string
	next    int
	open    map[*net.TCPConn]chan struct{}
	counts  map[string]int // connections, by target
	held    chan struct{}  // closed when what is held may go on; nil: nothing is
	delay   time.Duration
}

// NewBalancer returns one that listens on loopback until it is closed, and has no targets yet.
func NewBalancer() (*Balancer, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to pass on: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	b := &Balancer{listener: l, port: port, open: map[*net.TCPConn]chan struct{}{}, counts: map[string]int{}}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(from.(*net.TCPConn))
		}
	}()
	return b, nil
}

// URL is where it listens, by a name that the webhook's own certificate has.
func (b *Balancer) URL() string { return "https://localhost:" + b.port }

// Address is where it listens, by number, as certificates of API servers on loopback have it.
func (b *Balancer) Address() string { return "https://127.0.0.1:" + b.port }

// To makes the servers of these URLs the targets of connections from now on.
func (b *Balancer) To(urls ...string) error {
	var targets []string
	for _, u := range urls {
		at, err := url.Parse(u)
		if err != nil {
			return fmt.Errorf("pass connections on: %w", err)
		}
		targets = append(targets, net.JoinHostPort("127.0.0.1", at.Port()))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = targets
	return nil
}

// Hold lets nothing through in either direction, and ends nothing, until Release: what a partition is to both ends.
func (b *Balancer) Hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = make(chan struct{})
	}
}

// Release lets through what was held, and all that follows.
func (b *Balancer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		close(b.held)
		b.held = nil
	}
}

// Delay has each piece of what is sent wait for so long.
func (b *Balancer) Delay(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = d
}

// Cut ends all connections and returns when the other ends have given them up, so that the next call makes a new one. No call may be under way.
func (b *Balancer) Cut() {
	b.mu.Lock()
	var all []chan struct{}
	for c, ended := range b.open {
		_ = c.CloseWrite()
		all = append(all, ended)
	}
	b.mu.Unlock()
	for _, ended := range all {
		<-ended
	}
}

// Connections is how many there were to each target.
func (b *Balancer) Connections() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}

// Close listens no more, and ends all connections at once.
func (b *Balancer) Close() error {
	b.Release()
	err := b.listener.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		_ = c.Close()
	}
	return err
}

func (b *Balancer) dial() (*net.TCPConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := errors.New("no target")
	for range b.targets {
		target := b.targets[b.next%len(b.targets)]
		b.next++
		var c net.Conn
		if c, err = net.Dial("tcp", target); err == nil {
			b.counts[target]++
			return c.(*net.TCPConn), nil
		}
	}
	return nil, err
}

func (b *Balancer) pass(from *net.TCPConn) {
	defer func() { _ = from.Close() }()
	b.wait()
	to, err := b.dial()
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	ended := make(chan struct{})
	b.mu.Lock()
	b.open[from] = ended
	b.mu.Unlock()
	go func() {
		b.copy(from, to)
		_ = from.CloseWrite()
	}()
	b.copy(to, from)
	b.mu.Lock()
	delete(b.open, from)
	b.mu.Unlock()
	close(ended)
}

// copy is io.Copy for a wire.
func (b *Balancer) copy(to io.Writer, from io.Reader) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		b.wait()
		if _, failed := to.Write(piece[:n]); failed != nil || err != nil {
			return
		}
	}
}

// wait returns when what has come may be sent on.
func (b *Balancer) wait() {
	b.mu.Lock()
	held, delay := b.held, b.delay
	b.mu.Unlock()
	if held != nil {
		<-held
	}
	if delay > 0 {
		time.Sleep(delay)
	}
}
