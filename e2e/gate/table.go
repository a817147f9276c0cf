package main

// budget is how many core-minutes the parts of the gate may cost together. A new test that needs more takes it from another one.
const budget = 55

// parts start in this order if the cores allow it. Long parts come before short ones: other orders that seemed shorter were not if a part took longer than usual. kind waits for
// machines.
var parts = []part{
	{
		name: "vet", what: "go vet on the product and the preview", set: setTest, dir: ".",
		command: []string{"make", "--no-print-directory", "vet"}, cores: 2, minutes: 0.3,
	},
	{
		name: "unit", what: "unit tests of the product", set: setTest, dir: ".",
		packages: []string{"./..."}, flags: noVet, cores: 1.5, minutes: 2,
	},
	{
		name: "preview", what: "unit tests of the preview, with kube-scheduler's own code", set: setTest, dir: "preview",
		packages: []string{"./..."}, flags: noVet, cores: 1, minutes: 0.5,
	},
	{
		name: "lint", what: "golangci-lint on all modules", set: setCheck, dir: ".",
		command: []string{"make", "--no-print-directory", "lint"}, cores: 2, minutes: 1.5,
	},
	{
		name: "verify", what: "generated files and go.mod are up to date", set: setCheck, dir: ".",
		command: []string{"make", "--no-print-directory", "verify"}, cores: 1, minutes: 0.7,
	},
	{
		name: "monitoring", what: "alerts, by Prometheus' promtool; the dashboard", set: setCheck, dir: "e2e/monitoring",
		packages: []string{"./..."}, cores: 1, minutes: 0.3,
	},
	{
		name: "fidelity", what: "decisions against Kubernetes' own code", set: setCheck, dir: "e2e/oracle",
		packages: []string{"./fidelity"}, flags: []string{"-count=1"}, cores: 1.25, minutes: 1.5,
	},
	{
		name: "test code", what: "the code of the tests, the benchmarks and the demo; JSON schemas", set: setCheck, dir: "e2e",
		packages: []string{
			"./bench/node/...", "./bench/peers",
			"./chaos/plan", "./cluster/...", "./firstday", "./fuzz", "./gate", "./measure", "./processclock", "./schema", "./suite", "./vm", "./vm/agent", "./vm/guesttest", "./wire",
		},
		cores: 1, minutes: 0.7,
	},
	{
		name: controlPlane, what: "builds etcd, API server, kubectl, controller manager and scheduler, once a version: 5 to 6 minutes on two cores", set: setIntegration, dir: "e2e",
		command: []string{"go", "run", "./cluster/build", "control-plane"}, cores: 2, minutes: 0,
	},
	{
		name: nodePrograms, what: "builds kubelet, kubeadm and kube-proxy, once a version: a minute", set: setE2E, dir: "e2e",
		command: []string{"go", "run", "./cluster/build", "node"}, cores: 2, minutes: 0, after: []string{controlPlane},
	},
	{
		name: "deploy", what: "manifests and chart on a real API server", set: setIntegration, dir: "e2e/deploy",
		packages: []string{"./..."}, flags: live, after: []string{controlPlane}, cores: 0.5, minutes: 21.4,
		moved: []moved{
			{test: "TestAnyOrder/selfmanaged,_webhook_only", foundBy: []string{"e2e/deploy TestAnyOrder"}, other: "a random order of all objects passes through the states of a part of them"},
			{test: "TestAnyOrder/certmanager,_webhook_only", foundBy: []string{"e2e/deploy TestAnyOrder"}, other: "a random order of all objects passes through the states of a part of them"},
			{test: "TestHelm3", foundBy: []string{"e2e/deploy TestHelmAndKustomizeAreTheSame"}, other: "Helm 4 renders the same chart; Helm 3 has ended, and it takes minutes to compile"},
			{test: "TestUninstallByHelm3", foundBy: []string{"e2e/deploy TestHelmRelease"}, other: "Helm 4 uninstalls the same chart"},
		},
	},
	{
		name: "machines", what: "a node in QEMU with cgroup v2 and systemd, and a bare guest", set: setE2E, dir: "e2e",
		packages: []string{"./node/guest", "./node/vm", "./volumelock/vm"}, flags: live, after: []string{controlPlane, nodePrograms}, shares: wholeNode, cores: 0.7, minutes: 13.6,
		moved: []moved{
			{test: "TestDisk", foundBy: []string{"nodeenforcer/evictor TestEvictorWaitsForTheDisk", "nodeenforcer/evictor TestSimulation", "e2e/oracle/fidelity TestFidelityEviction"}},
			{test: "TestImageDisk", foundBy: []string{"nodeenforcer/evictor TestEvictorFindsTheDiskOfImages", "nodeenforcer/evictor TestSimulation"}},
			{test: "TestPIDs", foundBy: []string{"nodeenforcer/evictor TestSimulation", "e2e/oracle/fidelity TestFidelityEviction", "nodeenforcer/pressure TestSensor", "nodeenforcer/cgroup TestReadPIDs"}},
			{test: "TestSoftEviction", foundBy: []string{"nodeenforcer/evictor TestEvictorSoft", "nodeenforcer/terminate TestSoftRefused", "nodeenforcer/terminate TestNoKindIsSoft"}},
			{test: "TestHog/besteffort", foundBy: []string{"e2e/oracle/fidelity TestFidelityEviction", "nodeenforcer/plan TestPropertyPodPaths"}, other: "TestHog/burstable on the same node"},
			{test: "TestHookOfAContainedHog", foundBy: []string{"nodeenforcer/terminate TestLoosen", "nodeenforcer/terminate TestLooser", "nodeenforcer/terminate TestSlack"}},
			{test: "TestManagers", foundBy: []string{"nodeenforcer/plan TestGolden", "nodeenforcer/plan TestParseCPUManagerState", "nodeenforcer/plan TestParseMemoryManagerState", "nodeenforcer/plan TestReservedCgroups", "nodeenforcer/repair TestRoundOfReservedCgroups", "e2e/oracle/fidelity TestFidelityNodeReserved", "e2e/oracle/fidelity TestFidelityNodeCPUManager"}},
			{test: "TestContainerValues", foundBy: []string{"nodeenforcer/drift TestDiffPerRuntime", "nodeenforcer/repair TestRoundRepairs"}, other: "TestEnforcer/FromPolicyToKernel on the same node"},
			{test: "TestTuneLasts", foundBy: []string{"e2e/node/vm TestSystemd"}, other: "its TestSystemdWritesLast reloads systemd"},
			{test: "TestEnforcer/Drift", foundBy: []string{"e2e/node/host TestEnforcer"}, other: "the same suite on cgroup v1"},
			{test: "TestEnforcer/Rival", foundBy: []string{"e2e/node/host TestEnforcer"}, other: "the same suite on cgroup v1"},
			{test: "TestEnforcer/Coexistence", foundBy: []string{"e2e/node/host TestEnforcer"}, other: "the same suite on cgroup v1"},
			{test: "TestEnforcer/Resize", foundBy: []string{"e2e/node/host TestEnforcer"}, other: "the same suite on cgroup v1"},
			{test: "TestClockJumpAndKubeletRestart", foundBy: []string{"nodeenforcer/pressure TestClockJumps"}, other: "cgroups after a kubelet's restart: nothing"},
			{test: "TestKilledWhileItWrites", foundBy: []string{"nodeenforcer/repair TestKilledAtEveryWrite"}},
			{test: "TestThereIsAQuotaThatNeverEnds", other: "it tests the machine"},
			{test: "TestNothingLeavesTheGuest", other: "it tests the machine"},
			{test: "TestKubeletAndSandboxesAreTheLastToGo", other: "it tests the machine"},
			{test: "TestTwoWriters", foundBy: []string{"e2e/volumelock TestFifteenSteps"}},
			{test: "TestTwoKubelets", foundBy: []string{"e2e/volumelock TestFifteenSteps", "e2e/volumelock TestDetachedByForce"}},
			{test: "TestGate", foundBy: []string{"e2e/volumelock TestFaultsInPartition", "volumelock TestHistories"}},
		},
	},
	{
		name: "node", what: "a kubelet with containerd on this host", set: setE2E, dir: "e2e",
		packages: []string{"./node/cgroupv1", "./node/host"},
		flags:    live, after: []string{controlPlane, nodePrograms}, shares: hostNode, cores: 0.25, minutes: 14,
	},
	{
		name: "volumelock", what: "the volume lock with the attach/detach controller", set: setIntegration, dir: "e2e",
		packages: []string{"./volumelock"}, flags: live, after: []string{controlPlane}, cores: 0.25, minutes: 11.5,
		moved: []moved{{test: "TestDetachedByForce/six_minutes", other: "TestDetachedByForce/out-of-service takes the same way without the controller's constant"}},
	},
	{
		name: "faults", what: "certificates, replicas and API servers that fail", set: setIntegration, dir: "e2e",
		packages: []string{"./certificates/...", "./faults/..."}, flags: live, after: []string{controlPlane}, cores: 0.3, minutes: 13,
	},
	{
		name: "kind", what: "images, manifests and both certificate modes in a kind cluster", set: setE2E, dir: "e2e",
		packages: []string{"./kind/noregistry/box", "./kind/install"}, flags: live, after: []string{controlPlane, nodePrograms}, shares: wholeNode, cores: 0.3, minutes: 9.5,
		moved: []moved{
			{test: "TestOverlayThatAPIServersCantReach", foundBy: []string{"e2e/faults TestLimitsFailClosedWhenTheyCanAnswer", "e2e/faults TestGuardIsArmedWhenItCanAnswer"}},
			{test: "TestVolumeLock", foundBy: []string{"e2e/apiserver TestAdoptWithItsRole", "e2e/volumelock TestFifteenSteps"}},
		},
	},
	{
		name: "fenced machines", what: "fence agents, a BMC, and machines in QEMU that are cut off", set: setE2E, dir: "e2e",
		packages: []string{"./fencing/agents", "./fencing/guests"}, flags: live, after: []string{controlPlane, nodePrograms}, cores: 0.45, minutes: 5.7,
		moved: []moved{
			{test: "TestMachines/paused", foundBy: []string{"fencing TestHistories", "fencing TestIncidents"}},
			{test: "TestSelfFence", foundBy: []string{"nodeenforcer/selffence TestFeeder", "e2e/node/guest TestWatchdog", "fencing TestHistories", "fencing TestConditionByWatchdog"}},
		},
	},
	{
		name: "controllers", what: "with the controllers and the scheduler; random attacks", set: setIntegration, dir: "e2e",
		packages: []string{"./controlplane/...", "./attacks/..."}, flags: live, after: []string{controlPlane}, cores: 0.6, minutes: 5.6,
	},
	{
		name: "webhooks", what: "the webhooks behind a real API server", set: setIntegration, dir: "e2e",
		packages: []string{"./apiserver/...", "./agreement/...", "./bench/webhook"}, flags: live, after: []string{controlPlane}, cores: 0.4, minutes: 4.6,
		moved: []moved{{test: "TestRuns", other: "make bench and make bench-scale fail if they do not run to their end"}},
	},
	{
		name: "fencing", what: "the fencer with scripted machines", set: setIntegration, dir: "e2e",
		packages: []string{"./fencing"}, flags: live, after: []string{controlPlane}, cores: 0.3, minutes: 5.3,
	},
	{
		name: "scheduler", what: "previews against a real kube-scheduler", set: setIntegration, dir: "e2e/oracle",
		packages: []string{"./scheduler"}, flags: live, after: []string{controlPlane}, cores: 0.3, minutes: 1.2,
	},
	{
		name: "browser", what: "the page of a review in a headless Chromium", set: setE2E, dir: "e2e",
		packages: []string{"./page/...", "./screenshot/..."}, flags: live, cores: 0.45, minutes: 1.1,
	},
	{
		name: "release", what: "a release without publishing: goreleaser, which is compiled first", set: setAll, dir: ".",
		command: []string{"make", "--no-print-directory", "release", "VERSION=v0.0.0"}, cores: 2, minutes: 15,
	},
	{
		name: "chaos", what: "random faults, with a kubelet of this host if it can have one", set: setAll, dir: "e2e",
		packages: []string{"./chaos"}, flags: live, after: []string{controlPlane, nodePrograms}, shares: hostNode, cores: 0.5, minutes: 4.5,
	},
}
