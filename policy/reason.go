package policy

// Reason is why something was decided: the rule that decided. Each is declared beside its rule.
type Reason struct {
	// Code in one word, for metrics, audit and machines. It is kept: a change of one is told in the changelog.
	Code string
	// Short says to a person what it means.
	Short string
	// Help says what to do about a refusal or a warning; empty for what is let go.
	Help string
}

// String is the code.
func (r Reason) String() string { return r.Code }
