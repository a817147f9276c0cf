package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy"
)

// rollback is a policy, and a CustomResourceDefinition of an older version, which does not know its section removal.
type rollback struct {
	*ground
	name string
}

func newRollback(t *testing.T) *rollback {
	t.Helper()
	s := shared.Get(t)
	r := &rollback{ground: &ground{Suite: s, namespace: s.Namespace(t)}}
	r.name = r.namespace + "-policy"
	return r
}

// policy is what somebody writes, with the section that the older definition does not know or without.
func (r *rollback) policy(removal bool) *unstructured.Unstructured {
	spec := map[string]any{
		"match":       map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: r.namespace}}},
		"gracePeriod": map[string]any{"minSeconds": int64(77)},
	}
	if removal {
		spec["removal"] = map[string]any{"forceDelete": "Deny", "owners": []any{map[string]any{"group": "example.com", "kind": "Database"}}, "allowedActors": []any{"repair"}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodPolicy", "metadata": map[string]any{"name": r.name}, "spec": spec,
	}}
}

// write applies it as a GitOps tool does.
func (r *rollback) write(t *testing.T, removal bool) {
	t.Helper()
	if err := r.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(r.policy(removal)), client.FieldOwner("team"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// older serves the older definition until the function that it returns is called.
func (r *rollback) older(t *testing.T) (newer func()) {
	t.Helper()
	definitions := r.definitions(t)
	newest := definition(t, definitions)
	older := newest.DeepCopy()
	spec := older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "removal")
	spec.XValidations = slices.DeleteFunc(spec.XValidations, func(rule apiextensionsv1.ValidationRule) bool { return strings.Contains(rule.Rule, "self.removal") })
	older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	serve := func(d client.Object, knows bool) {
		d.SetResourceVersion(definition(t, definitions).ResourceVersion)
		if err := definitions.Update(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, "the other definition", func(ctx context.Context) (bool, error) {
			probe := r.policy(true)
			probe.SetName("probe")
			err := r.Client.Create(ctx, probe, client.DryRunAll, client.FieldValidation("Strict"))
			if knows || err == nil {
				return knows && err == nil, err
			}
			return strings.Contains(err.Error(), "unknown field"), nil
		})
	}
	serve(older, false)
	return func() { serve(newest.DeepCopy(), true) }
}

// stored is the policy as the API server reads it.
func (r *rollback) stored(t *testing.T) *v1alpha1.PodPolicy {
	t.Helper()
	var now v1alpha1.PodPolicy
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: r.name}, &now); err != nil {
		t.Fatal(err)
	}
	return &now
}

// touch writes a label, so that everybody who watches policies looks again.
func (r *rollback) touch(t *testing.T) {
	t.Helper()
	p := r.stored(t)
	patch := client.MergeFrom(p.DeepCopy())
	p.Labels = map[string]string{"touched": p.ResourceVersion}
	if err := r.Client.Patch(t.Context(), p, patch); err != nil {
		t.Fatal(err)
	}
}

// says waits for a status.
func (r *rollback) says(t *testing.T, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	suite.Eventually(t, reason, func(context.Context) (bool, error) {
		c := meta.FindStatusCondition(r.stored(t).Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			return false, fmt.Errorf("it says %+v", c)
		}
		return true, nil
	})
}

// An older version's CustomResourceDefinition is put back, as a rollback does, under a policy of a newer one: the API server drops what it does not know from
// what it reads, and with the next write for good. Podgrace notices by the managed fields, says so, and lets no removal through that the policy, whose
// section removal denied, may have refused, until somebody writes the policy again.
func TestOlderDefinition(t *testing.T) {
	r := newRollback(t)
	node := r.node(t, "older-definition")
	r.write(t, true)
	t.Cleanup(func() { _ = r.Client.Delete(context.Background(), r.policy(false)) })
	r.says(t, metav1.ConditionTrue, v1alpha1.ReasonValid, "")
	r.WaitInForce(t, r.stored(t)) // the status is the leader's word, and the compiled limits may be there before the webhook knows what they limit
	ordinary := r.runs(t, node, "ordinary")
	force := func(p *corev1.Pod) error {
		return r.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0), client.DryRunAll)
	}
	if err := force(ordinary); err != nil {
		t.Fatalf("the policy does not protect it: %v", err)
	}

	newer := r.older(t)
	defer func() { newer() }()
	read := r.stored(t)
	if read.Spec.Removal != nil {
		t.Fatalf("the older definition knows removal: %+v", read.Spec.Removal)
	}
	if got := policy.UnreadFields(read); !slices.Equal(got, []string{"spec.removal"}) {
		t.Fatalf("not read: %q, of %s", got, read.ManagedFields)
	}
	outOfForce := `podgrace_pod_policy_out_of_force{policy="` + r.name + `"} 1`
	fresh := r.replica(t)
	suite.Eventually(t, "a fresh replica that tells of it", func(ctx context.Context) (bool, error) {
		_, text, err := get(ctx, fresh.MetricsURL+"/metrics")
		return strings.Contains(text, outOfForce), err
	})

	r.touch(t) // which drops the field for good
	r.says(t, metav1.ConditionFalse, v1alpha1.ReasonFieldsUnread, "in force, but for spec.removal")
	suite.Eventually(t, "the replica that ran before tells of it, too", func(ctx context.Context) (bool, error) {
		text, err := r.Metrics(ctx)
		return strings.Contains(text, outOfForce), err
	})
	wantRefused(t, "a force delete", force(ordinary), "PodPolicy "+r.name)
	if got := *r.runs(t, node, "limited").Spec.TerminationGracePeriodSeconds; got != 77 {
		t.Errorf("the rest of the policy is not in force: %d s", got)
	}

	newer()
	newer = func() {}
	r.touch(t)
	r.says(t, metav1.ConditionFalse, v1alpha1.ReasonFieldsUnread, "spec.removal")
	r.write(t, true)
	r.says(t, metav1.ConditionTrue, v1alpha1.ReasonValid, "")
	r.WaitInForce(t, r.stored(t))
	if err := force(ordinary); err != nil {
		t.Errorf("written anew: %v", err)
	}
}

// manifest writes a policy to a file.
func manifest(t *testing.T, p *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(p.Object)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// kubectl runs it, once more where it was in conflict with who writes the status.
func (r *rollback) kubectl(t *testing.T, args ...string) {
	t.Helper()
	suite.Eventually(t, "kubectl without a conflict", func(ctx context.Context) (bool, error) {
		_, _, err := r.Kubectl(ctx, args...)
		if err != nil && !strings.Contains(err.Error(), "the object has been modified") {
			t.Fatal(err)
		}
		return err == nil, err
	})
}

// Who means the policy to be without the field writes it so under the older definition, too: as one that owns its fields.
func TestOlderDefinitionWrittenWithout(t *testing.T) {
	for name, way := range map[string]struct{ before, after func(*testing.T, *rollback) }{
		"by server-side apply": {
			func(t *testing.T, r *rollback) { r.write(t, true) },
			func(t *testing.T, r *rollback) { r.write(t, false) },
		},
		"by kubectl apply": {
			func(t *testing.T, r *rollback) { r.kubectl(t, "apply", "-f", manifest(t, r.policy(true))) },
			func(t *testing.T, r *rollback) {
				r.kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", manifest(t, r.policy(false)))
			},
		},
		"whoever wrote it": {
			func(t *testing.T, r *rollback) { r.kubectl(t, "create", "-f", manifest(t, r.policy(true))) },
			func(t *testing.T, r *rollback) {
				r.kubectl(t, "patch", "podpolicy", r.name, "--type=json", `-p=[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollback(t)
			way.before(t, r)
			t.Cleanup(func() { _ = r.Client.Delete(context.Background(), r.policy(false)) })
			newer := r.older(t)
			defer newer()
			r.touch(t)
			r.says(t, metav1.ConditionFalse, v1alpha1.ReasonFieldsUnread, "spec.removal")
			way.after(t, r)
			r.says(t, metav1.ConditionTrue, v1alpha1.ReasonValid, "")
		})
	}
}

// What was taken out of a policy on purpose is not missed, whoever takes it out, and how.
func TestRemovedFieldsAreNotMissed(t *testing.T) {
	r := newRollback(t)
	for name, remove := range map[string]func(*testing.T){
		"kubectl apply": func(t *testing.T) { r.kubectl(t, "apply", "-f", manifest(t, r.policy(false))) },
		"kubectl apply --server-side": func(t *testing.T) {
			r.kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", manifest(t, r.policy(false)))
		},
		"kubectl replace": func(t *testing.T) { r.kubectl(t, "replace", "-f", manifest(t, r.policy(false))) },
		"a merge patch": func(t *testing.T) {
			r.kubectl(t, "patch", "podpolicy", r.name, "--type=merge", `-p={"spec":{"removal":{"owners":null,"allowedActors":null}}}`)
		},
		"the whole section": func(t *testing.T) {
			r.kubectl(t, "patch", "podpolicy", r.name, "--type=json", `-p=[{"op":"remove","path":"/spec/removal"}]`)
		},
		"by hand": func(t *testing.T) {
			suite.Eventually(t, "an update without a conflict with who writes the status", func(ctx context.Context) (bool, error) {
				p := r.stored(t)
				p.Spec.Removal.Owners, p.Spec.GracePeriod, p.Spec.Match = nil, nil, nil
				err := r.Client.Update(ctx, p, client.FieldOwner("hand"))
				return err == nil, err
			})
		},
	} {
		for writer, write := range map[string]func(*testing.T){
			"kubectl apply": func(t *testing.T) { r.kubectl(t, "apply", "-f", manifest(t, r.policy(true))) },
			"server-side":   func(t *testing.T) { r.write(t, true) },
		} {
			t.Run(name+" after "+writer, func(t *testing.T) {
				write(t)
				before := r.stored(t)
				if got := policy.UnreadFields(before); len(got) > 0 {
					t.Errorf("just written, and not read: %q", got)
				}
				remove(t)
				after := r.stored(t)
				if before.Generation == after.Generation && !strings.HasPrefix(name, "kubectl apply") { // which takes out only what it has put in itself
					t.Error("nothing was removed")
				}
				if got := policy.UnreadFields(after); len(got) > 0 {
					t.Errorf("%q are missed; spec %+v, managed %s", got, after.Spec, after.ManagedFields)
				}
				if err := r.Client.Delete(t.Context(), after); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
