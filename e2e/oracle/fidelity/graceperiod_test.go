package fidelity

import (
	"context"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// graceCase is a DELETE of a stored pod. Times are relative, since BeforeDelete reads the clock itself.
type graceCase struct {
	Scheduled   bool
	Phase       corev1.PodPhase
	Spec        *int64
	Terminating bool
	Deadline    time.Duration // the deletionTimestamp, from now
	Stored      *int64
	Requested   *int64
}

func (c *graceCase) GoString() string { return draw.Show(c) }

var gracePeriodCases = draw.Of(func(s draw.Source) *graceCase {
	c := &graceCase{
		Scheduled:   !s.Chance(2),
		Phase:       draw.Pick(s, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodUnknown, corev1.PodFailed, corev1.PodSucceeded, ""),
		Spec:        draw.Maybe(s, 14, graceSeconds(s)...),
		Terminating: s.Chance(8),
		Requested:   draw.Maybe(s, 12, graceSeconds(s)...),
	}
	if c.Terminating {
		c.Stored = draw.Maybe(s, 15, graceSeconds(s)...)
		// Half a second off, so that the clock's advance between the two answers crosses no border.
		c.Deadline = time.Duration(s.Below(161)-80)*time.Second + time.Second/2
	}
	if near := c.Stored; near != nil && s.Chance(6) {
		c.Requested = new(*near + draw.Pick[int64](s, 0, -1, 1))
	}
	return c
})

// graceSeconds are what users and earlier deletes leave, and sometimes the ends of the type.
func graceSeconds(s draw.Source) []int64 {
	if s.Rarely() {
		return []int64{math.MaxInt64, math.MinInt64, 1 << 40, 1 << 34, -1 << 34}
	}
	return []int64{30, 0, 1, -1, 10, 29, 31, 60, -30, 2, 45, 3600}
}

// pod returns the pod as the strategy gets it and as a webhook would. They differ in their types only: conversion and
// defaulting, which would change a missing or negative grace period, are the business of other properties.
func (c *graceCase) pod(now time.Time) (*core.Pod, *corev1.Pod) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "pod", UID: "1", Generation: 1}
	if c.Terminating {
		meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(c.Deadline)}, c.Stored
	}
	node := ""
	if c.Scheduled {
		node = "n0"
	}
	internal := &core.Pod{ObjectMeta: meta, Spec: core.PodSpec{NodeName: node, TerminationGracePeriodSeconds: c.Spec}, Status: core.PodStatus{Phase: core.PodPhase(c.Phase)}}
	external := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: c.Spec}, Status: corev1.PodStatus{Phase: c.Phase}}
	return internal.DeepCopy(), external.DeepCopy()
}

// serverDelete is what the generic store does with a DELETE (k8s.io/apiserver/pkg/registry/generic/registry/store.go Delete
// and updateForGracefulDeletionAndFinalizers, 0.36.3), with the pod's real strategy: BeforeDelete is asked twice, with the
// same options, which the first call may have written. What it stores is the second one's.
func serverDelete(t *rapid.T, stored *core.Pod, requested *int64) graceperiod.Deletion {
	options := &metav1.DeleteOptions{GracePeriodSeconds: requested}
	before := func(pod *core.Pod) (graceful, pending bool) {
		graceful, pending, err := rest.BeforeDelete(podregistry.Strategy, context.Background(), pod, options)
		if err != nil {
			t.Fatalf("BeforeDelete: %v", err)
		}
		return graceful, pending
	}
	graceful, pending := before(stored.DeepCopy())
	if pending {
		return graceperiod.Deletion{Pending: true, Seconds: positive(stored.DeletionGracePeriodSeconds)}
	}
	if !graceful { // no update: removed at once
		return graceperiod.Deletion{Force: true}
	}
	updated := stored.DeepCopy()
	if graceful, pending = before(updated); !graceful || pending {
		t.Fatalf("the second BeforeDelete says otherwise: graceful %v, pending %v", graceful, pending)
	}
	// The store goes on to the removal where the options, not the object, say 0.
	if *options.GracePeriodSeconds == 0 {
		if g := updated.DeletionGracePeriodSeconds; g == nil || *g != 0 {
			t.Fatalf("removed, but %v is stored", ptr.Deref(g, -1))
		}
		return graceperiod.Deletion{Force: true}
	}
	return graceperiod.Deletion{Seconds: *updated.DeletionGracePeriodSeconds}
}

// positive is a stored grace period as BeforeDelete mends it.
func positive(g *int64) int64 {
	if *g < 0 {
		return 1
	}
	return *g
}

// TestFidelityGracePeriod: graceperiod.Delete foresees what the API server does with a DELETE: whether it removes the pod
// at once, changes nothing, or gives it time, and how much.
func TestFidelityGracePeriod(t *testing.T) {
	t.Parallel()
	wanted := draw.Shares{"force": 15, "force, by a stored 0": 1, "pending": 8, "graceful": 20, "shortened": 3, "shortened to what is left of it: 1": 0.5}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := gracePeriodCases.Draw(t, "case")
		now := time.Now()
		internal, external := c.pod(now)
		untouched := external.DeepCopy()
		got := graceperiod.Delete(external, c.Requested, now)
		if want := serverDelete(t, internal, clone(c.Requested)); got != want {
			t.Fatalf("got %+v, the API server %+v\n%s", got, want, draw.Show(c))
		}
		if draw.Show(untouched) != draw.Show(external) {
			t.Fatalf("the pod was changed\n%s", draw.Show(external))
		}
		c.count(got, counts)
	})
}

func clone(n *int64) *int64 {
	if n == nil {
		return nil
	}
	return new(*n)
}

func (c *graceCase) count(d graceperiod.Deletion, counts *draw.Tally) {
	switch {
	case d.Force:
		counts.Add("force")
		if c.Terminating && c.Stored != nil && *c.Stored == 0 {
			counts.Add("force, by a stored 0")
		}
	case d.Pending:
		counts.Add("pending")
	case c.Terminating:
		counts.Add("shortened")
		if d.Seconds == 1 && c.Requested != nil && *c.Requested > 1 {
			counts.Add("shortened to what is left of it: 1")
		}
	default:
		counts.Add("graceful")
	}
}
