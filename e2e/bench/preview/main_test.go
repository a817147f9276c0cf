package preview

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podgrace/podgrace/internal/manifest"
)

func TestState(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state.json")
	n, err := writeState(name, 3, 7)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != n {
		t.Errorf("%v, %v, want %d bytes", info, err, n)
	}
	kinds := map[string]int{}
	for d, wrong := range manifest.Read(name, f) {
		if wrong != nil {
			t.Fatal(wrong)
		}
		kinds[d.Kind]++
	}
	if kinds["Node"] != 3 || kinds["Pod"] != 7 || kinds["PriorityClass"] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestAnswer(t *testing.T) {
	for text, want := range map[string]int{
		`{"previews":[{"outcome":"Fits","fit":4,"nodes":5}]}`: 4,
		`{"previews":[{"outcome":"Fits","fit":4,"nodes":6}]}`: -1,
		`{"previews":[{"outcome":"Nowhere","nodes":5}]}`:      -1,
		`{"previews":[]}`: -1,
		`{"previews":[{"outcome":"Fits","nodes":5},{"outcome":"Fits","nodes":5}]}`: -1,
		`{`: -1,
	} {
		if got, err := answer([]byte(text), fits, 5); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

func TestParts(t *testing.T) {
	var r row
	if err := r.parts("read: 1200 ms\nsome: 1 ms\ncache: 30 ms\npass: 0 ms\n"); err != nil || r.read != 1200*time.Millisecond || r.cache != 30*time.Millisecond || r.pass != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.parts("read: 1200 ms\npass: 1 ms\n"); err == nil {
		t.Error("one part is missing, and nobody minds")
	}
}
