package fidelity

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// crd judges an object as the API server does with the CRD: schema, list types and CEL rules.
type crd struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

func loadCRD(t *testing.T) *crd {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(deploy.PodPolicyCRD, &definition); err != nil {
		t.Fatalf("decoding the CRD: %v", err)
	}
	var properties apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &properties, nil); err != nil {
		t.Fatalf("converting the CRD's schema: %v", err)
	}
	c := &crd{}
	var err error
	if c.structural, err = schema.NewStructural(&properties); err != nil {
		t.Fatalf("the CRD's schema is not structural: %v", err)
	}
	if c.validator, _, err = validation.NewSchemaValidator(&properties); err != nil {
		t.Fatalf("making the schema's validator: %v", err)
	}
	c.rules = cel.NewValidator(c.structural, true, celconfig.PerCallLimit)
	return c
}

func (c *crd) validate(t *testing.T, policy *v1alpha1.PodPolicy) field.ErrorList {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		t.Fatalf("encoding a policy: %v", err)
	}
	defaulting.Default(object, c.structural)
	errs := validation.ValidateCustomResource(nil, object, c.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object)...)
	broken, _ := c.rules.Validate(context.Background(), nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// TestPoliciesAreValid: the properties draw only policies that the CRD accepts. A disagreement over one that can't exist
// would be worth nothing.
func TestPoliciesAreValid(t *testing.T) {
	t.Parallel()
	definition := loadCRD(t)
	generator := draw.Of(func(s draw.Source) *v1alpha1.PodPolicy { return drawPolicy(s, "p", allSections) })
	for seed := range 1000 {
		policy := generator.Example(seed)
		if errs := definition.validate(t, policy); len(errs) > 0 {
			t.Fatalf("the CRD refuses a drawn policy (seed %d): %v\n%s", seed, errs.ToAggregate(), draw.Show(policy))
		}
	}
	bad := generator.Example(0)
	bad.Spec.GracePeriod = &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(5))}
	if errs := definition.validate(t, bad); len(errs) == 0 {
		t.Fatal("the CRD's rules are not evaluated: a default of 5 without allowShorterDefault passes")
	}
}
