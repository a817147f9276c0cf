package suite

import "github.com/podgrace/podgrace/review/safe"

// shown is a text of others in a line of its own.
func shown(text string) string { return safe.AtStart(safe.Visible(text)) }

// maxLine of a value, in characters. JSON has all of it.
const maxLine = 400

func clip(text string) string { return safe.Clip(text, maxLine) }
