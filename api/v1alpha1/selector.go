package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// LabelSelector selects objects by their labels, as metav1.LabelSelector does, of which it has the fields. Its schema refuses what
// can't be read: that one takes any operator and any text, and the API server stores them.
type LabelSelector struct {
	// MatchLabels are labels that all must be there.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, !format.qualifiedName().validate(key).hasValue())",message="a key is no label's: it must be at most 63 letters, digits, '-', '_' or '.', after an optional DNS name and '/'"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are requirements that all must be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is about one label.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",message="In and NotIn need values, Exists and DoesNotExist have none",fieldPath=".values"
type LabelSelectorRequirement struct {
	// Key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Key string `json:"key"`
	// Operator: In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Values of the label, for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`
	Values []string `json:"values,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`
type LabelValue string

// SetAsLabelSelector selects what has all of the labels, as the function of that name in metav1.
func SetAsLabelSelector(set labels.Set) *LabelSelector {
	s := &LabelSelector{MatchLabels: make(map[string]LabelValue, len(set))}
	for key, value := range set {
		s.MatchLabels[key] = LabelValue(value)
	}
	return s
}

// AsSelector makes the selector ready, or says what is wrong with it. Nil selects everything.
func (s *LabelSelector) AsSelector() (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s.plain())
	if err != nil {
		return nil, fmt.Errorf("label selector: %w", err)
	}
	return selector, nil
}

// String is the selector as kubectl writes it.
func (s *LabelSelector) String() string { return metav1.FormatLabelSelector(s.plain()) }

func (s *LabelSelector) plain() *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	k := &metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for key, value := range s.MatchLabels {
		k.MatchLabels[key] = string(value)
	}
	for _, e := range s.MatchExpressions {
		k.MatchExpressions = append(k.MatchExpressions, metav1.LabelSelectorRequirement(e))
	}
	return k
}
