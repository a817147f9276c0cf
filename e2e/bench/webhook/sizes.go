package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/webhook"
)

// comparison is of two clusters.
type comparison struct{ small, large size }

// promised is what the goals are for.
var promised = comparison{small: size{nodes: 10, namespaces: 10, pods: 150}, large: size{nodes: 5000, namespaces: 10_000, pods: 150_000}}

// spreads are the constraints that reviews are answered by, from the least that is asked of a cluster to the most.
var spreads = []struct {
	name        string
	constraints []v1alpha1.TopologySpreadConstraint
	memory      float64 // the goal, in MiB
}{
	{"soft", []v1alpha1.TopologySpreadConstraint{over(corev1.LabelTopologyZone, corev1.ScheduleAnyway), over(corev1.LabelHostname, corev1.ScheduleAnyway)}, 150},
	{"hard", []v1alpha1.TopologySpreadConstraint{over(corev1.LabelTopologyZone, corev1.DoNotSchedule), over(corev1.LabelHostname, corev1.DoNotSchedule)}, 250},
	{"hard, taints honoured, minDomains short", []v1alpha1.TopologySpreadConstraint{strict(over(corev1.LabelTopologyZone, corev1.DoNotSchedule)), strict(over(corev1.LabelHostname, corev1.DoNotSchedule))}, 250},
}

func over(key string, what corev1.UnsatisfiableConstraintAction) v1alpha1.TopologySpreadConstraint {
	return v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: what}
}

// strict has more domains wanted than there are, so that all of them and then the pods in each are counted.
func strict(c v1alpha1.TopologySpreadConstraint) v1alpha1.TopologySpreadConstraint {
	c.MinDomains, c.NodeTaintsPolicy = new(int32(10_000)), new(corev1.NodeInclusionPolicyHonor)
	return c
}

// heaviest weighs more than the examples' policies, so that its constraints count.
const heaviest = 1_000_000

// costs is what one kind of reviews costs in the two clusters.
type costs struct {
	name                     string
	memory                   float64 // the goal, in MiB
	small, large             []round // paired, without the first
	smallMemory, largeMemory measure.Memory
}

// guardMemory is the goal while removals are judged, in MiB: the informers of the constraints before are still there.
const guardMemory = 250

// place is a filled cluster with its webhook.
type place struct {
	*cluster.Cluster
	*side
	kube client.Client
}

// open starts a cluster, fills it and installs the webhook. What was started is in the place also if it fails.
func open(ctx context.Context, s size, progress io.Writer) (p place, err error) {
	if p.Cluster, err = cluster.Start(ctx, cluster.Options{Log: progress}); err != nil {
		return p, err
	}
	begin := time.Now()
	if err := fill(ctx, p.Cluster, s); err != nil {
		return p, err
	}
	fmt.Fprintf(progress, "%s after %.0fs\n", s, time.Since(begin).Seconds())
	if p.side, err = startPodgrace(ctx, p.Cluster); err != nil {
		return p, err
	}
	p.name = s.String()
	if p.kube, err = client.New(p.Config, client.Options{Scheme: webhook.NewScheme()}); err != nil {
		return p, fmt.Errorf("make a client: %w", err)
	}
	return p, nil
}

func (p place) close() (err error) {
	if p.side != nil {
		err = p.stop()
	}
	if p.Cluster != nil {
		err = errors.Join(err, p.Stop())
	}
	return err
}

// compareSizes answers the same reviews in a small and in a large cluster: pods that are created, by what is asked of the cluster for them, and removals.
func compareSizes(ctx context.Context, o options, of comparison, reviews []review, out, progress io.Writer) (err error) {
	var places [2]place
	for i, s := range []size{of.small, of.large} {
		var failed error
		places[i], failed = open(ctx, s, progress)
		defer func() { err = errors.Join(err, places[i].close()) }()
		if failed != nil {
			return failed
		}
	}
	var results []costs
	for _, spread := range spreads {
		c, err := compareIn(ctx, o, "constraints: "+spread.name, places, func(p place) ([]review, error) {
			return reviews, use(ctx, p, spread.constraints)
		}, progress)
		if err != nil {
			return err
		}
		c.memory = spread.memory
		results = append(results, c)
	}
	for _, r := range removals {
		c, err := compareIn(ctx, o, r.name, places, func(p place) ([]review, error) { return r.reviews(ctx, p.kube) }, progress)
		if err != nil {
			return err
		}
		c.memory = guardMemory
		results = append(results, c)
	}
	var restarts []restarted
	for _, p := range places {
		r, err := restart(ctx, p.Cluster, p.side, reviews)
		if err != nil {
			return err
		}
		restarts = append(restarts, r)
	}
	fmt.Fprint(out, reportSizes(of, results), reportRestarts(restarts))
	return nil
}

// compareIn has the small and the large cluster's webhook answer their reviews, once all of them are answered as they should.
func compareIn(ctx context.Context, o options, name string, places [2]place, ask func(place) ([]review, error), progress io.Writer) (costs, error) {
	fmt.Fprintln(progress, name)
	var turns [2]turn
	for i, p := range places {
		reviews, err := ask(p)
		if err == nil {
			err = p.waitAnswers(ctx, reviews)
		}
		if err != nil {
			return costs{}, err
		}
		turns[i] = turn{p.side, reviews}
	}
	outcome, err := takeTurns(ctx, o, turns[1], turns[0], progress)
	if err != nil {
		return costs{}, fmt.Errorf("this run is void: %w", err)
	}
	return costs{name: name, small: outcome.bare, large: outcome.podgrace, smallMemory: outcome.bareMemory, largeMemory: outcome.podgraceMemory}, nil
}

// use puts a policy with constraints in force, and waits for it.
func use(ctx context.Context, p place, constraints []v1alpha1.TopologySpreadConstraint) error {
	policy := &v1alpha1.PodPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: "sizes"},
		Spec: v1alpha1.PodPolicySpec{Weight: heaviest, TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: constraints}},
	}
	if err := p.kube.Patch(ctx, policy, client.Apply, client.FieldOwner("bench"), client.ForceOwnership); err != nil { //nolint:staticcheck // there are no apply configurations of our types
		return fmt.Errorf("apply the policy: %w", err)
	}
	inForce := fmt.Sprintf("podgrace_pod_policy_in_force_generation{policy=%q} %d\n", policy.Name, policy.Generation)
	return cluster.Until(ctx, "the policy in the cluster of "+p.name, func(ctx context.Context) (bool, error) {
		text, err := p.metrics(ctx)
		return strings.Contains(text, inForce), err
	})
}

// atMost is the goal for the cost of a review in the large cluster, beside the small one.
const atMost = 1.2

func reportSizes(of comparison, results []costs) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nThe same reviews in a cluster of %s, and in one of %s.\n", of.large, of.small)
	fmt.Fprint(&text, "CPU of the webhook for each 1,000 reviews and p50 of the answers' latency, in ms: medians of the rounds; ratios are of the same round: median (lowest..highest). RSS in MiB.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tCPU, small\tlarge\tratio\t\tgoal\t\tp50, small\tlarge\tratio\tRSS, small\tlarge\thighest\tgoal\t")
	for _, r := range results {
		cpu := func(r round) float64 { return r.cpuPer1000 }
		p50 := func(r round) float64 { return r.p50 }
		ours, theirs := each(r.large, cpu), each(r.small, cpu)
		ratio, bound := measure.Compare(ours, theirs), goal{atMost: atMost}
		room := goal{atMost: r.memory, unit: " MiB"}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.2f\t(%.2f..%.2f)\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%s\t%s\n", r.name, measure.Median(theirs), measure.Median(ours), ratio.Median, ratio.Min, ratio.Max,
			bound, bound.verdict(ratio.Median), measure.Median(each(r.small, p50)), measure.Median(each(r.large, p50)), measure.Compare(each(r.large, p50), each(r.small, p50)).Median,
			r.smallMemory.Resident/mib, r.largeMemory.Resident/mib, r.largeMemory.Peak/mib, room, room.verdict(r.largeMemory.Resident/mib))
	}
	_ = table.Flush() // into memory
	return text.String()
}
