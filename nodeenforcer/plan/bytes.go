package plan

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// memoryBytes is how the kernel prints a number of bytes that was written to a memory file: it counts in pages, rounded down, up
// to a largest number that v2 calls max (mm/page_counter.c page_counter_memparse, mm/memcontrol.c seq_puts_memcg_tunable).
func (n Node) memoryBytes(value int64) string {
	return n.pages(value, 1)
}

// hugeBytes is the same for a hugetlb file, whose unit is the huge page of this many bytes (mm/hugetlb_cgroup.c).
func (n Node) hugeBytes(value, hugePage int64) string {
	return n.pages(value, max(hugePage/n.PageSize, 1))
}

func (n Node) pages(value, unit int64) string {
	limit := math.MaxInt64 / n.PageSize
	pages := min(max(value, 0)/n.PageSize, limit)
	pages, limit = pages/unit*unit, limit/unit*unit
	if pages == limit && n.Version == cgroupfile.V2 {
		return "max"
	}
	return strconv.FormatInt(pages*n.PageSize, 10)
}

// floorPage rounds a number of bytes down to whole pages, at least 0.
func (n Node) floorPage(value int64) int64 {
	value = max(value, 0)
	return value - value%n.PageSize
}

// portion is amount x part / whole, rounded down, of numbers that are not negative. It saturates; of a whole of 0 it is 0.
func portion(amount, part, whole int64) int64 {
	if amount <= 0 || part <= 0 || whole <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(part))
	if hi >= uint64(whole) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(min(quotient, math.MaxInt64))
}

// plus adds what is not negative, and saturates.
func plus(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
