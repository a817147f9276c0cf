package ledger_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
)

func entry(path, file, was, wrote, then string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Path: path, File: file}, Was: was, Wrote: wrote, Then: then}
}

func holds(t *testing.T, l *ledger.Ledger, want ...ledger.Entry) {
	t.Helper()
	got, err := l.All()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run", "written")
	one, two := entry("/kubepods/pod1", "memory.high", "max", "4096", "8192"), entry("/kubepods/pod1", "cpu.weight", "1", "2", "")
	one.Pod = "1"
	for _, l := range []*ledger.Ledger{{File: file}, {}} {
		holds(t, l)
		if err := l.Put(one, two, one); err != nil {
			t.Fatal(err)
		}
		holds(t, l, two, one)
		if l.File != "" {
			holds(t, &ledger.Ledger{File: file}, two, one) // the first process was killed
		}
		for range 2 {
			if err := l.Drop(two.Key); err != nil {
				t.Fatal(err)
			}
		}
		holds(t, l, one)
	}
	// What a crash in the midst of Put leaves is no entry.
	write(t, file+".new", `[{"path"`)
	holds(t, &ledger.Ledger{File: file}, one)
}

// What an earlier enforcer left on /run is known after the upgrade, and written again once.
func TestLedgerAfterUpgrade(t *testing.T) {
	dir := t.TempDir()
	written := filepath.Join(dir, "written")
	write(t, written, `[{"Path":"/kubepods","File":"memory.low","Was":"0","Wrote":"4096"}]`)
	holds(t, &ledger.Ledger{File: written}, entry("/kubepods", "memory.low", "0", "4096", ""))

	folder, file := filepath.Join(dir, "contained"), filepath.Join(dir, "contained.json")
	write(t, filepath.Join(folder, "1.json"), `{"uid":"1","path":"/kubepods/pod1","was":"max","wrote":"4096","then":"8192"}`)
	write(t, filepath.Join(folder, "2.json"), `{"uid":"2","path":"/kubepods/pod2","was":"8192","wrote":"4096"}`)
	write(t, filepath.Join(folder, "3.json.new"), `{"uid"`)
	one, two := entry("/kubepods/pod1", "memory.high", "max", "4096", "8192"), entry("/kubepods/pod2", "memory.high", "8192", "4096", "")
	one.Pod, two.Pod = "1", "2"
	for range 2 {
		holds(t, &ledger.Ledger{File: file, Folder: folder}, one, two)
	}
	holds(t, &ledger.Ledger{File: file}, one, two)
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// What can't be read is told once, and hides nothing else.
func TestLedgerDamaged(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "written"), "{")
	write(t, filepath.Join(dir, "contained", "1.json"), `{"uid"`)
	write(t, filepath.Join(dir, "contained", "2.json"), `{"uid":"2","path":"/p","was":"1","wrote":"2"}`)
	l := &ledger.Ledger{File: filepath.Join(dir, "written"), Folder: filepath.Join(dir, "contained")}
	if got, err := l.All(); err == nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := l.All(); err != nil {
		t.Errorf("it is told again: %v", err)
	}
}

func TestRestore(t *testing.T) {
	for _, tc := range []struct {
		is   string
		done bool
	}{{"4096", true}, {"8192", true}, {"max", false}, {"1", false}} {
		cgroups := cgrouptest.NewFake()
		cgroups.Add("/p", map[string]string{"memory.high": tc.is})
		done, err := entry("/p", "memory.high", "max", "4096", "8192").Restore(t.Context(), cgroups, "max")
		if got, _ := cgroups.Get("/p", "memory.high"); done != tc.done || err != nil || done && got != "max" || !done && got != tc.is {
			t.Errorf("%s: %t, %v, %s", tc.is, done, err, got)
		}
	}
}

// A file with a line for each device is ours by our line; only that one is restored, in one write of one line.
func TestRestoreOfDevices(t *testing.T) {
	for name, test := range map[string]struct {
		was, is, wrote string
	}{
		"a device came since":       {"default 100", "default 300\n8:0 200", "default 100"},
		"a device was there before": {"default 100\n8:0 200", "default 300\n8:0 200", "default 100"},
		"it is somebody else's":     {"default 100", "default 50\n8:0 200", ""},
	} {
		cgroups := cgrouptest.NewFake()
		cgroups.Add("/p", map[string]string{"io.weight": test.is})
		e := entry("/p", "io.weight", test.was, "default 300", "")
		if _, err := e.Restore(t.Context(), cgroups, e.Was); err != nil {
			t.Fatal(err)
		}
		wrote := ""
		for _, w := range cgroups.Writes() {
			wrote += w.Value
		}
		if wrote != test.wrote {
			t.Errorf("%s: wrote %q, want %q", name, wrote, test.wrote)
		}
	}
}

// The ledger of a newer enforcer is neither read nor replaced, and nothing can be noted: it is told each time.
func TestLedgerOfNewerVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "written")
	const text = `{"version":2,"entries":{"/kubepods":{"memory.high":"max"}}}`
	for _, text := range []string{text, `{"version":2,"entries":[]}`} {
		write(t, file, text)
		l := &ledger.Ledger{File: file}
		for range 2 {
			list, err := l.All()
			put, drop := l.Put(entry("/p", "cpu.weight", "1", "2", "")), l.Drop(ledger.Key{Path: "/p"})
			if len(list) > 0 || err == nil || put == nil || drop == nil || !strings.Contains(put.Error(), "is of version 2, this program reads 1") {
				t.Errorf("all %v, %v; put %v; drop %v", list, err, put, drop)
			}
		}
		if kept, err := os.ReadFile(file); string(kept) != text || err != nil {
			t.Errorf("it became %s, %v", kept, err)
		}
	}
}

// FuzzLedger: what was read is read the same after it was written again, and an entry can be put beside whatever is there, unless that is a newer enforcer's.
func FuzzLedger(f *testing.F) {
	f.Add(`{"version":1,"entries":[{"path":"/kubepods","file":"memory.low","was":"0","wrote":"4096"}]}`)
	f.Add(`{"version":99,"entries":5}`)
	f.Add(`[{"Path":"/kubepods","File":"memory.low","Was":"0","Wrote":"4096"},null]`)
	f.Add(` {"entries":null}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "written")
		write(t, file, text)
		before, _ := (&ledger.Ledger{File: file}).All()
		for _, e := range before {
			if e.Path == "" || !utf8.ValidString(e.Path+e.File+e.Was+e.Wrote+e.Then+string(e.Pod)) {
				return // nobody wrote these
			}
		}
		added := entry("", "memory.max", "max", "1", "")
		l := &ledger.Ledger{File: file}
		if err := l.Put(added); err != nil && strings.Contains(err.Error(), "this program reads") {
			if kept, err := os.ReadFile(file); err != nil || string(kept) != text {
				t.Errorf("%q became %q, %v", text, kept, err)
			}
			return
		}
		holds(t, &ledger.Ledger{File: file}, append([]ledger.Entry{added}, before...)...)
		if err := l.Drop(added.Key); err != nil {
			t.Fatal(err)
		}
		holds(t, &ledger.Ledger{File: file}, before...)
	})
}
