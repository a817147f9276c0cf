package fieldpath

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for path, want := range map[string]Path{
		"spec.priority":                            {"spec", "priority"},
		"spec.containers[0].image":                 {"spec", "containers", "0", "image"},
		"spec.containers[web].image":               {"spec", "containers", "web", "image"},
		"metadata.annotations[podgrace.dev/a].b.c": {"metadata", "annotations", "podgrace.dev/a", "b", "c"},
		`metadata.annotations["podgrace.dev/a"]`:   {"metadata", "annotations", "podgrace.dev/a"},
		"/metadata/annotations/podgrace.dev~1a~0":  {"metadata", "annotations", "podgrace.dev/a~"},
		"metadata.labels[a][b]":                    {"metadata", "labels", "a", "b"},
		"":                                         nil, "spec.": nil, "spec..a": nil, ".spec": nil, "spec[": nil, "spec[]": nil, "spec[a]b": nil,
	} {
		got, err := Parse(path)
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("%q: %v\n%s", path, err, diff)
		}
	}
}

func TestString(t *testing.T) {
	for pointer, want := range map[string]string{
		"/spec/priority": "spec.priority",
		"/metadata/annotations/podgrace.dev~1enforcement": "metadata.annotations[podgrace.dev/enforcement]",
		"/spec/containers/0/image":                        "spec.containers[0].image",
		"/a~01b":                                          "a~1b",
		"":                                                "",
	} {
		if got := OfPointer(pointer).String(); got != want {
			t.Errorf("%s: got %s, want %s", pointer, got, want)
		}
		if got := OfPointer(pointer).Pointer(); got != pointer {
			t.Errorf("%s becomes %s", pointer, got)
		}
	}
}

// What a path is written as leads to where the path does.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Path(rapid.SliceOfN(rapid.StringMatching(`[a-z0-9./~\[\]'"-]{1,6}`), 1, 4).Draw(t, "path"))
		for _, text := range []string{p.Exact(), p.Pointer()} {
			if got, err := Parse(text); err != nil || !cmp.Equal(p, got) {
				t.Fatalf("%q is written %s, which is %q: %v", []string(p), text, []string(got), err)
			}
		}
	})
}

// FuzzExact: what is written for a person is read as the same path.
func FuzzExact(f *testing.F) {
	for _, text := range []string{"spec.containers[web].image", `metadata.annotations["a.b/c"].d`, "/spec/a~1b/~01", "a[", "a]b", "[a]..", "/", "//"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		got, err := Parse(p.Exact())
		if err != nil || !slices.Equal(got, p) {
			t.Errorf("%q is %q; written as %q it is %q, %v", text, p, p.Exact(), got, err)
		}
		if got := OfPointer(p.Pointer()); !slices.Equal(got, p) {
			t.Errorf("%q is %q; as %q it is %q", text, p, p.Pointer(), got)
		}
	})
}
