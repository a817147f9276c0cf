package plan

// Count is the number of groups at a level.
func (t *Tree) Count(level Level) int {
	n := 0
	for i := range t.Groups {
		if t.Groups[i].Level == level {
			n++
		}
	}
	return n
}
