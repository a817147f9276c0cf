package input

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name, kind string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: "+kind+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"all/a.yaml", "all/b.yml", "all/c.json", "all/d.jsonl", "all/e.ndjson", "all/f.txt", "all/.g.yaml", "all/.git/h.yaml", "all/sub/sub/i.YAML", "none/x.txt", "other/j.yaml", "all/..data/k.yaml"} {
		write(name, string(rune('A'+i)))
	}
	if err := os.Mkdir(filepath.Join(dir, "none/sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"all/sub/loop": "..", "all/other": "../other", "all/again": "../other", "all/k.yaml": "..data/k.yaml", "all/gone.yaml": "gone", "all/gone": "gone2"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "all/null.yaml")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	r := Reader{Stdin: strings.NewReader("apiVersion: v1\nkind: Stdin\n")}
	var got []string
	for d, err := range r.Read("all", "-", "all/f.txt", "none", "gone", "-", "all/sub/") {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, d.File+" "+d.Kind)
	}
	want := []string{
		"all/a.yaml A", "all/again/j.yaml K", "all/b.yml B", "all/c.json C", "all/d.jsonl D", "all/e.ndjson E",
		"all/k.yaml L", "all/null.yaml: not a regular file", "all/sub/sub/i.YAML I", "- Stdin", "all/f.txt F",
		"none: no .yaml, .yml, .json, .jsonl, .ndjson file in this folder", "gone: no such file or directory",
		"-: standard input can be read only once, and was read already",
	}
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
		t.Error(diff)
	}
	if last := got[len(got)-1]; last != "all/sub/sub/i.YAML I" {
		t.Errorf("the last is %q", last)
	}
	if diff := cmp.Diff([]LeftOut{{Path: "all/gone.yaml", As: DeadLink, Why: "gone"}, {Path: "all/sub/loop/gone.yaml", As: DeadLink, Why: "gone"}}, r.LeftOut); diff != "" {
		t.Error(diff)
	}
	if r.Files != 18 {
		t.Errorf("%d files", r.Files)
	}
}

func TestALinkToAFolderAboveIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"fs/a.yaml": "apiVersion: v1\nkind: A\n"})
	if err := os.Symlink("../fs", filepath.Join(dir, "fs/up")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "fs"))
	if got, _ := readFolder(t, &Reader{}, "."); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// However many files are read at once, what they give comes in the order of their names, and who wants no more gets no more.
func TestManyFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 5*batchPerProcessor*runtime.GOMAXPROCS(0) + 1 {
		file := filepath.Join(dir, fmt.Sprintf("%05d.yaml", i))
		text := "apiVersion: v1\nkind: K\nmetadata: {name: a}\n---\napiVersion: v1\nkind: K\nmetadata: {name: b}\n"
		expected := []string{file + ":1 a", file + ":5 b"}
		if i%7 == 3 {
			text, expected = "apiVersion: v1\nkind: K\n---\n{\n", []string{file + ":1 ", file + ":4 wrong"}
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, expected...)
	}
	for stop := range len(want) + 1 {
		var got []string
		r := Reader{}
		for d, err := range r.Read(dir) {
			if len(got) == stop {
				break
			}
			if err != nil {
				got = append(got, fmt.Sprintf("%s:%d wrong", err.File, err.Line))
			} else {
				got = append(got, fmt.Sprintf("%s:%d %s", d.File, d.Line, d.Name))
			}
		}
		if diff := cmp.Diff(want[:stop], got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	}
}
