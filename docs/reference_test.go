package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/deploy"
)

type schema = apiextensionsv1.JSONSchemaProps

func TestReferenceIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Reference of the policies

This page is made from the CustomResourceDefinitions, and these from the types in ` + "`api/v1alpha1`" + ` (` + "`go test ./docs -update`" + ` writes it). How
the fields act together is told in [PodPolicy](podpolicy.md), [exceptions](exceptions.md), [the node enforcer](nodeenforcer.md) and [fencing](fencing.md). All kinds are of the group
` + "`podgrace.dev`, version `v1alpha1`" + `; all are cluster-scoped but exceptions, which are in a namespace. An item of a list is written with ` + "`[]`" + `; a field in **bold** is required where what holds it is there.
`)
	for _, document := range [][]byte{deploy.PodPolicyCRD, deploy.NodePolicyCRD, deploy.PolicyExceptionCRD, deploy.FencePolicyCRD, deploy.FenceAgentCRD, deploy.FenceCRD, deploy.FenceReceiptCRD} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(document, &crd); err != nil {
			t.Fatal(err)
		}
		reference(&b, crd)
	}
	fresh(t, "reference.md", b.String())
}

// reference writes a kind: its fields, one table each for spec and status, and the rules that the API server checks.
func reference(b *strings.Builder, crd apiextensionsv1.CustomResourceDefinition) {
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	plural := crd.Spec.Names.Plural
	if plural == "policyexceptions" { // Kyverno's too (TestPolicyExceptionsAreNamedInFull)
		plural = crd.Name
	}
	fmt.Fprintf(b, "\n## %s\n\n`kubectl get %s`, short `%s`. %s\n", crd.Spec.Names.Kind, plural, strings.Join(crd.Spec.Names.ShortNames, "`, `"), inCell(root.Description))
	for _, part := range []string{"spec", "status"} {
		s, exists := root.Properties[part]
		if !exists {
			continue
		}
		fmt.Fprintf(b, "\n### %s %s\n\n%s\n\n| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n", crd.Spec.Names.Kind, part, inCell(s.Description))
		var rules []string
		fields(b, "", s, &rules)
		if len(rules) > 0 {
			fmt.Fprintf(b, "\nRules:\n\n%s", strings.Join(rules, ""))
		}
	}
}

// fields writes a row for each field, and what is in it below.
func fields(b *strings.Builder, path string, s schema, rules *[]string) {
	for _, r := range s.XValidations {
		*rules = append(*rules, fmt.Sprintf("- %s: %s\n", pathOr(strings.TrimPrefix(path, ".")+r.FieldPath), inCell(r.Message)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		at := path + "." + name
		shown := "`" + strings.TrimPrefix(at, ".") + "`"
		if slices.Contains(s.Required, name) {
			shown = "**" + shown + "**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", shown, typeOf(field), defaultOf(field), bounds(field), inCell(field.Description))
		if field.Type == "array" && field.Items != nil && field.Items.Schema != nil {
			at, field = at+"[]", *field.Items.Schema
		}
		if known(field) == "" {
			fields(b, at, field, rules)
		}
	}
}

func pathOr(path string) string {
	if path == "" {
		return "all"
	}
	return "`" + strings.TrimPrefix(path, ".") + "`"
}

// known names types of Kubernetes itself, whose fields its own reference has.
func known(s schema) string {
	has := func(names ...string) bool {
		return len(s.Properties) == len(names) && !slices.ContainsFunc(names, func(n string) bool { _, ok := s.Properties[n]; return !ok })
	}
	switch {
	case has("matchLabels", "matchExpressions"):
		return "LabelSelector"
	case has("name", "expression"):
		return "MatchCondition"
	case has("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration"):
		return "Condition"
	}
	return ""
}

func typeOf(s schema) string {
	switch {
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(*s.Items.Schema)
	case s.XIntOrString:
		return "quantity or number"
	case known(s) != "":
		return known(s)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map to " + typeOf(*s.AdditionalProperties.Schema)
	}
	return s.Type
}

func defaultOf(s schema) string {
	if s.Default == nil {
		return ""
	}
	return "`" + strings.Trim(string(s.Default.Raw), `"`) + "`"
}

// bounds are what the schema itself says.
func bounds(s schema) string {
	var all []string
	if len(s.Enum) > 0 {
		all = append(all, values(s.Enum))
	}
	if s.Minimum != nil || s.Maximum != nil {
		all = append(all, strings.TrimSpace(number("from", s.Minimum)+" "+number("to", s.Maximum)))
	}
	if s.MinItems != nil {
		all = append(all, fmt.Sprintf("at least %d", *s.MinItems))
	}
	if s.MaxItems != nil {
		all = append(all, fmt.Sprintf("at most %d", *s.MaxItems))
	}
	if s.Items != nil && s.Items.Schema != nil && len(s.Items.Schema.Enum) > 0 {
		all = append(all, "of "+values(s.Items.Schema.Enum))
	}
	return strings.Join(all, "; ")
}

func number(word string, n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s %.0f", word, *n)
}

func values(all []apiextensionsv1.JSON) string {
	words := make([]string, len(all))
	for i, v := range all {
		var word string
		if json.Unmarshal(v.Raw, &word) != nil {
			word = string(v.Raw)
		}
		words[i] = "`" + word + "`"
	}
	return strings.Join(words, ", ")
}

// inCell is text that can't leave a cell of a table.
func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}
