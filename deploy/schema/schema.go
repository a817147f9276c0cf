package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
)

// draft is the version of JSON Schema that editors know.
const draft = "http://json-schema.org/draft-07/schema#"

// File is the schema of a kind as a file of this folder has it.
func File(kind string, schema map[string]any) (path string, text []byte, err error) {
	schema["$schema"] = draft
	if text, err = encode(schema); err != nil {
		return "", nil, fmt.Errorf("encode the schema of a %s: %w", kind, err)
	}
	return v1alpha1.GroupVersion.Group + "/" + strings.ToLower(kind) + "_" + v1alpha1.GroupVersion.Version + ".json", text, nil
}

// Files are the schemas of the CustomResourceDefinitions by the paths of their files.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, document := range [][]byte{deploy.PodPolicyCRD, deploy.NodePolicyCRD, deploy.PolicyExceptionCRD, deploy.FencePolicyCRD, deploy.FenceAgentCRD} {
		schema, kind, err := OfCRD(document)
		if err != nil {
			return nil, err
		}
		path, text, err := File(kind, schema)
		if err != nil {
			return nil, err
		}
		files[path] = text
	}
	return files, nil
}

func encode(schema map[string]any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(schema)
	return text.Bytes(), err
}

// OfCRD is the schema of the kind of a CustomResourceDefinition.
func OfCRD(document []byte) (schema map[string]any, kind string, err error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(document, &crd); err != nil {
		return nil, "", fmt.Errorf("decode the CustomResourceDefinition: %w", err)
	}
	text, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		return nil, "", fmt.Errorf("encode the schema: %w", err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, "", fmt.Errorf("decode the schema: %w", err)
	}
	kind = crd.Spec.Names.Kind
	closed(schema)
	properties, _ := schema["properties"].(map[string]any)
	delete(properties, "status") // nobody writes it
	properties["apiVersion"] = map[string]any{"const": crd.Spec.Group + "/" + crd.Spec.Versions[0].Name}
	properties["kind"] = map[string]any{"const": kind}
	schema["required"] = []any{"apiVersion", "kind", "metadata"}
	return schema, kind, nil
}

// closed makes of Kubernetes' dialect of OpenAPI what a JSON schema says: fields that an object does not have are refused, as the API server
// does with --validate=strict. What only the API server understands is left out.
func closed(schema map[string]any) {
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"] = []any{"integer", "string"}
		delete(schema, "anyOf")
	}
	if schema["nullable"] == true {
		schema["type"] = []any{schema["type"], "null"}
		delete(schema, "nullable")
	}
	preserves := schema["x-kubernetes-preserve-unknown-fields"] == true
	for key := range schema {
		if strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
	}
	properties, ok := schema["properties"].(map[string]any)
	if ok && !preserves && schema["additionalProperties"] == nil && schema["type"] == "object" {
		schema["additionalProperties"] = false
	}
	for _, property := range properties {
		closedOf(property)
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		closedOf(schema[key])
	}
}

func closedOf(value any) {
	if schema, ok := value.(map[string]any); ok {
		closed(schema)
	}
}
