package main

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

// small and large are the clusters that are compared.
var (
	small = size{nodes: 10, namespaces: 10, pods: 150}
	large = size{nodes: 5000, namespaces: 10_000, pods: 150_000}
)

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

// compareSizes answers the same reviews in a small and in a large cluster: pods that are created, by what is asked of the cluster for them, and removals.
func compareSizes(ctx context.Context, o options, reviews []review, out, progress io.Writer) (err error) {
	var sides []*side
	var clusters []client.Client
	var started []*cluster.Cluster
	for _, s := range []size{small, large} {
		c, err2 := cluster.Start(ctx, cluster.Options{Log: progress})
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, c.Stop()) }()
		begin := time.Now()
		if err := fill(ctx, c, s); err != nil {
			return err
		}
		fmt.Fprintf(progress, "%s after %.0fs\n", s, time.Since(begin).Seconds())
		podgrace, err2 := startPodgrace(ctx, c)
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, podgrace.stop()) }()
		kube, err2 := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
		if err2 != nil {
			return fmt.Errorf("make a client: %w", err2)
		}
		podgrace.name = s.String()
		sides, clusters, started = append(sides, podgrace), append(clusters, kube), append(started, c)
	}
	var results []costs
	for _, spread := range spreads {
		for i, kube := range clusters {
			if err := use(ctx, kube, sides[i], spread.constraints, reviews); err != nil {
				return err
			}
		}
		c, err := compareIn(ctx, o, "constraints: "+spread.name, sides, [][]review{reviews, reviews}, progress)
		if err != nil {
			return err
		}
		c.memory = spread.memory
		results = append(results, c)
	}
	for _, r := range removals {
		asked := make([][]review, len(sides))
		for i, kube := range clusters {
			var err error
			if asked[i], err = r.reviews(ctx, kube); err != nil {
				return err
			}
			if err := sides[i].waitAnswers(ctx, asked[i]); err != nil {
				return err
			}
		}
		c, err := compareIn(ctx, o, r.name, sides, asked, progress)
		if err != nil {
			return err
		}
		c.memory = guardMemory
		results = append(results, c)
	}
	var restarts []restarted
	for i, c := range started {
		r, err := restart(ctx, c, sides[i], reviews)
		if err != nil {
			return err
		}
		restarts = append(restarts, r)
	}
	fmt.Fprint(out, reportSizes(results), reportRestarts(restarts))
	return nil
}

// compareIn has the small and the large cluster's webhook answer their reviews.
func compareIn(ctx context.Context, o options, name string, sides []*side, reviews [][]review, progress io.Writer) (costs, error) {
	fmt.Fprintln(progress, name)
	outcome, err := takeTurns(ctx, o, turn{sides[1], reviews[1]}, turn{sides[0], reviews[0]}, progress)
	if err != nil {
		return costs{}, fmt.Errorf("this run is void: %w", err)
	}
	return costs{name: name, small: outcome.bare, large: outcome.podgrace, smallMemory: outcome.bareMemory, largeMemory: outcome.podgraceMemory}, nil
}

// use puts a policy with constraints in force, and waits for it.
func use(ctx context.Context, kube client.Client, s *side, constraints []v1alpha1.TopologySpreadConstraint, reviews []review) error {
	policy := &v1alpha1.PodPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: "sizes"},
		Spec: v1alpha1.PodPolicySpec{Weight: heaviest, TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: constraints}},
	}
	if err := kube.Patch(ctx, policy, client.Apply, client.FieldOwner("bench"), client.ForceOwnership); err != nil { //nolint:staticcheck // there are no apply configurations of our types
		return fmt.Errorf("apply the policy: %w", err)
	}
	inForce := fmt.Sprintf("podgrace_pod_policy_in_force_generation{policy=%q} %d\n", policy.Name, policy.Generation)
	err := cluster.Until(ctx, "the policy in the cluster of "+s.name, func(ctx context.Context) (bool, error) {
		text, err := s.metrics(ctx)
		return strings.Contains(text, inForce), err
	})
	if err != nil {
		return err
	}
	return s.judgeAll(ctx, reviews)
}

// atMost is the goal for the cost of a review in the large cluster, beside the small one.
const atMost = 1.2

func reportSizes(results []costs) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nThe same reviews in a cluster of %s, and in one of %s.\n", large, small)
	fmt.Fprint(&text, "CPU of the webhook for each 1,000 reviews and p50 of the answers' latency, in ms: medians of the rounds; ratios are of the same round: median (lowest..highest). RSS in MiB.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tCPU, small\tlarge\tratio\t\tgoal\t\tp50, small\tlarge\tratio\tRSS, small\tlarge\thighest\tgoal\t")
	for _, r := range results {
		cpu := func(r round) float64 { return r.cpuPer1000 }
		p50 := func(r round) float64 { return r.p50 }
		ours, theirs := each(r.large, cpu), each(r.small, cpu)
		ratio, bound := compare(ours, theirs), goal{atMost: atMost}
		room := goal{atMost: r.memory, unit: " MiB"}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.2f\t(%.2f..%.2f)\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t%s\t%s\n", r.name, median(theirs), median(ours), ratio.median, ratio.min, ratio.max,
			bound, bound.verdict(ratio.median), median(each(r.small, p50)), median(each(r.large, p50)), compare(each(r.large, p50), each(r.small, p50)).median,
			r.smallMemory.Resident/mib, r.largeMemory.Resident/mib, r.largeMemory.Peak/mib, room, room.verdict(r.largeMemory.Resident/mib))
	}
	_ = table.Flush() // into memory
	return text.String()
}
