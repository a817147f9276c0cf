package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// What reviews and explanations read of a preview is what is printed: each field of theirs, in some of the archives, and nothing else.
func TestReaders(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	filled := map[string]bool{}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		printed := printedAsJSON(t, archive)
		read, err := scheduling.Read(printed)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(read.Previews) == 0 {
			t.Errorf("%s: no preview", path)
		}
		for i := range read.Previews {
			for _, says := range read.Previews[i].Sentences() {
				if strings.Contains(says, "number ") || strings.HasPrefix(says, "not known: ") != (read.Previews[i].Outcome == scheduling.NotKnown) {
					t.Errorf("%s: an outcome or a constraint that the reader does not know: %s", path, says)
				}
			}
		}
		again, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if missing := within(decoded(t, again), decoded(t, printed), ""); missing != "" {
			t.Errorf("%s: the reader has what was not printed: %s", path, missing)
		}
		fill(reflect.ValueOf(*read), "", filled)
	}
	for field, is := range filled {
		if !is {
			t.Errorf("no archive fills %s of the reader: is it another one's name, or does it lack an archive?", field)
		}
	}
}

func printedAsJSON(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(here); err != nil {
			t.Fatal(err)
		}
	}()
	if err := os.Chdir(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args, _, _ := strings.Cut(string(archive.Comment), "\n")
	out, errs, _ := typed(t, append(strings.Fields(args), "-o", "json")...)
	if out == "" {
		t.Fatal(errs)
	}
	return []byte(out)
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// within says what one JSON value has that another has not; empty: nothing.
func within(part, whole any, path string) string {
	switch part := part.(type) {
	case map[string]any:
		of, ok := whole.(map[string]any)
		for key, value := range part {
			if _, there := of[key]; !ok || !there {
				return path + "." + key
			}
			if missing := within(value, of[key], path+"."+key); missing != "" {
				return missing
			}
		}
	case []any:
		of, ok := whole.([]any)
		if !ok || len(of) != len(part) {
			return path
		}
		for i := range part {
			if missing := within(part[i], of[i], fmt.Sprintf("%s[%d]", path, i)); missing != "" {
				return missing
			}
		}
	default:
		if !reflect.DeepEqual(part, whole) {
			return fmt.Sprintf("%s %v, for %v", path, part, whole)
		}
	}
	return ""
}

// fill notes which fields have more than their zero value somewhere.
func fill(v reflect.Value, path string, filled map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), path, filled)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), path, filled)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			filled[name] = filled[name] || !v.Field(i).IsZero()
			fill(v.Field(i), name, filled)
		}
	}
}
