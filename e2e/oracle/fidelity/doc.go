// Package fidelity compares Podgrace's decisions with Kubernetes' own code of the same version, on random cases. What
// the defaulting engine claims about the API server and the scheduler is claimed in comments; here it is asked of them:
//
//	priority      the in-tree Priority plugin accepts the pod after Podgrace, as one that named the class itself
//	selector      the injected labelSelector is helper.DefaultSelector's, once the API server has merged matchLabelKeys
//	validation    a pod that the API server accepts is still accepted after Podgrace, and a second call changes nothing
//	graceperiod   what a DELETE does to a pod (at once, not at all, or in so many seconds) is what BeforeDelete does
//	feasibility   what is called infeasible, the scheduler's PodTopologySpread refuses on every node, and the reverse, of each
//	              constraint by itself and of several together
//	contradiction which of a pod's own constraints are said to leave no node, and which nodes each leaves
//
// And what the node's plan claims about the kubelet:
//
//	node pod      a pod's QoS class, path and files are ResourceConfigForPod's, under every configuration
//	node oom      oom_score_adj is GetContainerOOMScoreAdjust's
//	node qos      the QoS levels' shares and reserved memory are what the kubelet's QoS manager writes
//	reserved      kubepods and the cgroups of reservations have what the kubelet's container manager writes, and hard
//	              thresholds come to the kubelet's numbers
//	node names    kubepods is where NodeAllocatableRoot says
//	node weight   cpu.weight is getCPUWeight's, for all weights there are, and back
//	allocation    the resources read from a pod's status are those of the kubelet's allocation manager
//	cpu manager   cpu_manager_state is read as the kubelet does, checksum included
//	eviction      who goes next, and with how much grace, is what the kubelet's eviction manager decides
//
// And what the review of manifests claims about the API server:
//
//	default       what it sets in pods, workloads and state is what the API server's scheme sets
//	matchlabels   the selectors after matchLabelKeys are those that the pod strategy makes
//	priority      a pod gets the priority that the in-tree plugin gives it, or is refused as there
//	calls         it asks the paths that the API server's dispatcher of webhooks would, and refuses what that refuses without a call
//	export        a state from its export, as it was written, and without namespaces is reviewed with the same words as from the cluster
//	policies      an admission policy refuses what the API server's own plugin refuses, with the same words
//
// A case is drawn by pgregory.net/rapid, which shrinks one that disagrees. 3,000 cases a property are the default; ask
// for more with -rapid.checks, and give -timeout 0 with it. Each property says at its end how many of its cases mattered,
// and fails where those are too few: a generator that makes nothing relevant can't find anything.
//
// Everything is in test files: the module exists for e2e only.
package fidelity
