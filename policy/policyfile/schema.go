package policyfile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	schemadefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	structuralmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// rules are what the API server checks of a custom resource.
type rules struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *schemacel.Validator
}

// newRules are those of a CustomResourceDefinition that this program was built with.
func newRules(definition []byte) (*rules, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(definition, &crd); err != nil {
		return nil, fmt.Errorf("decode the CustomResourceDefinition: %w", err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	schema, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	return &rules{structural: structural, schema: schema, cel: schemacel.NewValidator(structural, true, apiservercel.PerCallLimit)}, nil
}

// applyDefaults writes the schema's defaults into the object.
func (r *rules) applyDefaults(object map[string]any) { schemadefaulting.Default(object, r.structural) }

// prune takes away the fields that the schema does not have, and returns their paths. Unlike a decoder it goes on where a value is of another type.
func (r *rules) prune(object map[string]any) []string {
	return pruning.PruneWithOptions(object, r.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

// metadata says what no object's metadata may have, field by field: the decoder stops at the first of another type.
func (r *rules) metadata(object map[string]any) (unknown []string, errs field.ErrorList) {
	given, ok := object["metadata"].(map[string]any)
	if !ok {
		return nil, nil // the name is missing, which is said
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		alone := map[string]any{"metadata": map[string]any{name: given[name]}}
		wrong, more := structuralmeta.CoerceWithOptions(nil, alone, r.structural, true, structuralmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
		unknown = append(unknown, more...)
		if wrong != nil {
			errs = append(errs, field.TypeInvalid(field.NewPath("metadata", name), given[name], "this field of an object's metadata is of another type"))
		}
	}
	return unknown, errs
}

// below reports whether a path is within a field that is of another type: that it has no such field need not be said then.
func below(path string, errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(e *field.Error) bool {
		rest, ok := strings.CutPrefix(path, e.Field)
		return ok && e.Type == field.ErrorTypeTypeInvalid && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
	})
}

// check says all that the API server would refuse.
func (r *rules) check(object map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, object, r.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, object)...)
	if len(errs) > 0 {
		return errs // the CEL rules expect what the schema promises
	}
	errs, _ = r.cel.Validate(context.Background(), nil, r.structural, object, nil, apiservercel.RuntimeCELCostBudget)
	return errs
}
