package cgroupfile

import "testing"

// FuzzRead: what was understood is the same as itself and within itself, and no number is below what the file can hold.
func FuzzRead(f *testing.F) {
	for _, seed := range [][2]string{
		{"memory.max", "max"}, {"memory.limit_in_bytes", "9223372036854771712"}, {"memory.low", "4097"}, {"cpu.max", "25000 100000"}, {"cpu.max", "max -1"},
		{"cpu.weight", "default 100"}, {"io.weight", "default 100\n8:0 200"}, {"cpuset.cpus", "0-1,3"}, {"cpuset.cpus", "3-1,-"}, {"cpu.cfs_quota_us", "-1"},
		{"hugetlb.2MB.max", "2097153"}, {"hugetlb.0KB.max", "1"}, {"pids.max", "18446744073709551615"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, file, content string) {
		v, err := Read(file, content, 4096)
		if err != nil {
			return
		}
		if !v.Same(v) {
			t.Errorf("%s %q is not the same as itself: %+v", file, content, v)
		}
		if v.Exceeds(v) {
			t.Errorf("%s %q exceeds itself: %+v", file, content, v)
		}
		if v.Kind.Form == FormAmount && v.Number < 0 || v.Kind.Form == FormRate && (v.Number < 0 || v.period <= 0) {
			t.Errorf("%s %q: %+v", file, content, v)
		}
	})
}
