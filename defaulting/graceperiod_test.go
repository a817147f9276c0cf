package defaulting_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func setGrace(n int64) []string {
	return []string{fmt.Sprintf("add /spec/terminationGracePeriodSeconds %d", n)}
}

var always = ptr.To(corev1.ContainerRestartPolicyAlways)

func TestApplyGracePeriod(t *testing.T) {
	t.Parallel()
	testApply(t, []scenario{
		{
			name:     "30 counts as unset",
			pod:      Pod(),
			policies: One(PodPolicy("web", DefaultGrace(45))),
			changes:  setGrace(45),
		},
		{
			name:     "really unset, as in offline review",
			pod:      Pod(bare),
			policies: One(PodPolicy("web", DefaultGrace(45))),
			changes:  setGrace(45),
		},
		{
			name:     "a default of 30 for a pod without one needs no change",
			pod:      Pod(bare),
			policies: One(PodPolicy("web", DefaultGrace(30))),
		},
		{
			name:     "chosen, without limits",
			pod:      Pod(Grace(31)),
			policies: One(PodPolicy("web", DefaultGrace(45))),
		},
		{
			name:     "a default below 30",
			pod:      Pod(),
			policies: One(PodPolicy("web", DefaultGrace(10))),
			changes:  setGrace(10),
		},
		{
			name:     "a default below 30 never makes a preStop sleep longer than the grace period: the API server would refuse the pod",
			pod:      Pod(stopping("proxy", sleep(20))),
			policies: One(PodPolicy("web", DefaultGrace(10))),
			changes:  setGrace(20),
		},
		{
			name:     "nor an exec of sleep, which would be killed in its preStop",
			pod:      Pod(stopping("proxy", run("sleep", "20"))),
			policies: One(PodPolicy("web", DefaultGrace(10))),
			changes:  setGrace(20),
		},
		{
			name:     "nor a sleep action of more than a week",
			pod:      Pod(stopping("proxy", sleep(604801))),
			policies: One(PodPolicy("web", DefaultGrace(10))),
			changes:  setGrace(604801),
		},
		{
			name:     "negative is 1",
			pod:      Pod(Grace(-5)),
			policies: One(PodPolicy("web", MinGrace(1), DefaultGrace(45))),
		},
		{
			name:     "below the minimum",
			pod:      Pod(Grace(5)),
			policies: One(PodPolicy("web", MinGrace(10))),
			changes:  setGrace(10),
			warnings: []string{"terminationGracePeriodSeconds is now 10, not 5: PodPolicy web: minimum 10 s"},
		},
		{
			name:     "above the maximum",
			pod:      Pod(Grace(500)),
			policies: One(PodPolicy("web", MaxGrace(60))),
			changes:  setGrace(60),
			warnings: []string{"terminationGracePeriodSeconds is now 60, not 500: PodPolicy web: maximum 60 s"},
		},
		{
			name:     "between the limits what the user chose stays, the bounds included",
			pod:      Pod(Grace(10)),
			policies: One(PodPolicy("web", DefaultGrace(45), MinGrace(10), MaxGrace(60))),
		},
		{
			name:     "the highest minimum and the lowest maximum of several policies",
			pod:      Pod(Grace(5)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(9), MinGrace(7), MaxGrace(50)), PodPolicy("b", MinGrace(20), MaxGrace(40))},
			changes:  setGrace(20),
			warnings: []string{"is now 20, not 5: PodPolicy b: minimum"},
		},
		{
			name:     "of equal minimums that of the heavier policy is named",
			pod:      Pod(Grace(5)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10)), PodPolicy("b", Weight(9), MinGrace(10))},
			changes:  setGrace(10),
			warnings: []string{"is now 10, not 5: PodPolicy b: minimum"},
		},
		{
			name:     "of equal maximums that of the heavier policy is named",
			pod:      Pod(Grace(50)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(40)), PodPolicy("b", Weight(9), MaxGrace(40))},
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 50: PodPolicy b: maximum"},
		},
		{
			name:     "the lowest maximum of several policies",
			pod:      Pod(Grace(500)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Weight(9), MaxGrace(40)), PodPolicy("b", MaxGrace(50))},
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 500: PodPolicy a: maximum"},
		},
		{
			name:     "a minimum above another policy's maximum: the minimum holds",
			pod:      Pod(Grace(50)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(100)), PodPolicy("b", MaxGrace(60))},
			changes:  setGrace(100),
			warnings: []string{"is now 100, not 50: PodPolicy a: minimum"},
		},
		{
			name:     "a minimum above another policy's maximum bounds from above too",
			pod:      Pod(Grace(300)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(100)), PodPolicy("b", MaxGrace(60))},
			changes:  setGrace(100),
			warnings: []string{"is now 100, not 300: PodPolicy b: maximum 60 s, but PodPolicy a: minimum 100 s"},
		},
		{
			name:     "a minimum of exactly 30 can't be told from unset on the next call, so the default comes at once",
			pod:      Pod(Grace(20)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(30)), PodPolicy("b", DefaultGrace(60))},
			changes:  setGrace(60),
			warnings: []string{"is now 60, not 20: PodPolicy a: minimum 30 s; PodPolicy b: default 60 s (30 counts as unset)"},
		},
		{
			name:     "a maximum of exactly 30",
			pod:      Pod(Grace(100)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(30)), PodPolicy("b", DefaultGrace(20))},
			changes:  setGrace(20),
			warnings: []string{"is now 20, not 100: PodPolicy a: maximum 30 s; PodPolicy b: default 20 s"},
		},
		{
			name:     "a default outside another policy's limits is moved without a word to the user",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(40)), PodPolicy("b", DefaultGrace(60))},
			changes:  setGrace(40),
		},
		{
			name:     "a default that a limit moves to 30 stays there",
			pod:      Pod(),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(30)), PodPolicy("b", DefaultGrace(60))},
		},
		{
			name:     "30 without a default is moved with a warning: it may have been chosen",
			pod:      Pod(),
			policies: One(PodPolicy("web", MinGrace(60))),
			changes:  setGrace(60),
			warnings: []string{"is now 60, not 30: PodPolicy web: minimum"},
		},
		{
			name:     "grace 0 of a pod that nobody protects is the user's choice",
			pod:      Pod(Grace(0)),
			policies: One(PodPolicy("web", DefaultGrace(45), MaxGrace(60))),
		},
	})
}

func TestApplyPreStop(t *testing.T) {
	t.Parallel()
	keeps := One(PodPolicy("web", Margin(10)))
	testApply(t, []scenario{
		{
			name:     "preStop and margin fit",
			pod:      Pod(stopping("proxy", sleep(20))),
			policies: keeps,
		},
		{
			name:     "preStop and margin do not fit",
			pod:      Pod(stopping("proxy", sleep(25))),
			policies: keeps,
			changes:  setGrace(35),
			warnings: []string{"is now 35, not 30: PodPolicy web: preStop of container proxy takes 25 s plus a margin of 10 s"},
		},
		{
			name:     "the longest counts, they run at once",
			pod:      Pod(stopping("a", sleep(25)), stopping("b", run("sleep", "40")), stopping("c", sleep(3))),
			policies: keeps,
			changes:  setGrace(50),
			warnings: []string{"is now 50, not 30: PodPolicy web: preStop of container b takes 40 s"},
		},
		{
			name:     "of equally long ones the first is named",
			pod:      Pod(stopping("a", sleep(25)), stopping("b", sleep(25))),
			policies: keeps,
			changes:  setGrace(35),
			warnings: []string{"preStop of container a takes 25 s"},
		},
		{
			name:     "of equal margins that of the heavier policy is named",
			pod:      Pod(stopping("a", sleep(25))),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Margin(10)), PodPolicy("b", Weight(9), Margin(10))},
			changes:  setGrace(35),
			warnings: []string{"PodPolicy b: …a margin of 10 s"},
		},
		{
			name:     "that of a sidecar",
			pod:      Pod(starting("mesh", always, sleep(25))),
			policies: keeps,
			changes:  setGrace(35),
			warnings: []string{"preStop of container mesh takes 25 s"},
		},
		{
			name:     "not that of an init container, which is over by then",
			pod:      Pod(starting("setup", nil, sleep(25))),
			policies: keeps,
		},
		{
			name:     "unknown preStop is said",
			pod:      Pod(stopping("a", run("/stop.sh")), stopping("b", callHTTP)),
			policies: keeps,
			warnings: []string{"preStop of a, b: how long it takes is not known…30 s (PodPolicy web"},
		},
		{
			name:     "unknown preStop within a grace period that its author chose",
			pod:      Pod(Grace(60), stopping("a", run("/stop.sh")), stopping("b", callHTTP)),
			policies: keeps,
		},
		{
			name:     "unknown preStop within a chosen grace period that a limit lowers",
			pod:      Pod(Grace(60), stopping("a", run("/stop.sh"))),
			policies: One(PodPolicy("web", Margin(10), MaxGrace(40))),
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 60", "preStop of a: how long it takes is not known…40 s (PodPolicy web"},
		},
		{
			name:     "unknown beside known",
			pod:      Pod(stopping("a", run("/stop.sh")), stopping("b", sleep(25))),
			policies: keeps,
			changes:  setGrace(35),
			warnings: []string{"is now 35, not 30: ", "preStop of a: how long it takes is not known…35 s"},
		},
		{
			name:     "a hook that begins with a sleep takes at least as long",
			pod:      Pod(Grace(20), stopping("a", run("sh", "-c", "sleep 30 && nginx -s quit"))),
			policies: keeps,
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 20: …preStop of container a takes at least 30 s plus a margin of 10 s"},
		},
		{
			name:     "the longest counts, whether it is all that is known or not",
			pod:      Pod(Grace(20), stopping("a", run("bash", "-ec", "sleep 1m")), stopping("b", sleep(70))),
			policies: keeps,
			changes:  setGrace(80),
			warnings: []string{"preStop of container b takes 70 s plus"},
		},
		{
			name:     "a default is raised by it",
			pod:      Pod(stopping("a", run("sh", "-c", "sleep 90; nginx -s quit"))),
			policies: One(PodPolicy("web", DefaultGrace(45))),
			changes:  setGrace(90),
		},
		{
			name:     "unknown without a margin is nobody's business",
			pod:      Pod(stopping("a", run("/stop.sh"))),
			policies: One(PodPolicy("web", DefaultGrace(45), MaxGrace(60))),
			changes:  setGrace(45),
		},
		{
			name:     "a container without preStop and one with an empty hook",
			pod:      Pod(stopping("a", nil), stopping("b", &corev1.LifecycleHandler{})),
			policies: keeps,
			warnings: []string{"preStop of b: how long"},
		},
		{
			name:     "the longest margin of several policies",
			pod:      Pod(stopping("a", sleep(25))),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Margin(10)), PodPolicy("b", Margin(20))},
			changes:  setGrace(45),
			warnings: []string{"PodPolicy b: …a margin of 20 s"},
		},
		{
			name:     "a sleep of 0 needs no margin",
			pod:      Pod(Grace(5), stopping("a", sleep(0))),
			policies: keeps,
		},
		{
			name:     "a margin of 0: what preStop takes",
			pod:      Pod(Grace(5), stopping("a", run("sleep", "7"))),
			policies: One(PodPolicy("web", Margin(0))),
			changes:  setGrace(7),
			warnings: []string{"is now 7, not 5: "},
		},
		{
			name:     "the default has room already",
			pod:      Pod(stopping("a", sleep(25))),
			policies: One(PodPolicy("web", Margin(10), DefaultGrace(60))),
			changes:  setGrace(60),
		},
		{
			name:     "the default is too short for preStop: moved, no choice of the user's",
			pod:      Pod(stopping("a", sleep(55))),
			policies: One(PodPolicy("web", Margin(10), DefaultGrace(60))),
			changes:  setGrace(65),
		},
		{
			name:     "conflict: the maximum wins over preStop and margin, and says what is left",
			pod:      Pod(stopping("a", sleep(35))),
			policies: One(PodPolicy("web", Margin(10), MaxGrace(40))),
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 30: PodPolicy web: maximum 40 s, although preStop of container a takes 35 s", "preStop of container a takes 35 s, which leaves 5 s of the grace period of 40 s"},
		},
		{
			name:     "conflict: a minimum above that maximum wins over both",
			pod:      Pod(stopping("a", sleep(35))),
			policies: []*v1alpha1.PodPolicy{PodPolicy("web", Margin(10), MaxGrace(40)), PodPolicy("min", MinGrace(50))},
			changes:  setGrace(50),
			warnings: []string{"is now 50, not 30: PodPolicy min: minimum"},
		},
		{
			name:     "conflict: preStop longer than the maximum: never lowered below the sleep, Validate says why it is refused",
			pod:      Pod(Grace(90), stopping("a", sleep(50))),
			policies: One(PodPolicy("web", MaxGrace(40))),
			changes:  setGrace(50),
			warnings: []string{"is now 50, not 90: PodPolicy web: maximum"},
		},
		{
			name:     "an exec of sleep longer than the maximum is not the API server's concern: lowered",
			pod:      Pod(Grace(90), stopping("a", run("sleep", "50"))),
			policies: One(PodPolicy("web", Margin(5), MaxGrace(40))),
			changes:  setGrace(40),
			warnings: []string{"is now 40, not 90: PodPolicy web: maximum", "preStop of container a takes 50 s, which leaves 0 s"},
		},
		{
			name:     "a sleep beyond a week counts as one of a week",
			pod:      Pod(stopping("c", run("sleep", "99999999999999999999"))),
			policies: []*v1alpha1.PodPolicy{PodPolicy("web", Margin(10), MaxGrace(300))},
			changes:  setGrace(300),
			warnings: []string{"is now 300, not 30", "preStop of container c takes at least 604800 s, which leaves 0 s"},
		},
		{
			name:     "a negative sleep, which the API server refuses, says nothing",
			pod:      Pod(stopping("b", sleep(-1))),
			policies: keeps,
			warnings: []string{"preStop of b: how long it takes is not known"},
		},
		{
			name:     "hooks of injectors are not their users' concern",
			pod:      Pod(stopping("istio-proxy", run("pilot-agent", "drain")), stopping("user", &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/wait-for-drain", Port: intstr.FromInt32(8022)}})),
			policies: keeps,
		},
		{
			name:     "probe-level grace longer than the pod's",
			pod:      Pod(probed("a", 60), probed("b", 30), func(p *podT) { p.Spec.Containers[0].StartupProbe = p.Spec.Containers[1].LivenessProbe }),
			policies: One(PodPolicy("web", DefaultGrace(30))),
			warnings: []string{"container app, a: a probe's terminationGracePeriodSeconds is longer than the pod's 30 s"},
		},
		{
			name:     "probe-level grace is compared with the new grace period",
			pod:      Pod(probed("a", 60)),
			policies: One(PodPolicy("web", DefaultGrace(60))),
			changes:  setGrace(60),
		},
		{
			name:     "probes are nobody's business where no policy has a gracePeriod",
			pod:      Pod(probed("a", 60)),
			policies: One(PodPolicy("web", Allows("high"))),
		},
	})
}

func TestApplyZeroGrace(t *testing.T) {
	t.Parallel()
	raise, refuse := One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise))), One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceDeny)))
	allAndStateful := []*v1alpha1.PodPolicy{PodPolicy("a", ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceRaise)), PodPolicy("b", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceDeny))}
	const raised = "is now 30, not 0: PodPolicy safe: with 0 every delete of this protected pod would be a force delete"
	ephemeral := func(mode corev1.PersistentVolumeAccessMode) PodOption {
		return func(p *podT) {
			p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}},
			}}}}
		}
	}
	testApply(t, []scenario{
		{name: "StatefulSet, raised", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: raise, changes: setGrace(30), warnings: []string{raised}},
		{name: "StatefulSet, refused", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: refuse, denials: []string{"ZeroGracePeriod: …every delete of this pod would be a force delete…PodPolicy safe refuses that (it is a pod of StatefulSet db). Set it to at least 1"}},
		{name: "a StatefulSet of another group has an identity too", pod: Pod(Grace(0), recorded(OwnedBy("apps.kruise.io/v1beta1", "StatefulSet", "db"))), policies: raise, changes: setGrace(30), warnings: []string{raised}},
		{name: "grace 1 is not 0", pod: Pod(Grace(1), recorded(OfStatefulSet)), policies: refuse},
		{name: "negative is stored as 1", pod: Pod(Grace(-1), recorded(OfStatefulSet)), policies: refuse},
		{name: "zeroGrace empty, as in a file without the CRD's defaults, raises", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("safe", ZeroGrace("", ""))), changes: setGrace(30), warnings: []string{raised}},
		{name: "RWO claim", pod: Pod(Grace(0), WithClaims("data")), policies: refuse, facts: facts(claimed("data", corev1.ReadWriteOnce)), denials: []string{"ZeroGracePeriod: …its claim data is ReadWriteOnce"}},
		{name: "RWOP claim", pod: Pod(Grace(0), WithClaims("data")), policies: refuse, facts: facts(claimed("data", corev1.ReadWriteOncePod)), denials: []string{"ZeroGracePeriod: …its claim data is ReadWriteOncePod"}},
		{name: "RWX claim is not exclusive", pod: Pod(Grace(0), WithClaims("data")), policies: refuse, facts: facts(claimed("data", corev1.ReadWriteMany, corev1.ReadOnlyMany))},
		{name: "RWO among the modes of a claim", pod: Pod(Grace(0), WithClaims("data")), policies: refuse, facts: facts(claimed("data", corev1.ReadWriteMany, corev1.ReadWriteOnce)), denials: []string{"ZeroGracePeriod: "}},
		{name: "unknown claim counts as exclusive", pod: Pod(Grace(0), WithClaims("shared", "data")), policies: refuse, facts: facts(claimed("shared", corev1.ReadWriteMany)), denials: []string{"ZeroGracePeriod: …the access mode of its claim data is not known"}},
		{name: "ephemeral volume that is ReadWriteOnce", pod: Pod(Grace(0), ephemeral(corev1.ReadWriteOnce)), policies: refuse, denials: []string{"ZeroGracePeriod: …claim"}},
		{name: "ephemeral volume that is ReadWriteMany: the pod itself says so, its claim does not exist yet", pod: Pod(Grace(0), ephemeral(corev1.ReadWriteMany)), policies: refuse},
		{name: "a plain pod is not protected", pod: Pod(Grace(0), OfReplicaSet), policies: refuse},
		{name: "of an owner that the policy names", pod: Pod(Grace(0), recorded(OfPodSet)), policies: One(PodPolicy("safe", ZeroGrace("", v1alpha1.ZeroGraceDeny), ProtectsOwners(PodSets))), denials: []string{"ZeroGracePeriod: …PodPolicy safe refuses that (it is a pod of StrimziPodSet kafka)"}},
		{
			name: "the policy that names the owner is the one that counts", pod: Pod(Grace(0), recorded(OfPodSet)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", ZeroGrace("", v1alpha1.ZeroGraceDeny)), PodPolicy("b", ZeroGrace("", v1alpha1.ZeroGraceWarn), ProtectsOwners(PodSets))},
			warnings: []string{"every delete of the pod is a force delete…(PodPolicy b; it is a pod of StrimziPodSet kafka)"},
		},
		{name: "a record that the pod brings is its creator's", pod: Pod(Grace(0), says("StatefulSet.apps/db")), policies: refuse, changes: []string{delRecord}, warnings: []string{"annotation podgrace.dev/protected is written by Podgrace only: it was removed"}},
		{name: "a shared block device", pod: Pod(Grace(0), WithClaims("data")), policies: refuse, facts: facts(blockClaimed("data", corev1.ReadWriteMany))},
		{name: "a shared block device that counts as exclusive", pod: Pod(Grace(0), WithClaims("data")), policies: One(PodPolicy("safe", ZeroGrace("", v1alpha1.ZeroGraceDeny), ProtectsBlock)), facts: facts(blockClaimed("data", corev1.ReadWriteMany)),
			denials: []string{"ZeroGracePeriod: …PodPolicy safe refuses that (its claim data is a block device, which the policy takes for exclusive)"}},
		{name: "All", pod: Pod(Grace(0), OfReplicaSet), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceRaise))), changes: setGrace(30), warnings: []string{raised}},
		{name: "of several policies the strictest of those that protect the pod: one protects all and raises", pod: Pod(Grace(0)), policies: allAndStateful, changes: setGrace(30), warnings: []string{"is now 30, not 0: PodPolicy a: with 0 every delete"}},
		{name: "the other denies, and protects a StatefulSet's", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: allAndStateful, denials: []string{"ZeroGracePeriod: …PodPolicy b refuses that (it is a pod of StatefulSet db)"}},
		{
			name: "one that only warns protects all: it raises nothing for another", pod: Pod(Grace(0)),
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceWarn)), PodPolicy("b", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise))},
			warnings: []string{"every delete of the pod is a force delete…(PodPolicy a; PodPolicy a protects all pods)"},
		},
		{name: "raised to the default, with the reason of the raise", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: append(One(PodPolicy("web", DefaultGrace(45))), raise...), changes: setGrace(45), warnings: []string{"is now 45, not 0: PodPolicy safe: with 0"}},
		{name: "raised to the default, which preStop raises", pod: Pod(Grace(0), recorded(OfStatefulSet), stopping("a", run("sleep", "20"))), policies: append(One(PodPolicy("web", DefaultGrace(10))), raise...), changes: setGrace(20), warnings: []string{"is now 20, not 0: PodPolicy safe: with 0…PodPolicy web: default 10 s (30 counts as unset); raised because preStop of container a takes 20 s"}},
		{name: "raised to the default, which a sleep of unbelieved length raises", pod: Pod(Grace(0), recorded(OfStatefulSet), stopping("a", sleep(604801))), policies: append(One(PodPolicy("web", DefaultGrace(10))), raise...), changes: setGrace(604801), warnings: []string{"PodPolicy web: default 10 s (30 counts as unset); raised because preStop of container a sleeps 604801 s"}},
		{name: "raised no higher than the maximum", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: append(One(PodPolicy("web", MaxGrace(20))), raise...), changes: setGrace(20), warnings: []string{"is now 20, not 0: PodPolicy safe: with 0 every delete…PodPolicy web: maximum 20 s"}},
		{name: "raised to what preStop needs", pod: Pod(Grace(0), recorded(OfStatefulSet), stopping("a", sleep(30))), policies: append(One(PodPolicy("web", Margin(10))), raise...), changes: setGrace(40), warnings: []string{"is now 40, not 0: PodPolicy safe: with 0 every delete…preStop of container a takes 30 s"}},
	})
}

// zeroKept is the warning about a 0 that a policy leaves, in the same words whoever says it.
const zeroKept = "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete, which may leave it running twice. Set it to what the pod needs to stop (PodPolicy safe; it is a pod of StatefulSet db)"

func TestApplyZeroGraceWarn(t *testing.T) {
	t.Parallel()
	zero := func(name string, action v1alpha1.ZeroGraceAction, more ...PolicyOption) *v1alpha1.PodPolicy {
		return PodPolicy(name, append([]PolicyOption{ZeroGrace(v1alpha1.ProtectStateful, action)}, more...)...)
	}
	warn := zero("safe", v1alpha1.ZeroGraceWarn)
	with := func(others ...*v1alpha1.PodPolicy) []*v1alpha1.PodPolicy { return append(others, warn) }
	testApply(t, []scenario{
		{name: "StatefulSet: it keeps its 0", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(warn), warnings: []string{zeroKept}},
		{name: "RWO claim", pod: Pod(Grace(0), WithClaims("data")), policies: One(warn), facts: facts(claimed("data", corev1.ReadWriteOnce)), warnings: []string{"every delete of the pod is a force delete…(PodPolicy safe; its claim data is ReadWriteOnce)"}},
		{name: "unknown claim", pod: Pod(Grace(0), WithClaims("data")), policies: One(warn), warnings: []string{"(PodPolicy safe; the access mode of its claim data is not known)"}},
		{name: "All", pod: Pod(Grace(0), OfReplicaSet), policies: with(zero("a", v1alpha1.ZeroGraceWarn, func(s *v1alpha1.PodPolicySpec) { s.Removal.Protect = v1alpha1.ProtectAll })), warnings: []string{"(PodPolicy a; PodPolicy a protects all pods)"}},
		{name: "a plain pod is not protected", pod: Pod(Grace(0), OfReplicaSet), policies: One(warn)},
		{name: "grace 1 is not 0", pod: Pod(Grace(1), recorded(OfStatefulSet)), policies: One(warn)},
		{name: "negative is stored as 1", pod: Pod(Grace(-1), recorded(OfStatefulSet)), policies: One(warn)},
		{name: "unset is 30", pod: Pod(bare, recorded(OfStatefulSet)), policies: One(warn)},
		{name: "Deny over Raise over Warn", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(zero("a", v1alpha1.ZeroGraceRaise), zero("z", v1alpha1.ZeroGraceDeny)), denials: []string{"ZeroGracePeriod: …PodPolicy z refuses that"}},
		{name: "Raise over Warn, although the one that warns is heavier", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: []*v1alpha1.PodPolicy{zero("safe", v1alpha1.ZeroGraceWarn, Weight(9)), zero("z", v1alpha1.ZeroGraceRaise)}, changes: setGrace(30), warnings: []string{"is now 30, not 0: PodPolicy z: with 0 every delete"}},
		{name: "empty, as in a file without the CRD's defaults, is Raise and so over Warn", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(zero("z", "")), changes: setGrace(30), warnings: []string{"is now 30, not 0: PodPolicy z: with 0 every delete"}},
		{name: "an action of a newer CRD is Raise", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(zero("z", "Later")), changes: setGrace(30), warnings: []string{"is now 30, not 0: PodPolicy z:"}},
		{name: "of two that warn the heavier is named", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: []*v1alpha1.PodPolicy{zero("a", v1alpha1.ZeroGraceWarn), zero("safe", v1alpha1.ZeroGraceWarn, Weight(9))}, warnings: []string{zeroKept}},
		{name: "a minimum raises it anyway: then there is no 0 to warn about", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(PodPolicy("web", MinGrace(10))), changes: setGrace(10), warnings: []string{"is now 10, not 0: PodPolicy web: minimum 10 s"}},
		{name: "a minimum of 0 does not", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(PodPolicy("web", MinGrace(0))), warnings: []string{zeroKept}},
		{name: "what preStop needs raises it anyway", pod: Pod(Grace(0), recorded(OfStatefulSet), stopping("a", sleep(7))), policies: with(PodPolicy("web", Margin(5))), changes: setGrace(12), warnings: []string{"is now 12, not 0: PodPolicy web: preStop of container a"}},
		{name: "a default is for pods that chose none, 0 is a choice", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: with(PodPolicy("web", DefaultGrace(45), MaxGrace(60))), warnings: []string{zeroKept}},
		{name: "what the user may skip are defaults: no way round the warning", pod: Pod(Grace(0), recorded(OfStatefulSet), skipping("gracePeriod")), policies: with(PodPolicy("web", DefaultGrace(45), AllowsSkip(v1alpha1.SectionGracePeriod))), warnings: []string{zeroKept}},
		{name: "nor round a minimum", pod: Pod(Grace(0), recorded(OfStatefulSet), skipping("gracePeriod")), policies: with(PodPolicy("web", DefaultGrace(45), MinGrace(10), AllowsSkip(v1alpha1.SectionGracePeriod))), changes: setGrace(10), warnings: []string{"is now 10, not 0: PodPolicy web: minimum 10 s"}},
	})
}

func TestValidateGracePeriod(t *testing.T) {
	t.Parallel()
	testValidate(t, []scenario{
		{name: "within the limits", pod: Pod(Grace(20)), policies: One(PodPolicy("web", MinGrace(10), MaxGrace(60), DefaultGrace(45)))},
		{name: "unset is 30", pod: Pod(bare), policies: One(PodPolicy("web", MinGrace(10), MaxGrace(60)))},
		{name: "a default is no limit", pod: Pod(), policies: One(PodPolicy("web", DefaultGrace(45)))},
		{name: "below the minimum", pod: Pod(Grace(5)), policies: One(PodPolicy("web", MinGrace(10))), denials: []string{"GracePeriodOutOfBounds: terminationGracePeriodSeconds is 5 but must be 10 (PodPolicy web: minimum"}},
		{name: "above the maximum", pod: Pod(Grace(61)), policies: One(PodPolicy("web", MaxGrace(60))), denials: []string{"GracePeriodOutOfBounds: …is 61 but must be 60 (PodPolicy web: maximum"}},
		{name: "preStop and margin", pod: Pod(stopping("a", sleep(25))), policies: One(PodPolicy("web", Margin(10))), denials: []string{"GracePeriodOutOfBounds: …is 30 but must be 35 (PodPolicy web: preStop of container a takes 25 s plus a margin of 10 s"}},
		{name: "preStop sleeps longer than the maximum", pod: Pod(Grace(60), stopping("a", sleep(50))), policies: One(PodPolicy("web", MaxGrace(40))), denials: []string{"SleepTooLong: preStop of container a sleeps 50 s, but PodPolicy web allows a grace period of at most 40 s. Shorten the sleep"}},
		{name: "preStop sleeps longer than the maximum, and within a minimum above it", pod: Pod(Grace(60), stopping("a", sleep(50))), policies: []*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(60)), PodPolicy("b", MaxGrace(40))}},
		{name: "preStop sleeps exactly the maximum", pod: Pod(Grace(40), stopping("a", sleep(40))), policies: One(PodPolicy("web", MaxGrace(40)))},
		{name: "0, protected", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceDeny))), denials: []string{"ZeroGracePeriod: …PodPolicy safe refuses that (it is a pod of StatefulSet db). Set it to at least 1"}},
		{name: "0 that should be raised by now", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise))), denials: []string{"ZeroGracePeriod: …PodPolicy safe has it raised (it is a pod of StatefulSet db). Podgrace does that itself; it was not called, or another webhook changed the pod after it. Set it to what the pod needs to stop, or try again"}},
		{name: "0 that a policy warns about: in the words of Apply, so that the author reads it once", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn))), warnings: []string{zeroKept}},
		{name: "0 that one policy warns about and another raises", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: []*v1alpha1.PodPolicy{PodPolicy("a", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn)), PodPolicy("b", ZeroGrace(v1alpha1.ProtectStateful, ""))}, denials: []string{"ZeroGracePeriod: …PodPolicy b has it raised"}},
		{name: "0 that a policy warns about, below the minimum", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("safe", MinGrace(10), ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn))), denials: []string{"GracePeriodOutOfBounds: …is 0 but must be 10"}},
		{name: "0, not protected, where a policy warns", pod: Pod(Grace(0)), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn)))},
		{name: "0, not protected", pod: Pod(Grace(0)), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceDeny)))},
		{name: "0 without a removal section", pod: Pod(Grace(0), recorded(OfStatefulSet)), policies: One(PodPolicy("web", MaxGrace(60)))},
		{name: "0, unknown claim", pod: Pod(Grace(0), WithClaims("data")), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceRaise))), denials: []string{"ZeroGracePeriod: …claim data is not known"}},
	})
}
