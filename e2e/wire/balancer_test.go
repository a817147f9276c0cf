package wire

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// named is a server that answers each line with its name, and its URL.
func named(t *testing.T, name string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					_, _ = c.Write([]byte(name + "\n"))
				}
			}()
		}
	}()
	return "https://" + l.Addr().String()
}

// caller is a connection through a balancer.
type caller struct {
	net.Conn
	answers *bufio.Reader
}

func call(t *testing.T, b *Balancer) *caller {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(b.Address(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{c, bufio.NewReader(c)}
}

func (c *caller) ask(t *testing.T) {
	t.Helper()
	if _, err := c.Write([]byte("who\n")); err != nil {
		t.Fatal(err)
	}
}

func (c *caller) answer(t *testing.T, want string) {
	t.Helper()
	if got, err := c.answers.ReadString('\n'); err != nil || got != want+"\n" {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func newBalancer(t *testing.T, to ...string) *Balancer {
	t.Helper()
	b, err := NewBalancer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.To(to...); err != nil {
		t.Fatal(err)
	}
	return b
}

// What is sent while it holds comes once it releases, to whoever was connected, and a connection that was made meanwhile as well.
func TestHold(t *testing.T) {
	b := newBalancer(t, named(t, "a"))
	before := call(t, b)
	before.ask(t)
	before.answer(t, "a")
	b.Hold()
	before.ask(t)
	during := call(t, b)
	during.ask(t)
	for _, c := range []*caller{before, during} {
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.answers.ReadString('\n'); err == nil {
			t.Errorf("it holds, and %q came", got)
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	b.Release()
	before.answer(t, "a")
	during.answer(t, "a")
}

func TestCut(t *testing.T) {
	b := newBalancer(t, named(t, "a"))
	c := call(t, b)
	c.ask(t)
	c.answer(t, "a")
	ended := make(chan error, 1)
	go func() {
		_, err := c.answers.ReadString('\n')
		ended <- err
		c.Close() // as who is told that there will be no more
	}()
	b.Cut()
	if err := <-ended; err == nil {
		t.Error("the connection goes on")
	}
	if n := b.Connections(); len(n) != 1 {
		t.Errorf("connections: %v", n)
	}
}
