package enforcement

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Amount is a number of bytes, inodes or processes, or a share of the capacity. The zero value is 0.
type Amount struct {
	Quantity int64
	// Percentage as a fraction, 0.1 for 10%, as the kubelet holds it. It counts if Quantity is 0.
	Percentage float32
}

// Of returns the amount for a capacity (pkg/kubelet/eviction/api/types.go GetThresholdQuantity, 1.36.3).
func (a Amount) Of(capacity int64) int64 {
	if a.Quantity != 0 {
		return a.Quantity
	}
	return int64(float64(capacity) * float64(a.Percentage))
}

// Never reports whether a threshold with this value can never be met, and is ignored.
func (a Amount) Never() bool { return a.Quantity == 0 && (a.Percentage <= 0 || a.Percentage >= 1) }

// maxLength of a value, as in the CRD.
const maxLength = 32

// hugeExponent is of three digits or more: ParseQuantity would write such a number out, and takes minutes for nine digits.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{3,}$`)

// ParseAmount reads a quantity or a percentage.
func ParseAmount(v v1alpha1.ThresholdValue) (Amount, error) {
	s := string(v)
	if number, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(number, 32)
		if err != nil || strings.Trim(number, "0123456789.") != "" || p > 100 {
			return Amount{}, errors.New("must be a percentage from 0% to 100%")
		}
		return Amount{Percentage: float32(p) / 100}, nil
	}
	if len(s) > maxLength || hugeExponent.MatchString(s) {
		return Amount{}, errors.New("is more than any node has, or less than anything")
	}
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return Amount{}, fmt.Errorf("must be a quantity such as 500Mi, or a percentage such as 10%%: %w", err)
	case q.Sign() < 0:
		return Amount{}, errors.New("must not be negative")
	case q.Cmp(*resource.NewQuantity(math.MaxInt64/4, resource.BinarySI)) > 0:
		return Amount{}, errors.New("is more than any node has")
	}
	return Amount{Quantity: q.Value()}, nil
}
