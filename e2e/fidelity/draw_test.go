package fidelity

import (
	"math/bits"

	"pgregory.net/rapid"
)

// source draws for the generators. It draws single bits: rapid's own ranges prefer small numbers, which would leave the
// share of each kind of case to chance, and a bit costs little. All bits 0 is the simplest case, towards which rapid
// shrinks, so that the first of several is always the plainest.
type source struct{ t *rapid.T }

var bit = rapid.Bool()

func (s source) bits(n int) (drawn int) {
	for range n {
		drawn <<= 1
		if bit.Draw(s.t, "") {
			drawn |= 1
		}
	}
	return drawn
}

// below returns a number from 0 to n-1, each about as often.
func (s source) below(n int) int {
	if n < 2 {
		return 0
	}
	const extra = 3 // so that the remainder favours none much
	return s.bits(bits.Len(uint(n-1))+extra) % n
}

// chance is true in so many of 16 cases.
func (s source) chance(of16 int) bool { return s.bits(4) >= 16-of16 }

// rarely is true in one of 64 cases.
func (s source) rarely() bool { return s.bits(6) == 1<<6-1 }

func pick[T any](s source, values ...T) T { return values[s.below(len(values))] }

// some returns each of the values in so many of 16 cases, in their order.
func some[T any](s source, of16 int, values ...T) []T {
	var picked []T
	for _, v := range values {
		if s.chance(of16) {
			picked = append(picked, v)
		}
	}
	return picked
}

// maybe returns a pointer to one of the values in so many of 16 cases, else nil.
func maybe[T any](s source, of16 int, values ...T) *T {
	if !s.chance(of16) {
		return nil
	}
	return new(pick(s, values...))
}

// drawn makes a generator of whole cases: rapid then prints one case instead of each bit.
func drawn[T any](generate func(source) T) *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T { return generate(source{t}) })
}
