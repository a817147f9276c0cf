package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy"
)

const next = "v1beta1"

// The next version of the API, equal to this one, as docs/versions.md says that it will come: both are served with strategy None, what is written by one is in
// force and is read by the other; then it becomes the one that is stored, and after all objects were written again the older is not stored any more. And back.
func TestNextVersion(t *testing.T) {
	g := newGround(t)
	definitions := g.definitions(t)
	change := func(what string, f func(*apiextensionsv1.CustomResourceDefinition)) error {
		d := definition(t, definitions)
		f(d)
		if err := definitions.Update(context.Background(), d); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	written := func(version, name string, spec map[string]any) *unstructured.Unstructured {
		spec["match"] = map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: g.namespace}}}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.Group + "/" + version, "kind": "PodPolicy", "metadata": map[string]any{"name": g.namespace + "-" + name}, "spec": spec,
		}}
	}
	made := func(p *unstructured.Unstructured) *unstructured.Unstructured {
		t.Helper()
		suite.Eventually(t, "a policy of "+p.GetAPIVersion(), func(ctx context.Context) (bool, error) { // until the API server serves the version
			err := g.Client.Create(ctx, p)
			return err == nil, err
		})
		t.Cleanup(func() {
			_ = g.Client.Delete(context.Background(), &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.GetName()}})
		})
		return p
	}
	before := made(written("v1alpha1", "before", map[string]any{"removal": map[string]any{"forceDelete": "Deny"}}))

	must(change("serve both", func(d *apiextensionsv1.CustomResourceDefinition) {
		beta := *d.Spec.Versions[0].DeepCopy()
		beta.Name, beta.Storage = next, false
		d.Spec.Versions = append(d.Spec.Versions, beta)
	}))
	t.Cleanup(func() {
		if err := change("serve the one again", func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == next })
		}); err != nil {
			t.Error(err)
		}
	})
	after := made(written(next, "after", map[string]any{"weight": int64(9), "gracePeriod": map[string]any{"minSeconds": int64(77)}}))
	for _, p := range []*unstructured.Unstructured{before, after} {
		for _, version := range []string{"v1alpha1", next} {
			read := written(version, "", map[string]any{})
			must(g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), read))
			if got, want := fmt.Sprint(read.Object["spec"]), fmt.Sprint(p.Object["spec"]); got != want {
				t.Errorf("%s as %s: %s, want %s", p.GetName(), version, got, want)
			}
		}
	}
	suite.Eventually(t, "what was written by the next version in force", func(ctx context.Context) (bool, error) {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		p.Namespace, p.Name = g.namespace, "probe"
		err := g.Client.Create(ctx, p, client.DryRunAll)
		return err == nil && *p.Spec.TerminationGracePeriodSeconds == 77, err
	})
	suite.Eventually(t, "its status, which misses nothing", func(ctx context.Context) (bool, error) {
		var now v1alpha1.PodPolicy
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(after), &now)
		return err == nil && meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) && len(policy.UnreadFields(&now)) == 0, err
	})
	// The webhook's rules name the older version, and hold for both: only the webhook sees what is wrong with this one.
	wrong := written(next, "wrong", map[string]any{"gracePeriod": map[string]any{"minSeconds": int64(5)}})
	must(unstructured.SetNestedSlice(wrong.Object, []any{map[string]any{"name": "x", "expression": "no CEL at all"}}, "spec", "match", "matchConditions"))
	wantRefused(t, "a policy that can't be read, by the next version", g.Client.Create(t.Context(), wrong), "policies.validate.podgrace.dev")

	store := func(version string) {
		t.Helper()
		must(change("store "+version, func(d *apiextensionsv1.CustomResourceDefinition) {
			for i := range d.Spec.Versions {
				d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == version
			}
		}))
		suite.Eventually(t, "all objects stored by "+version, func(ctx context.Context) (bool, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodPolicyList"))
			if err := g.Client.List(ctx, list); err != nil {
				return false, err
			}
			for i := range list.Items {
				if err := g.Client.Update(ctx, &list.Items[i]); err != nil {
					return false, err
				}
				if got, err := g.storedVersion(ctx, list.Items[i].GetName()); err != nil || got != v1alpha1.GroupVersion.Group+"/"+version {
					return false, fmt.Errorf("%s is stored as %q: %w", list.Items[i].GetName(), got, err)
				}
			}
			return true, nil
		})
		d := definition(t, definitions)
		d.Status.StoredVersions = []string{version}
		must(definitions.Status().Update(t.Context(), d))
	}
	store(next)
	if err := change("take the stored one away", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = d.Spec.Versions[:1]
		d.Spec.Versions[0].Storage = true
	}); err == nil || !strings.Contains(err.Error(), "storedVersions") {
		t.Errorf("an older definition was taken although objects are stored by the next version: %v", err)
	}
	pod := g.runs(t, g.node(t, "next-version"), "guarded")
	wantRefused(t, "a force delete", g.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)), "may still run on next-version")
	store("v1alpha1")
}

// storedVersion is the apiVersion of a policy in etcd.
func (g *ground) storedVersion(ctx context.Context, name string) (string, error) {
	key := base64.StdEncoding.EncodeToString([]byte("/registry/podgrace.dev/podpolicies/" + name))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.EtcdURL()+"/v3/kv/range", bytes.NewBufferString(`{"key":"`+key+`"}`))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var found struct {
		KVs []struct{ Value []byte }
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil || len(found.KVs) != 1 {
		return "", fmt.Errorf("read %s in etcd: %d found, %w", name, len(found.KVs), err)
	}
	var object struct{ APIVersion string }
	err = json.Unmarshal(found.KVs[0].Value, &object)
	return object.APIVersion, err
}
