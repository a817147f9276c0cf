package draw

import (
	"math/rand/v2"
	"os"
	"strconv"
)

// SeedVariable is the environment variable that rapid reads its seed from. All random tests take theirs from it.
const SeedVariable = "RAPID_SEED"

// Seed returns the seed in SeedVariable, or a random one if the variable is unset or 0. A test prints the seed that it uses. Seed
// panics if the variable is not a number, as rapid does.
func Seed() uint64 {
	text := os.Getenv(SeedVariable)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(SeedVariable + ": " + err.Error())
	}
	if seed == 0 {
		return rand.Uint64()
	}
	return seed
}
