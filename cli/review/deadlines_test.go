package review_test

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// A remark names the pods that would not get their grace period on a node where they may run, once for each deadline.
func TestRemarkDeadlines(t *testing.T) {
	const (
		pool    = `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"batch"},"spec":{"template":{"spec":{"terminationGracePeriod":"90s","taints":[{"key":"batch","effect":"NoSchedule"}]}}}}`
		kubelet = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","shutdownGracePeriod":"60s","shutdownGracePeriodCriticalPods":"10s"}`
		node    = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"NAME","labels":{"cloud.google.com/gke-spot":"true","disk":"DISK"}}}`
		ca      = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"ca","namespace":"kube-system"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"cluster-autoscaler:v1","args":["--max-graceful-termination-sec=100"]}]}}}}`
		pod     = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","namespace":"shop"},"spec":{"terminationGracePeriodSeconds":GRACE,SPEC"containers":[{"name":"c","image":"i"}]}}`
		ssd     = `"nodeSelector":{"disk":"ssd"},`
		hdd     = `"nodeSelector":{"disk":"hdd"},`
		batch   = `"nodeSelector":{"disk":"tape"},"tolerations":[{"key":"batch","operator":"Exists"}],`
	)
	one := func(name, grace, spec string) string {
		return strings.NewReplacer("NAME", name, "GRACE", grace, "SPEC", spec).Replace(pod)
	}
	disk := func(name, of string) string { return strings.NewReplacer("NAME", name, "DISK", of).Replace(node) }
	for name, test := range map[string]struct{ state, pods, want []string }{
		"nothing is known":        {nil, []string{one("a", "600", "")}, nil},
		"within all of them":      {[]string{kubelet, ca}, []string{one("a", "50", "")}, nil},
		"a kubelet":               {[]string{kubelet}, []string{one("a", "51", "")}, []string{"a shutdown of the node (the kubelet's shutdownGracePeriod less shutdownGracePeriodCriticalPods): it leaves a pod 50 s at most, and the grace period is longer for Pod shop/a (51 s); raise it in the kubelet's configuration, or lower the grace period"}},
		"a tainted pool":          {[]string{pool}, []string{one("a", "120", "")}, nil},
		"a pool that is allowed":  {[]string{pool}, []string{one("a", "120", strings.Replace(batch, `"nodeSelector":{"disk":"tape"},`, "", 1))}, []string{"NodePool batch): it leaves a pod 90 s at most"}},
		"a pool of another label": {[]string{pool}, []string{one("a", "120", batch)}, nil},
		"spot nodes":              {[]string{disk("n1", "ssd"), disk("n2", "hdd")}, []string{one("a", "60", ssd), one("b", "60", hdd), one("c", "60", batch), one("d", "20", ssd)}, []string{"longer for Pod shop/a (60 s), Pod shop/b (60 s); run it on"}},
		"more than it names":      {[]string{ca}, []string{one("a", "200", ""), one("b", "200", ""), one("c", "200", ""), one("d", "200", "")}, []string{"and 1 more"}},
		"each deadline once":      {[]string{ca, ca, kubelet}, []string{one("a", "200", "")}, []string{"leaves a pod 50 s", "leaves a pod 100 s"}},
		"a node that changed":     {[]string{disk("n1", "ssd"), disk("n1", "hdd")}, []string{one("a", "60", ssd)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			state := review.NewState()
			var documents []*manifest.Document
			for _, text := range test.state {
				d := document(t, text)
				documents = append(documents, d)
				if err := state.Add(d, ""); err != nil {
					t.Fatal(err)
				}
			}
			if errs := state.AddDeadlines(documents); len(errs) > 0 {
				t.Fatal(errs)
			}
			engine, err := review.NewEngine(state)
			if err != nil {
				t.Fatal(err)
			}
			var results []review.Result
			for _, text := range test.pods {
				r, wrong := engine.Review(t.Context(), document(t, text), review.Question{})
				if wrong != nil {
					t.Fatal(wrong)
				}
				results = append(results, *r)
			}
			remarks := engine.RemarkDeadlines(results)
			if len(remarks) != len(test.want) {
				t.Fatalf("%v, want %d", remarks, len(test.want))
			}
			for i, r := range remarks {
				if got := r.Deadline + ": " + r.Message; !strings.Contains(got, test.want[i]) {
					t.Errorf("%q lacks %q", got, test.want[i])
				}
			}
		})
	}
}

// What is no KubeletConfiguration is an error, not a pass.
func TestUnreadableKubeletConfiguration(t *testing.T) {
	d := document(t, `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","shutdownGracePeriod":"soon"}`)
	if errs := review.NewState().AddDeadlines([]*manifest.Document{d}); len(errs) != 1 || !strings.Contains(errs[0].Error(), "read the KubeletConfiguration") {
		t.Error(errs)
	}
}
