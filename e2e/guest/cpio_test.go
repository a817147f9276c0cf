package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is what a reader of the format finds.
type entry struct{ Name, Mode, Contents string }

func readArchive(t *testing.T, text []byte) []entry {
	t.Helper()
	var entries []entry
	for at := 0; ; {
		header := string(text[at : at+110])
		field := func(i int) int {
			n, err := strconv.ParseInt(header[6+8*i:14+8*i], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		if header[:6] != "070701" || at%4 != 0 {
			t.Fatalf("no header at %d: %q", at, header)
		}
		name := string(text[at+110 : at+110+field(11)-1])
		if name == "TRAILER!!!" {
			return entries
		}
		start := (at + 110 + field(11) + 3) / 4 * 4
		entries = append(entries, entry{name, strconv.FormatInt(int64(field(1)), 8), string(text[start : start+field(6)])})
		at = (start + field(6) + 3) / 4 * 4
	}
}

func TestArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &archive{out: &out}
	a.dir("proc")
	a.file("program", program)
	a.text("empty", "")
	a.text("task.json", "{}")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	want := []entry{{"proc", "40755", ""}, {"program", "100755", "12345"}, {"empty", "100644", ""}, {"task.json", "100644", "{}"}}
	if diff := cmp.Diff(want, readArchive(t, out.Bytes())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestArchiveFails(t *testing.T) {
	a := &archive{out: &bytes.Buffer{}}
	a.file("none", filepath.Join(t.TempDir(), "none"))
	a.text("more", "text")
	if err := a.close(); err == nil {
		t.Error("a file that isn't there was taken")
	}
	a = &archive{out: &bytes.Buffer{}}
	a.entry("grown", 0o100644, 3, strings.NewReader("1234"))
	if err := a.close(); err == nil {
		t.Error("a file that has grown was taken")
	}
}
