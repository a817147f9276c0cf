package limits

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// oldest is the oldest API server that Podgrace runs with (docs/install.md): what it does not know it would refuse to store.
var oldest = version.MajorMinor(1, 32)

// What takes some MiB, or milliseconds, is made when the first policy with limits is compiled.
var (
	expressions = sync.OnceValue(func() *environment.EnvSet { return environment.MustBaseEnvSet(oldest) })
	conditions  = sync.OnceValue(func() plugincel.ConditionCompiler { return plugincel.NewConditionCompiler(expressions()) })
)

// What a match condition may read to mean the same to the API server, which shows it everything, as to defaulting, which hides what Podgrace writes
// and gives only the name and labels of the namespace. Each is a struct by whose fields, as JSON has them, it is found.
type (
	seenPod struct {
		Metadata seenMeta       `json:"metadata"`
		Spec     corev1.PodSpec `json:"spec"`
	}
	seenMeta struct {
		Name            string                  `json:"name"`
		GenerateName    string                  `json:"generateName"`
		Namespace       string                  `json:"namespace"`
		Labels          map[string]string       `json:"labels"`
		Annotations     annotations             `json:"annotations"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		Finalizers      []string                `json:"finalizers"`
	}
	seenNamespace struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	seenRequest struct {
		Namespace string                    `json:"namespace"`
		Operation string                    `json:"operation"`
		DryRun    bool                      `json:"dryRun"`
		UserInfo  authenticationv1.UserInfo `json:"userInfo"`
	}
	// annotations are not all shown to a condition: without those of Podgrace there may be none. So they can be asked one by one only.
	annotations map[string]string
	// ifAny are annotations by ?annotations, which are empty where there are none.
	ifAny map[string]string
)

var roots = map[string]reflect.Type{
	"object": reflect.TypeFor[seenPod](), "namespaceObject": reflect.TypeFor[seenNamespace](), "request": reflect.TypeFor[seenRequest](),
}

// translatable says why the expression of a match condition can't be judged by the API server just as defaulting does; empty: it can.
func translatable(expression string) string {
	env := expressions().NewExpressionsEnv()
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return "can't be read by the oldest API server that Podgrace runs with"
	}
	if _, err := typeOf(parsed.NativeRep().Expr()); err != nil {
		return err.Error()
	}
	condition := matchconditions.MatchCondition(admissionregistrationv1.MatchCondition{Name: "c", Expression: expression})
	compiled := conditions().CompileCondition([]plugincel.ExpressionAccessor{&condition}, plugincel.OptionalVariableDeclarations{}, environment.NewExpressions)
	if len(compiled.CompilationErrors()) > 0 {
		return "is not known to the oldest API server that Podgrace runs with"
	}
	return ""
}

// errReads is about something that is not the same to both.
func errReads(what string) error {
	return fmt.Errorf("reads %s, which may not be the same to the API server", what)
}

// typeOf returns what an expression reads of the roots; nil: what it computes. The error says what it reads that it may not.
func typeOf(e ast.Expr) (reflect.Type, error) {
	switch e.Kind() {
	case ast.LiteralKind:
		return nil, nil
	case ast.IdentKind:
		if t, ok := roots[e.AsIdent()]; ok {
			return t, nil
		}
		return nil, errReads(e.AsIdent())
	case ast.SelectKind:
		s := e.AsSelect()
		t, err := field(s.Operand(), s.FieldName())
		if s.IsTestOnly() {
			if t == reflect.TypeFor[annotations]() {
				return nil, errReads("whether there are annotations")
			}
			return nil, err
		}
		return t, err
	case ast.ListKind:
		return nil, plain(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if err := plain(entry.AsMapEntry().Key(), entry.AsMapEntry().Value()); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case ast.CallKind:
		return typeOfCall(e.AsCall())
	}
	// How long going through a list takes is not bounded by its cost.
	return nil, fmt.Errorf("goes through a list or is otherwise more than a comparison")
}

func typeOfCall(c ast.CallExpr) (reflect.Type, error) {
	arguments := c.Args()
	switch c.FunctionName() {
	case operators.OptSelect:
		t, err := field(arguments[0], arguments[1].AsLiteral().Value().(string))
		if t == reflect.TypeFor[annotations]() {
			t = reflect.TypeFor[ifAny]()
		}
		return t, err
	case operators.Index, operators.OptIndex:
		return element(arguments[0], arguments[1])
	case operators.In:
		t, err := typeOf(arguments[1])
		if t == reflect.TypeFor[ifAny]() && err == nil {
			return nil, ownKey(arguments[0])
		}
		return nil, plain(arguments...)
	case "orValue", "value":
		if c.IsMemberFunction() {
			if err := plain(arguments...); err != nil {
				return nil, err
			}
			return typeOf(c.Target())
		}
	}
	if c.IsMemberFunction() {
		arguments = append([]ast.Expr{c.Target()}, arguments...)
	}
	if c.FunctionName() == overloads.Size && len(arguments) == 1 {
		return nil, measured(arguments[0])
	}
	return nil, plain(arguments...)
}

// measured is what has a size. A list has the same to both, whatever is in it.
func measured(e ast.Expr) error {
	t, err := typeOf(e)
	if err == nil && t != nil && t.Kind() == reflect.Slice {
		return nil
	}
	return plain(e)
}

// field is that of a struct or the value of a map.
func field(of ast.Expr, name string) (reflect.Type, error) {
	t, err := typeOf(of)
	if err != nil || t == nil {
		return nil, err
	}
	switch {
	case t.Kind() == reflect.Struct:
		return fieldOf(t, name)
	case t == reflect.TypeFor[annotations](), t == reflect.TypeFor[ifAny]():
		return nil, errReads("annotations otherwise than by a literal key")
	case t.Kind() == reflect.Map:
		return t.Elem(), nil
	}
	return nil, errReads(name + " of what has no fields")
}

func fieldOf(t reflect.Type, name string) (reflect.Type, error) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" && (f.Anonymous || strings.Contains(options, "inline")) && f.Type.Kind() == reflect.Struct {
			if found, err := fieldOf(f.Type, name); err == nil {
				return found, nil
			}
		}
		if tag == name && name != "" && name != "-" {
			found := f.Type
			for found.Kind() == reflect.Pointer {
				found = found.Elem()
			}
			return found, nil
		}
	}
	return nil, errReads("the field " + name)
}

// element of a list or a map.
func element(of, key ast.Expr) (reflect.Type, error) {
	t, err := typeOf(of)
	if err != nil {
		return nil, err
	}
	if t == reflect.TypeFor[annotations]() || t == reflect.TypeFor[ifAny]() {
		return nil, ownKey(key)
	}
	if err := plain(key); err != nil {
		return nil, err
	}
	switch {
	case t == nil:
		return nil, nil
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		return t.Elem(), nil
	}
	return nil, errReads("a field by a computed name")
}

// ownKey refuses a key of an annotation that may be hidden.
func ownKey(key ast.Expr) error {
	if key.Kind() == ast.LiteralKind {
		switch name, _ := key.AsLiteral().Value().(string); name {
		case "", v1alpha1.AnnotationEnforcement, v1alpha1.AnnotationProtected:
		default:
			return nil
		}
	}
	return errReads("annotations otherwise than by a literal key")
}

// plain refuses values that may have parts which are hidden or which this version does not know.
func plain(all ...ast.Expr) error {
	for _, e := range all {
		t, err := typeOf(e)
		if err != nil {
			return err
		}
		if !plainType(t) {
			return errReads("a part of the pod as a whole")
		}
	}
	return nil
}

func plainType(t reflect.Type) bool {
	if t == nil {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Interface:
		return false
	case reflect.Map, reflect.Slice, reflect.Pointer:
		return t != reflect.TypeFor[annotations]() && t != reflect.TypeFor[ifAny]() && plainType(t.Elem())
	}
	return true
}
