package policy_test

import (
	"os"
	"testing"

	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestMain(m *testing.M) { os.Exit(Run(m, 4000)) }
