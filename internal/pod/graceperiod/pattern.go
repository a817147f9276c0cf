package graceperiod

// Separator stands between the words of a command that the patterns below are asked of: strings.Join(command, Separator). No word that a program
// is called with has it in it.
const Separator = "\x00"

// What PreStop and AtLeast say of the plainest commands, as patterns for who has nothing else to ask with: CEL, where a pattern costs what it is long. A command that is matched takes as many
// seconds as its Operand says, at most MaxPreStop. AtLeast reads further commands, which the patterns do not match.
const (
	// SleepsOnly is a command of which PreStop knows how long it takes.
	SleepsOnly = `^` + path + `(sleep` + Separator + anyLength + `|` + anyShell + Separator + `-c` + Separator + beforeOperand + anyLength + `[ \t]*;?[ \t\n]*)$`
	// SleepsFirst is a command of which AtLeast knows that it takes some time.
	SleepsFirst = `^` + path + `(sleep` + Separator + anyLength + `$|` +
		anyShell + `(` + Separator + `-[eux]*)*` + Separator + `-[eux]*c[eux]*` + Separator + beforeOperand + anyLength +
		`[ \t]*($|` + Separator + `|\n|;|[ \t]#|(&&|\|\|)` + waits + `($|` + Separator + `)))`
	// Operand matches a Number and an optional unit (UnitSeconds): the first that is found in such a command.
	Operand = Number + `[smhd]?`
	// Number of the operand, which can have a fraction.
	Number = `[0-9.]+`

	path          = `((/usr)?/bin/)?` // groups of the short kind: nobody asks for them
	anyShell      = `([bd]?a)?sh`
	beforeOperand = `[ \t\n]*(?:exec[ \t]+)?(?:(?:/usr)?/bin/)?sleep[ \t]+`
	anyLength     = `(\d+\.?\d*|\.\d+)[smhd]?`
	// waits is the rest of a script after && or || that has no & but in && and >&, read from left to right: what may run in the background is not waited for.
	waits = `([^&>` + Separator + `]|&&|>+[^>` + Separator + `])*>*`
)
