package terminate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "held")
	ledger := terminate.Files{Dir: dir}
	all := func(want ...terminate.Entry) {
		t.Helper()
		got, err := ledger.All()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
	}
	all()
	one := terminate.Entry{UID: "1", Path: "/kubepods/pod1", Was: "max", Wrote: "4096", Then: "8192"}
	two := terminate.Entry{UID: "2", Path: "/kubepods/pod2", Was: "8192", Wrote: "4096"}
	for _, e := range []terminate.Entry{one, two, one} {
		if err := ledger.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	all(one, two)
	// What a crash in the midst of Put leaves is no entry.
	if err := os.WriteFile(filepath.Join(dir, "3.json.new"), []byte(`{"uid"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := ledger.Drop("1"); err != nil {
			t.Fatal(err)
		}
	}
	all(two)
	if err := os.WriteFile(filepath.Join(dir, "4.json"), []byte(`{"uid"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ledger.All(); err == nil || len(got) != 1 {
		t.Errorf("a file that can't be read: %v, %v", got, err)
	}
}
