package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Until the signal connections are kept; from then on every response ends its own.
func TestDrainEndsConnections(t *testing.T) {
	t.Parallel()
	d := newDrain()
	ctx, signal := context.WithCancel(t.Context())
	later, cancel := d.after(ctx, time.Hour)
	defer cancel()
	server := httptest.NewServer(d.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/signal" {
			signal()
			<-d.begun
		}
	})))
	defer server.Close()
	post := func(path string) *http.Response {
		t.Helper()
		r, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r
	}
	for _, step := range []struct {
		path string
		ends bool
	}{{"/", false}, {"/signal", false}, {"/", true}, {"/", true}} {
		if got := post(step.path).Close; got != step.ends {
			t.Errorf("%s: the connection ends: %v, want %v", step.path, got, step.ends)
		}
	}
	if later.Err() != nil {
		t.Error("it ended before its time")
	}
}

func TestDrainTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDrain()
		ctx, signal := context.WithCancel(t.Context())
		later, cancel := d.after(ctx, 5*time.Second)
		defer cancel()
		synctest.Wait()
		if d.hasBegun() || later.Err() != nil {
			t.Fatal("it began before the signal")
		}
		start := time.Now()
		signal()
		<-later.Done()
		if took := time.Since(start); !d.hasBegun() || took != 5*time.Second {
			t.Errorf("begun %v, ended after %s", d.hasBegun(), took)
		}
	})
}
