package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// mount writes a pair as the kubelet mounts a Secret (pkg/volume/util/atomic_writer.go, 1.36.3): files are links through ..data,
// which is swapped in one step, and what it led to before is removed.
func mount(t *testing.T, dir, version string, certificate, key []byte) {
	t.Helper()
	at := filepath.Join(dir, "..v"+version)
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..v"+version, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	before, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if before != "" {
		os.RemoveAll(before)
	}
}

// logged is what controller-runtime logs. Its logger can be set once a process.
type logged struct {
	mu    sync.Mutex
	lines []string
}

var controllerRuntimeLog = sync.OnceValue(func() *logged {
	l := &logged{}
	ctrllog.SetLogger(funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{}))
	return l
})

// has reports whether a line has both parts.
func (l *logged) has(part, about string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, part) && strings.Contains(line, about) })
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// serves reports whether a new connection gets a certificate.
func serves(source Source, certificate []byte) bool {
	c, err := source.GetCertificate(&tls.ClientHelloInfo{})
	return err == nil && bytes.Equal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), certificate)
}

// A pair that is replaced is served; one that does not fit is told, and the one before goes on serving.
func TestFilesAreReadAgain(t *testing.T) {
	log := controllerRuntimeLog()
	ca := newTestPair(t, epoch)
	first, second, third := leafOf(t, ca), leafOf(t, ca), leafOf(t, ca)
	dir := t.TempDir()
	mount(t, dir, "1", first[0], first[1])
	source, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	if !serves(source, first[0]) || source.NeedLeaderElection() {
		t.Error("the first pair is not served, or not by every replica")
	}
	eventually(t, "the watch", func() bool { return log.has("Starting certificate poll+watcher", dir) })
	mount(t, dir, "2", second[0], second[1])
	eventually(t, "the second pair", func() bool { return serves(source, second[0]) })
	mount(t, dir, "3", third[0], first[1])
	eventually(t, "the log", func() bool { return log.has("private key does not match public key", dir) })
	if !serves(source, second[0]) {
		t.Error("a pair that does not fit took the place of one that does")
	}
	mount(t, dir, "4", third[0], third[1])
	eventually(t, "the third pair", func() bool { return serves(source, third[0]) })
}

func TestFilesThatAreMissing(t *testing.T) {
	if _, err := Files(t.TempDir()); err == nil || !strings.Contains(err.Error(), "read the serving certificate from") {
		t.Errorf("got %v", err)
	}
}

// signedAtEpoch is a source of a leaf that was signed then.
func signedAtEpoch(t *testing.T) Source {
	t.Helper()
	pair := leafOf(t, newTestPair(t, epoch))
	dir := t.TempDir()
	mount(t, dir, "1", pair[0], pair[1])
	source, err := Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// A certificate that has ended is no reason to be sent reviews.
func TestCheck(t *testing.T) {
	source := signedAtEpoch(t)
	if err := Check(source, epoch.Add(tested.Leaf)); err != nil {
		t.Errorf("at its end: %v", err)
	}
	if err := Check(source, epoch.Add(tested.Leaf+time.Second)); err == nil || !strings.Contains(err.Error(), "ended at 2026-01-07T00:00:00Z") {
		t.Errorf("after its end: %v", err)
	}
}

// The clock was ahead when the leaf was signed, and was put back since: no API server takes it.
func TestCheckClock(t *testing.T) {
	source := signedAtEpoch(t)
	begins := epoch.Add(-tested.backdate())
	if err := CheckClock(source, begins); err != nil {
		t.Errorf("at its beginning: %v", err)
	}
	if err := CheckClock(source, begins.Add(-time.Second)); err == nil || !strings.Contains(err.Error(), "and it is "+begins.Add(-time.Second).Format(time.RFC3339)+": the clock was put back") {
		t.Errorf("before it: %v", err)
	}
	if err := CheckClock(&servertls.DynamicSource{}, epoch); err != nil {
		t.Errorf("of a replica that has none yet: %v", err)
	}
}
