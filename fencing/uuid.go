package fencing

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// placeholders are UUIDs that many machines have: boards on which the vendor set none (DSP0134, SMBIOS 3.x, 7.2.1: all zeros is not present, all ones is not set),
// and one that was left in boards' firmware as it came. They tell no machine from another.
var placeholders = []uuid.UUID{
	uuid.Nil, uuid.Max, uuid.MustParse("03000200-0400-0500-0006-000700080009"), uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef"),
	uuid.MustParse("fefefefe-fefe-fefe-fefe-fefefefefefe"), uuid.MustParse("11111111-1111-1111-1111-111111111111"),
}

// SameMachine says whether two UUIDs are of one machine, and if so whether only in the other byte order: SMBIOS has the first three fields in little-endian order
// (DSP0134, 7.2.1), and firmware, kernels and BMCs differ in whether they turn them around. What is no UUID is the same as what has the same letters: kubelets on some
// architectures report a serial number. Nothing is the same as an empty text or a UUID that vendors leave on all of their boards.
func SameMachine(a, b string) (same, swapped bool) {
	keyA, keyB := MachineKey(a), MachineKey(b)
	if keyA == "" || keyA != keyB {
		return false, false
	}
	return true, normal(a) != normal(b)
}

// MachineKey is the same text for both byte orders of a UUID, and empty for one that tells no machine from another.
func MachineKey(text string) string {
	id, err := uuid.Parse(strings.TrimSpace(text))
	if err != nil {
		return normal(text)
	}
	other := swap(id)
	if slices.Contains(placeholders, id) || slices.Contains(placeholders, other) {
		return ""
	}
	return min(id.String(), other.String())
}

// normal is a UUID, or whatever it is, in small letters.
func normal(text string) string {
	text = strings.TrimSpace(text)
	if id, err := uuid.Parse(text); err == nil {
		return id.String()
	}
	return strings.ToLower(text)
}

// swap turns the bytes of the first three fields around.
func swap(id uuid.UUID) uuid.UUID {
	slices.Reverse(id[0:4])
	slices.Reverse(id[4:6])
	slices.Reverse(id[6:8])
	return id
}

// sameUUID says whether both are the UUID of one machine, in either order of bytes.
func sameUUID(a, b string) bool {
	const rest = len("12345678-1234-1234-") // what follows is in one order: most UUIDs of a large cluster are told apart by it
	if a == "" || b == "" || len(a) == 36 && len(b) == 36 && !strings.EqualFold(a[rest:], b[rest:]) {
		return false
	}
	same, _ := SameMachine(a, b)
	return same
}

// isMachine says whether an agent's machine is that with this UUID and provider ID. All that it says of which machine it is must be so.
func isMachine(m *v1alpha1.FenceMachine, systemUUID, providerID string) bool {
	if m.SystemUUID != "" && !sameUUID(m.SystemUUID, systemUUID) || m.ProviderID != "" && m.ProviderID != providerID {
		return false
	}
	return m.SystemUUID != "" || m.ProviderID != ""
}
