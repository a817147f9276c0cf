// Package draw is what generators of random cases draw by (draw.go), and what cases of more than one module are made of (scheduling.go).
package draw

import (
	"math/bits"

	"pgregory.net/rapid"
)

// Source draws for the generators. It draws single bits: rapid's own ranges prefer small numbers, which would leave the
// share of each kind of case to chance, and a bit costs little. All bits 0 is the simplest case, towards which rapid
// shrinks, so that the first of several is always the plainest.
type Source struct{ t *rapid.T }

var bit = rapid.Bool()

// Bits returns a number of so many bits.
func (s Source) Bits(n int) (drawn int) {
	for range n {
		drawn <<= 1
		if bit.Draw(s.t, "") {
			drawn |= 1
		}
	}
	return drawn
}

// Below returns a number from 0 to n-1, each about as often.
func (s Source) Below(n int) int {
	if n < 2 {
		return 0
	}
	const extra = 3 // so that the remainder favours none much
	return s.Bits(bits.Len(uint(n-1))+extra) % n
}

// Chance is true in so many of 16 cases.
func (s Source) Chance(of16 int) bool { return s.Bits(4) >= 16-of16 }

// Rarely is true in one of 64 cases.
func (s Source) Rarely() bool { return s.Bits(6) == 1<<6-1 }

// Pick returns one of the values.
func Pick[T any](s Source, values ...T) T { return values[s.Below(len(values))] }

// Some returns each of the values in so many of 16 cases, in their order.
func Some[T any](s Source, of16 int, values ...T) []T {
	var picked []T
	for _, v := range values {
		if s.Chance(of16) {
			picked = append(picked, v)
		}
	}
	return picked
}

// Maybe returns a pointer to one of the values in so many of 16 cases, else nil.
func Maybe[T any](s Source, of16 int, values ...T) *T {
	if !s.Chance(of16) {
		return nil
	}
	return new(Pick(s, values...))
}

// Of makes a generator of whole cases: rapid then prints one case instead of each bit.
func Of[T any](generate func(Source) T) *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T { return generate(Source{t}) })
}
