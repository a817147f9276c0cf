package graceperiod_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func scheduled(spec *int64) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: spec}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
}

// terminating is a pod whose deletion began some seconds ago, with a grace period.
func terminating(grace *int64, began time.Duration) *corev1.Pod {
	p := scheduled(new(int64(30)))
	deadline := now.Add(-began)
	if grace != nil {
		deadline = deadline.Add(time.Duration(*grace) * time.Second)
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: deadline}, grace
	return p
}

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		spec *int64
		want int64
	}{{nil, 30}, {new(int64(-5)), 1}, {new(int64(0)), 0}, {new(int64(1)), 1}, {new(int64(45)), 45}} {
		if got := graceperiod.Of(&scheduled(tc.spec).Spec); got != tc.want {
			t.Errorf("got %d, want %d", got, tc.want)
		}
	}
}

func TestDelete(t *testing.T) {
	pending := scheduled(new(int64(30)))
	pending.Spec.NodeName = ""
	finished := scheduled(new(int64(30)))
	finished.Status.Phase = corev1.PodFailed
	succeeded := scheduled(new(int64(30)))
	succeeded.Status.Phase = corev1.PodSucceeded
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		requested *int64
		want      graceperiod.Deletion
	}{
		"plain":                                  {scheduled(new(int64(45))), nil, graceperiod.Deletion{Seconds: 45}},
		"plain, spec 0":                          {scheduled(new(int64(0))), nil, graceperiod.Deletion{Force: true}},
		"plain, spec unset":                      {scheduled(nil), nil, graceperiod.Deletion{Force: true}},
		"kubectl delete --force":                 {scheduled(new(int64(45))), new(int64(0)), graceperiod.Deletion{Force: true}},
		"kubectl delete --now":                   {scheduled(new(int64(45))), new(int64(1)), graceperiod.Deletion{Seconds: 1}},
		"negative":                               {scheduled(new(int64(45))), new(int64(-3)), graceperiod.Deletion{Seconds: 1}},
		"longer":                                 {scheduled(new(int64(45))), new(int64(90)), graceperiod.Deletion{Seconds: 90}},
		"never scheduled":                        {pending, nil, graceperiod.Deletion{Force: true}},
		"finished":                               {finished, new(int64(90)), graceperiod.Deletion{Force: true}},
		"succeeded":                              {succeeded, nil, graceperiod.Deletion{Force: true}},
		"terminating, negative":                  {terminating(new(int64(60)), 0), new(int64(-3)), graceperiod.Deletion{Seconds: 1}},
		"terminating, a negative one stored":     {terminating(new(int64(-3)), 0), nil, graceperiod.Deletion{Pending: true, Seconds: 1}},
		"terminating, plain":                     {terminating(new(int64(60)), 5*time.Second), nil, graceperiod.Deletion{Pending: true, Seconds: 60}},
		"terminating, equal":                     {terminating(new(int64(60)), 5*time.Second), new(int64(60)), graceperiod.Deletion{Pending: true, Seconds: 60}},
		"terminating, shorter":                   {terminating(new(int64(60)), 5*time.Second), new(int64(20)), graceperiod.Deletion{Seconds: 20}},
		"terminating, shorter than has elapsed":  {terminating(new(int64(60)), 50*time.Second), new(int64(20)), graceperiod.Deletion{Seconds: 1}},
		"terminating, forced":                    {terminating(new(int64(60)), 5*time.Second), new(int64(0)), graceperiod.Deletion{Force: true}},
		"terminating, a stored 0 was left":       {terminating(new(int64(0)), 5*time.Second), nil, graceperiod.Deletion{Force: true}},
		"terminating, a stored 0, longer wanted": {terminating(new(int64(0)), 5*time.Second), new(int64(30)), graceperiod.Deletion{Force: true}},
		"terminating, nothing stored":            {terminating(nil, 5*time.Second), new(int64(30)), graceperiod.Deletion{Force: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceperiod.Delete(tc.pod, tc.requested, now); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestContainer(t *testing.T) {
	sleep := func(n int64) *corev1.Lifecycle {
		return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: n}}}
	}
	probe := &corev1.Probe{TerminationGracePeriodSeconds: new(int64(7))}
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		c        corev1.Container
		reason   graceperiod.Reason
		override *int64
		want     graceperiod.Stop
	}{
		"plain":                           {scheduled(new(int64(30))), corev1.Container{}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, AfterTerm: 30}},
		"preStop comes out of it":         {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(20)}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, PreStop: 20, AfterTerm: 10}},
		"preStop takes all: the floor":    {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(60)}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, PreStop: 30, AfterTerm: 2}},
		"unknown preStop":                 {scheduled(new(int64(30))), corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}}}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, PreStopUnknown: true, AfterTerm: 30}},
		"the deletion's grace":            {terminating(new(int64(9)), 0), corev1.Container{LivenessProbe: probe}, graceperiod.LivenessProbe, nil, graceperiod.Stop{Total: 9, AfterTerm: 9}},
		"the probe's own":                 {scheduled(new(int64(30))), corev1.Container{LivenessProbe: probe}, graceperiod.LivenessProbe, nil, graceperiod.Stop{Total: 7, AfterTerm: 7}},
		"the startup probe's own":         {scheduled(new(int64(30))), corev1.Container{StartupProbe: probe}, graceperiod.StartupProbe, nil, graceperiod.Stop{Total: 7, AfterTerm: 7}},
		"another probe's is not":          {scheduled(new(int64(30))), corev1.Container{StartupProbe: probe}, graceperiod.LivenessProbe, nil, graceperiod.Stop{Total: 30, AfterTerm: 30}},
		"hard eviction, before preStop":   {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(20)}, graceperiod.Deleted, new(int64(1)), graceperiod.Stop{Total: 1, PreStop: 1, AfterTerm: 2}},
		"an override of 0 skips the hook": {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(20)}, graceperiod.Deleted, new(int64(0)), graceperiod.Stop{Total: 0, AfterTerm: 2}},
		"a hook after the start alone":    {scheduled(new(int64(30))), corev1.Container{Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, AfterTerm: 30}},
		"a sleep of unbelieved length":    {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(604801)}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 30, PreStopUnknown: true, AfterTerm: 30}},
		"an override of 0, unknown hook":  {scheduled(new(int64(30))), corev1.Container{Lifecycle: sleep(604801)}, graceperiod.Deleted, new(int64(0)), graceperiod.Stop{Total: 0, AfterTerm: 2}},
		"a probe without one of its own":  {scheduled(new(int64(30))), corev1.Container{LivenessProbe: &corev1.Probe{}}, graceperiod.LivenessProbe, nil, graceperiod.Stop{Total: 30, AfterTerm: 30}},
		"nothing declared":                {scheduled(nil), corev1.Container{}, graceperiod.Deleted, nil, graceperiod.Stop{Total: 2, AfterTerm: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceperiod.Container(tc.pod, &tc.c, tc.reason, tc.override); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPod(t *testing.T) {
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		override *int64
		want     int64
	}{
		"spec":                           {scheduled(new(int64(30))), nil, 30},
		"spec 0: the floor":              {scheduled(new(int64(0))), nil, 1},
		"the deletion's":                 {terminating(new(int64(9)), 0), nil, 9},
		"eviction shortens":              {scheduled(new(int64(30))), new(int64(5)), 5},
		"eviction shortens a deletion's": {terminating(new(int64(20)), 0), new(int64(5)), 5},
		"nothing declared":               {scheduled(nil), nil, 1},
		"an override can only shorten":   {terminating(new(int64(9)), 0), new(int64(20)), 9},
		"an override of 0 is the floor":  {scheduled(new(int64(30))), new(int64(0)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceperiod.Pod(tc.pod, tc.override); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
