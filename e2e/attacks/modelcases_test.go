package attacks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A model that finds nothing wrong with anything would let every walk pass.
func TestModel(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }
	node := func(heard int, ready corev1.ConditionStatus, change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n1", Annotations: map[string]string{}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Time{Time: at(heard)}}}
		for _, c := range change {
			c(n)
		}
		return n
	}
	confirmedOff := func(n *corev1.Node) { n.Annotations[confirmOff] = "n1/off" }
	anew := func(n *corev1.Node) { n.Status.Conditions = nil }
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }
	lease := func(renewed int) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at(renewed)}}}
	}
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "guarded", Name: "db-0", UID: "p1", Annotations: map[string]string{}}, Spec: corev1.PodSpec{NodeName: "n", Hostname: "db-0"}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	before := pod(func(p *corev1.Pod) { p.UID, p.Status.Phase = "p0", corev1.PodFailed })
	says := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[confirmForceDelete] = text }
	}
	ends := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	gone := func(o any) event { return event{deleted: true, object: o} }
	is := func(o any) event { return event{object: o} }
	off := []event{is(lease(0)), is(node(0, corev1.ConditionUnknown)), is(pod()), is(node(0, corev1.ConditionUnknown, confirmedOff))}
	on := []event{is(lease(0)), is(node(0, corev1.ConditionTrue)), is(pod())}
	const pVanished, pEnded, nVanished, outOf = "protected pod vanished", "protected pod ended", "Node vanished", "out-of-service taint"
	for name, tt := range map[string]struct {
		events []event
		say    func(*said)
		recent uint64 // all but what is listed is long ago, unless said otherwise
		want   string // what without a reason; empty: nothing
	}{
		"force-deleted":                  {events: append(on, gone(pod())), want: pVanished},
		"ended by somebody":              {events: append(on, is(pod(ends))), want: pEnded},
		"ended, then deleted: told once": {events: append(on, is(pod(ends)), gone(pod(ends))), want: pEnded},
		"by its kubelet":                 {events: append(on, is(pod(ends)), gone(pod(ends))), say: func(s *said) { s.ended["p1"] = true }},
		"by an allowed actor":            {events: append(on, gone(pod())), say: func(s *said) { s.actors["p1"] = true }},
		"never scheduled":                {events: []event{is(pod(func(p *corev1.Pod) { p.Spec.NodeName = "" })), gone(pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }))}},
		"nothing to lose":                {events: []event{is(pod(func(p *corev1.Pod) { p.Spec.Hostname = "" })), gone(pod(func(p *corev1.Pod) { p.Spec.Hostname = "" }))}},
		"with an exclusive claim":        {events: append(on[:2:2], is(pod(func(p *corev1.Pod) { p.Spec.Hostname = "" })), gone(pod(func(p *corev1.Pod) { p.Spec.Hostname = "" }))), say: func(s *said) { s.exclusive["p1"] = true }, want: pVanished},
		"without a policy":               {events: []event{is(pod(func(p *corev1.Pod) { p.Namespace = "open" })), gone(pod(func(p *corev1.Pod) { p.Namespace = "open" }))}},
		"its identity edited away": {events: append([]event{is(pod(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Controller: new(true)}}
			p.Spec.Hostname = ""
		}))}, is(node(0, corev1.ConditionTrue)), gone(pod(func(p *corev1.Pod) { p.Spec.Hostname = "" }))), want: pVanished},
		"confirmed":                       {events: append(on, is(pod(says("p1/t"))), gone(pod(says("p1/t")))), say: func(s *said) { s.confirmations["p1/t"] = true }},
		"confirmed, but not so":           {events: append(on, is(pod(says("p1/old"))), gone(pod(says("p1/old")))), want: pVanished},
		"another's confirmation":          {events: append(on, is(pod(says("p0/t"))), gone(pod(says("p0/t")))), say: func(s *said) { s.confirmations["p0/t"] = true }, want: pVanished},
		"confirmed, and taken back":       {events: append(on, is(pod(says("p1/t"))), is(pod()), gone(pod())), say: func(s *said) { s.confirmations["p1/t"] = true }, recent: 6, want: pVanished},
		"taken back that very moment":     {events: append(on, is(pod(says("p1/t"))), is(pod()), gone(pod())), say: func(s *said) { s.confirmations["p1/t"] = true }, recent: 4},
		"confirmed by what removes it":    {events: append(on, gone(pod())), say: func(s *said) { s.confirming["p1"] = 3 }, recent: 3},
		"confirmed long before":           {events: append(on, gone(pod())), say: func(s *said) { s.confirming["p1"] = 2 }, recent: 3, want: pVanished},
		"an actor had one of its name":    {events: append(on, gone(pod())), say: func(s *said) { s.lately["guarded/db-0"] = 3 }, recent: 3},
		"an actor had one long before":    {events: append(on, gone(pod())), say: func(s *said) { s.lately["guarded/db-0"] = 2 }, recent: 3, want: pVanished},
		"an actor had a Node of its name": {events: append(on, gone(node(0, corev1.ConditionTrue))), say: func(s *said) { s.lately["node/n"] = 3 }, recent: 3},
		"its predecessor just vanished":   {events: append(on[:2:2], is(before), gone(before), is(pod()), gone(pod())), recent: 3},
		"its predecessor vanished before": {events: append(on[:2:2], is(before), gone(before), is(pod()), gone(pod())), recent: 4, want: pVanished},
		"forged":                          {events: append(on, is(pod(says("p1/f")))), say: func(s *said) { s.forged["p1/f"] = "edit" }, want: "a confirmation of guarded/db-0 by edit"},
		"forged, of another":              {events: append(on, is(pod(says("p0/f")))), say: func(s *said) { s.forged["p0/f"] = "edit" }},
		"silent, confirmed":               {events: append(on, is(pod(says("p1/t/h"))), gone(pod(says("p1/t/h")))), say: func(s *said) { s.confirmations["p1/t/h"] = true }},
		"never alive, confirmed": {events: []event{is(lease(0)), is(node(0, corev1.ConditionUnknown, anew)), is(pod(says("p1/t/h"))), is(node(-9, corev1.ConditionUnknown)), gone(pod(says("p1/t/h")))},
			say: func(s *said) { s.confirmations["p1/t/h"] = true }, recent: 5},
		"silent, confirmed, alive again": {events: append(on, is(pod(says("p1/t/h"))), is(lease(9)), gone(pod(says("p1/t/h")))), say: func(s *said) { s.confirmations["p1/t/h"] = true }, recent: 6, want: pVanished},
		"its Node gone":                  {events: []event{is(pod()), gone(pod())}},
		"its Node goes":                  {events: append(on, gone(node(0, corev1.ConditionTrue))), want: nVanished},
		"its Node goes, confirmed off":   {events: append(off, gone(node(0, corev1.ConditionUnknown, confirmedOff)), gone(pod())), say: func(s *said) { s.confirmations["n1/off"] = true }},
		"its Node goes, forged off":      {events: append(off, gone(node(0, corev1.ConditionUnknown, confirmedOff))), want: nVanished},
		"confirmed off":                  {events: append(off, is(pod(ends))), say: func(s *said) { s.confirmations["n1/off"] = true }},
		"confirmed off while it ran":     {events: []event{is(lease(0)), is(node(0, corev1.ConditionTrue)), is(pod()), is(node(0, corev1.ConditionTrue, confirmedOff)), is(node(0, corev1.ConditionUnknown, confirmedOff)), gone(pod())}, say: func(s *said) { s.early["n1/off"] = true }, want: pVanished},
		"silent before it was written":   {events: append(off, gone(pod())), say: func(s *said) { s.early["n1/off"] = true }},
		"confirmed off, lease renewed":   {events: append(off, is(lease(9)), gone(pod())), say: func(s *said) { s.confirmations["n1/off"] = true }, recent: 6, want: pVanished},
		"confirmed off, a heartbeat":     {events: append(off, is(node(9, corev1.ConditionUnknown, confirmedOff)), gone(pod())), say: func(s *said) { s.confirmations["n1/off"] = true }, recent: 6, want: pVanished},
		"confirmed off, alive just so":   {events: append(off, is(lease(9)), gone(pod())), say: func(s *said) { s.confirmations["n1/off"] = true }, recent: 4},
		"taint":                          {events: append(on, is(node(0, corev1.ConditionTrue, tainted))), want: outOf},
		"taint, confirmed off":           {events: append(off, is(node(0, corev1.ConditionUnknown, confirmedOff, tainted))), say: func(s *said) { s.confirmations["n1/off"] = true }},
		"taint, by an allowed actor":     {events: append(on, is(node(0, corev1.ConditionTrue, tainted))), say: func(s *said) { s.actors["n1"] = true }},
		"made with the taint":            {events: []event{is(pod()), is(node(0, corev1.ConditionUnknown, tainted))}, want: outOf},
		"a volume of a node that runs":   {events: append(on, is(attachmentOf("n")), gone(attachmentOf("n"))), want: "VolumeAttachment vanished"},
		"one that is not attached":       {events: append(on, is(unattachedTo("n")), gone(unattachedTo("n")))},
		"a volume of a node that is off": {events: append(off, is(attachmentOf("n")), gone(attachmentOf("n"))), say: func(s *said) { s.confirmations["n1/off"] = true }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(map[string]bool{"guarded": false})
			if tt.say != nil {
				tt.say(&m.said)
			}
			if m.recent = tt.recent; m.recent == 0 {
				m.recent = 100
			}
			for i, e := range tt.events {
				e.version = uint64(i + 1)
				m.apply(e)
			}
			var got []string
			for _, v := range m.violations {
				got = append(got, v.what)
			}
			if len(got) > 1 || len(got) == 1 != (tt.want != "") || !strings.HasPrefix(strings.Join(got, ""), tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func attachmentOf(node string) *storagev1.VolumeAttachment {
	v := attachment("v", node)
	v.UID, v.Status.Attached = "v1", true
	return v
}

func unattachedTo(node string) *storagev1.VolumeAttachment {
	v := attachmentOf(node)
	v.Status.Attached = false
	return v
}

// What a finding is printed with is what may have to do with it, of one pod among many.
func TestConcerning(t *testing.T) {
	r := record{counts: map[string]map[outcome]int{}}
	for i, about := range [][]string{{"ns/db-0"}, {"ns/db-1"}, {"ns/"}, {"other/"}, {"node/n"}, {"node/"}, {"node/m"}} {
		r.add(request{who: fmt.Sprint(i), about: about}, let, "")
	}
	got := r.concerning([]string{"ns/db-0", "node/n"})
	for i, want := range []bool{true, false, true, false, true, true, false} {
		if strings.Contains(got, fmt.Sprintf(" %d: ", i)) != want {
			t.Errorf("request %d: want %v in\n%s", i, want, got)
		}
	}
}
