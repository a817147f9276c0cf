package nodeenforcer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// PolicyFor returns the heaviest policy that selects the node, ties by name; nil where none does. A policy whose selector does
// not compile selects nothing, and is named in the error.
func PolicyFor(node *corev1.Node, policies []*v1alpha1.NodePolicy) (*v1alpha1.NodePolicy, error) {
	var errs []error
	var selecting []*v1alpha1.NodePolicy
	for _, p := range policies {
		selector, err := selectorOf(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if selector.Matches(labels.Set(node.Labels)) {
			selecting = append(selecting, p)
		}
	}
	if len(selecting) == 0 {
		return nil, errors.Join(errs...)
	}
	return slices.MinFunc(selecting, func(a, b *v1alpha1.NodePolicy) int {
		return cmp.Or(-cmp.Compare(a.Spec.Weight, b.Spec.Weight), cmp.Compare(a.Name, b.Name))
	}), errors.Join(errs...)
}

func selectorOf(p *v1alpha1.NodePolicy) (labels.Selector, error) {
	if p.Spec.NodeSelector == nil {
		return labels.Everything(), nil
	}
	selector, err := p.Spec.NodeSelector.AsSelector()
	if err != nil {
		return nil, fmt.Errorf("NodePolicy %s: nodeSelector: %w", p.Name, err)
	}
	return selector, nil
}
