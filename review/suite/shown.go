package suite

import "github.com/podgrace/podgrace/console"

// shown is a text of others in a line of its own.
func shown(text string) string { return console.AtStart(console.Visible(text)) }

// maxLine of a value, in characters. JSON has all of it.
const maxLine = 400

func clip(text string) string { return console.Clip(text, maxLine) }
