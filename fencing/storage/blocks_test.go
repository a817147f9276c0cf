package storage_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/storage"
)

// What a driver takes for the same address overlaps with it, however it is written.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1/32", "10.0.0.0/24", true},
		{"10.0.0.1/32", "10.0.0.2/32", false},
		{"10.0.0.1/32", "::ffff:10.0.0.1/128", true},
		{"10.0.0.1/32", "::ffff:10.0.0.2/128", false},
		{"10.0.0.1/32", "::ffff:10.0.0.0/120", true},
		{"10.0.0.1/32", "::/0", true},
		{"10.0.0.1/32", "fd00::1/128", false},
		{"fd00::1/128", "fd00::/64", true},
		{"10.0.0.1/32", "10.0.0.9", true},
	} {
		for _, got := range []bool{storage.Overlap([]string{tt.a}, []string{tt.b}), storage.Overlap([]string{tt.b}, []string{tt.a})} {
			if got != tt.want {
				t.Errorf("%s and %s: %v", tt.a, tt.b, got)
			}
		}
	}
}

func TestNotAllowed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allowed, fenced []string
		outside         string // the first
	}{
		{nil, []string{"10.0.0.1/32", "fd00::1/128"}, ""},
		{[]string{"10.0.0.0/24"}, []string{"10.0.0.1/32", "10.0.0.255/32"}, ""},
		{[]string{"10.0.0.0/24"}, []string{"10.0.0.1/32", "10.0.1.0/32"}, "10.0.1.0/32"},
		{[]string{"10.0.0.0/24"}, []string{"fd00::1/128"}, "fd00::1/128"},
		{[]string{"10.0.0.0/24", "fd00::/64"}, []string{"10.0.0.1/32", "fd00::1/128"}, ""},
		{[]string{"10.0.0.0/25", "10.0.0.0/24", "10.0.0.128/25"}, []string{"10.0.0.1/32", "10.0.0.200/32"}, ""}, // overlapping
		{[]string{"0.0.0.0/0"}, []string{"10.0.0.1/32"}, ""},
		{[]string{"0.0.0.0/0"}, []string{"fd00::1/128"}, "fd00::1/128"},
		{[]string{"::/0"}, []string{"fd00::1/128"}, ""},
		{[]string{"::/0"}, []string{"10.0.0.1/32"}, "10.0.0.1/32"},
		{[]string{"::ffff:10.0.0.0/120"}, []string{"10.0.0.1/32"}, ""},
		{[]string{"::ffff:10.0.0.0/120"}, []string{"10.0.1.1/32"}, "10.0.1.1/32"},
		{[]string{"::ffff:0.0.0.0/95"}, []string{"10.0.0.1/32"}, "10.0.0.1/32"},
		{[]string{"10.0.0.0/24"}, []string{"::ffff:10.0.0.1/128"}, ""},
		{[]string{"10.0.0.0/24"}, []string{"::ffff:10.0.1.1/128"}, "::ffff:10.0.1.1/128"},
		{[]string{"10.0.0.1/32"}, []string{"10.0.0.0/24"}, "10.0.0.0/24"}, // more than the block
		{[]string{"10.0.0.0/24"}, []string{"10.0.0.1"}, "10.0.0.1"},
		{[]string{"10.0.0.1", "everything", ""}, []string{"10.0.0.1/32"}, "10.0.0.1/32"}, // what can't be read allows nothing
		{[]string{"everything", "10.0.0.0/24"}, []string{"10.0.0.1/32"}, ""},
	} {
		got, want := storage.NotAllowed(&v1alpha1.NetworkFenceAgent{AllowedCIDRs: tt.allowed}, tt.fenced), ""
		if tt.outside != "" {
			want = "may not fence " + tt.outside + ", which lies in none of its allowedCIDRs (" + strings.Join(tt.allowed, ", ") + ")"
		}
		if got != want {
			t.Errorf("%q by %q: %q, want %q", tt.fenced, tt.allowed, got, want)
		}
	}
}
