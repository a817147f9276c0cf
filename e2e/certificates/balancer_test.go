package certificates

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/url"
	"sync"
	"testing"
)

// balancer passes connections on to the replicas in turn, as their Service does; TLS goes through. A replica that refuses
// connections is passed over.
type balancer struct {
	url string

	mu      sync.Mutex
	targets []string
	next    int
	open    map[*net.TCPConn]chan struct{}
	counts  map[string]int // connections, by target
}

func newBalancer(tb testing.TB) *balancer {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	b := &balancer{url: "https://localhost:" + port, open: map[*net.TCPConn]chan struct{}{}, counts: map[string]int{}}
	go func() { // until the process ends: it is shared by all tests
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(from.(*net.TCPConn))
		}
	}()
	return b
}

// to makes these servers the targets.
func (b *balancer) to(tb testing.TB, urls ...string) {
	tb.Helper()
	var targets []string
	for _, u := range urls {
		at, err := url.Parse(u)
		if err != nil {
			tb.Fatal(err)
		}
		targets = append(targets, "127.0.0.1:"+at.Port())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = targets
}

func (b *balancer) dial() (*net.TCPConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := errors.New("no replica")
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

func (b *balancer) pass(from *net.TCPConn) {
	defer from.Close()
	to, err := b.dial()
	if err != nil {
		return
	}
	defer to.Close()
	ended := make(chan struct{})
	b.mu.Lock()
	b.open[from] = ended
	b.mu.Unlock()
	go func() {
		_, _ = io.Copy(from, to)
		_ = from.CloseWrite()
	}()
	_, _ = io.Copy(to, from)
	b.mu.Lock()
	delete(b.open, from)
	b.mu.Unlock()
	close(ended)
}

// cut ends all connections and returns when the API server has given them up, so that its next call makes a new one. No call
// may be under way.
func (b *balancer) cut() {
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

// connections is how many there were to each target.
func (b *balancer) connections() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}
