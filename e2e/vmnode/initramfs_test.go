package vmnode

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is what an archive says about a file.
type entry struct {
	Name, Content string
	Mode          uint64
}

// readCPIO reads the newc format by its description, apart from the writer.
func readCPIO(t *testing.T, archive []byte) []entry {
	t.Helper()
	var entries []entry
	for at := 0; ; {
		header := string(archive[at : at+110])
		if !strings.HasPrefix(header, "070701") {
			t.Fatalf("no header at %d: %q", at, header)
		}
		field := func(i int) int {
			value, err := strconv.ParseUint(header[6+8*i:14+8*i], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(value)
		}
		padded := func(n int) int { return (n + 3) &^ 3 }
		size, nameSize := field(6), field(11)
		name := string(archive[at+110 : at+110+nameSize-1])
		if name == "TRAILER!!!" {
			return entries
		}
		at += padded(110 + nameSize)
		entries = append(entries, entry{name, string(archive[at : at+size]), uint64(field(1))})
		at += padded(size)
	}
}

func TestWriteCPIO(t *testing.T) {
	files := []cpioFile{
		{name: "dev", mode: 0o755 | fs.ModeDir},
		{name: "init", mode: 0o755, content: []byte("12345")},
		{name: "modules", mode: 0o755 | fs.ModeDir},
		{name: "modules/a.ko", mode: 0o644, content: []byte("1234")},
		{name: "empty", mode: 0o600},
	}
	var archive bytes.Buffer
	if err := writeCPIO(&archive, files); err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{"dev", "", 0o40755}, {"init", "12345", 0o100755}, {"modules", "", 0o40755}, {"modules/a.ko", "1234", 0o100644}, {"empty", "", 0o100600},
	}
	if diff := cmp.Diff(want, readCPIO(t, archive.Bytes())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
