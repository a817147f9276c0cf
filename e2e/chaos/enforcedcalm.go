package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
	cgroupplan "github.com/podgrace/podgrace/nodeenforcer/plan"
)

// repairedWithin is how long a file may hold what somebody wrote when all is well: the enforcer looks each two seconds at most, and holds a repair back for two. The rest is for a machine that is busy.
const repairedWithin = 20 * time.Second

// witnessEnforced looks each second which containers of the real node run. One that containerd was just starting when it was killed may have to be started again, and was not seen to run; one that ran
// runs on whoever is killed, so that its cgroup, which no other container gets, has a process.
func (l *lab) witnessEnforced(working context.Context) {
	n, wanted := l.enforced, map[string]int{}
	for _, of := range keptApps {
		wanted[of.name] = int(of.replicas)
	}
	eachProbe(working, func() bool {
		pods, _ := l.podsOfEnforced() // an informer's list does not fail
		n.seen(pods, time.Now())
		for _, p := range surplus(pods, wanted) {
			if n.lives.ask(p.UID) {
				l.counts.add("pods of the real node that their ReplicaSet ended, because there was one too many", 1)
			}
		}
		for _, p := range n.lives.look(n.node.CgroupRoot, pods, func(at string) bool { return len(n.processes(at)) > 0 }) {
			l.violated("the container of pod %s/%s (%s) on the real node ended, and nobody had asked for that", p.Namespace, p.Name, p.UID)
		}
		n.enforcer.ready(working) // so that it is known of one that ends whether it had been
		return true
	})
}

// keepEnforced keeps the real node's kubelet and containerd running, which may take minutes: beside its witness.
func (l *lab) keepEnforced(working context.Context) {
	eachProbe(working, func() bool {
		ended, err := l.enforced.keepRuntime(working)
		if err != nil && working.Err() == nil {
			l.violated("what the real node runs containers by can't be started again: %v", err)
			return false
		}
		for _, name := range ended {
			l.counts.add(name+" ended by itself, and was started again", 1)
		}
		return true
	})
}

// seen notes when pods come and go: by that the kubelet brings the sums of the QoS levels up to date.
func (n *enforcedNode) seen(pods []*corev1.Pod, now time.Time) {
	there := map[types.UID]bool{}
	for _, p := range pods {
		there[p.UID] = runsIn(p)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !maps.Equal(there, n.pods) {
		n.pods, n.moved = there, now
	}
}

// enforcedUnwell is what of the real node is not yet as it must be. What is not so in time is a violation.
func (l *lab) enforcedUnwell(ctx context.Context) error {
	n := l.enforced
	if n == nil {
		return nil
	}
	if !n.enforcer.ready(ctx) {
		return fmt.Errorf("the node enforcer is not ready")
	}
	var list corev1.PodList
	if err := l.kube.List(ctx, &list, client.InNamespace(keptNamespace)); err != nil {
		return err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		p := &list.Items[i]
		if !runsIn(p) || isResizing(p) {
			return fmt.Errorf("pod %s/%s starts, or is being resized: %+v", p.Namespace, p.Name, p.Status)
		}
		pods = append(pods, p)
	}
	want := n.wanted(pods)
	if all := differences(want, n.read(want)); len(all) > 0 {
		for _, d := range all {
			if l.isOverdue(n, podOf(n.node.CgroupRoot, pods, d.keptFile)) {
				l.tellOnce(d, "%s", d)
			}
		}
		return fmt.Errorf("of the real node %d files do not hold what they are to: %s", len(all), all[0])
	}
	return l.plannedUnwell(ctx, n, pods)
}

// tellOnce tells of a violation of the real node, once in a run.
func (l *lab) tellOnce(d difference, format string, args ...any) {
	n := l.enforced
	n.mu.Lock()
	told := n.told[d]
	n.told[d] = true
	n.mu.Unlock()
	if !told {
		l.violated("on the real node: "+format, args...)
	}
}

// podOf is the one of whose cgroups a file is; of processes a plan has the pod's name alone.
func podOf(root string, pods []*corev1.Pod, f keptFile) *corev1.Pod {
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool {
		return strings.HasPrefix(f.cgroup+"/", cgroupOf(root, p)+"/") || f.cgroup == p.Namespace+"/"+p.Name
	})
	if i < 0 {
		return nil
	}
	return pods[i]
}

// isOverdue reports whether all that a pod's files wait for is over for long enough; of no pod: what those of the QoS levels wait for. Of an outage of the control plane those wait longer of which the enforcer
// may not have heard before it, because the pod came then, or was to be resized, or because the enforcer was started then.
func (l *lab) isOverdue(n *enforcedNode, p *corev1.Pod) bool {
	now := time.Now()
	disturbed := l.weather.quietSince(l.began, []plan.Scope{plan.Enforcer, plan.Kubelet, plan.Cgroup})
	outage := l.weather.quietSince(l.began, []plan.Scope{plan.ControlPlane})
	started := n.enforcer.startedAt()
	n.mu.Lock()
	defer n.mu.Unlock()
	if p == nil {
		return overdue(now, levelsWithin, append(slices.Collect(maps.Values(n.resized)), disturbed, outage, n.moved)...)
	}
	news := []time.Time{n.resized[p.UID], p.Status.ContainerStatuses[0].State.Running.StartedAt.Time, started}
	known := overdue(l.weather.spellOf(plan.ControlPlane), keptWithin, news...)
	return overdue(now, keptWithin, append(news, disturbed, outage)...) && (known || overdue(now, keptAfterOutage, outage))
}

// lookAtLevels looks at the real node once more when the time of the QoS levels' files is over, for which calms are too short: what is not right then is overdue. No alert is looked at meanwhile.
func (l *lab) lookAtLevels(ctx context.Context, within time.Duration) error {
	n := l.enforced
	if n == nil {
		return nil
	}
	defer l.recorded.disturbed()()
	l.say("waiting until the QoS levels of the real node must be right")
	err := cluster.UntilWithin(ctx, wellWithin, "the real node to be left alone", func(context.Context) (bool, error) { return l.isOverdue(n, nil), nil })
	if err == nil {
		var last error
		err = cluster.UntilWithin(ctx, within, "the real node to be well", func(ctx context.Context) (bool, error) {
			last = l.enforcedUnwell(ctx)
			return last == nil, nil
		})
		if err != nil {
			err = errors.Join(err, last)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		l.violated("at the end, when the QoS levels had to be right: %v", err)
	default:
		l.counts.add("times that the QoS levels of the real node were looked at when they had to be right", 1)
	}
	return nil
}

// plannedUnwell compares the files of all levels with what the enforcer's program of this version plans, and its metrics with that.
func (l *lab) plannedUnwell(ctx context.Context, n *enforcedNode, pods []*corev1.Pod) error {
	p, err := l.planOfEnforced(ctx, n)
	if err != nil {
		return err
	}
	differ, drifts := planned(p)
	for _, d := range differ {
		of := podOf(n.node.CgroupRoot, pods, d.keptFile)
		if l.isOverdue(n, of) {
			l.tellOnce(d, "by its plan %s", d)
		}
		if of != nil { // the QoS levels are the kubelet's, once a minute: they are waited for by time alone
			return fmt.Errorf("by its plan %s", d)
		}
	}
	text, err := metricsOf(ctx, n.enforcer.process().MetricsURL)
	if err != nil {
		return err
	}
	return toldWrong(text, len(pods), drifts)
}

// planOfEnforced is what `nodeenforcer plan` prints.
func (l *lab) planOfEnforced(ctx context.Context, n *enforcedNode) (p nodeplan.NodePlan, err error) {
	kubeconfig, err := podgrace.EnforcerKubeconfig(l.Cluster)
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var problems strings.Builder
	cmd := exec.CommandContext(ctx, n.programs.current, "plan", "-o=json", "--kubeconfig="+kubeconfig, "--node-name="+realNode, fmt.Sprintf("--kubelet=%s:%d", n.node.Address, n.node.Port))
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("plan the real node: %w: %s", err, problems.String())
	}
	return p, json.Unmarshal(out, &p)
}

// planned are the files that do not hold what a plan says, and how many there are with the processes. A runtime may lack the right to give processes a lower score than its own, and so may who repairs that.
func planned(p nodeplan.NodePlan) (differ []difference, drifts int) {
	for _, g := range p.Cgroups {
		if g.Missing {
			differ = append(differ, difference{keptFile{cgroup: g.Path}, "", "there"})
		}
		for name, have := range g.Drift {
			differ = append(differ, difference{keptFile{g.Path, name, g.Container != ""}, have, g.Files[name]})
		}
		drifts += len(g.Drift)
	}
	for _, of := range p.Processes {
		if of.Drift == "" {
			continue
		}
		if drifts++; of.OOMScoreAdj >= 0 {
			differ = append(differ, difference{keptFile{cgroup: of.Pod, name: oomScore, ofContainer: true}, of.Drift, fmt.Sprint(of.OOMScoreAdj)})
		}
	}
	slices.SortFunc(differ, func(a, b difference) int { return compareFiles(a.keptFile, b.keptFile) })
	return differ, drifts
}

// toldWrong is what the metrics of the enforcer tell that is not so, of a node with so many pods of one container each, of whose files and processes so many differ from the plan. Nobody writes a file
// so often that it would be given up, there are no thresholds by which it would evict, and the kubelet answers.
func toldWrong(metrics string, pods, drifts int) error {
	for _, of := range []struct {
		series string
		want   int
	}{
		{`podgrace_node_cgroups{level="` + string(cgroupplan.LevelPod) + `"}`, pods}, {`podgrace_node_cgroups{level="` + string(cgroupplan.LevelContainer) + `"}`, pods},
		{"podgrace_node_drift_files", drifts}, {"podgrace_node_refused", 0}, {"podgrace_node_given_up_files_total", 0}, {"podgrace_node_eviction_steps_total", 0},
	} {
		n, err := measure.Sum(metrics, of.series)
		if err != nil {
			return err
		}
		if int(n) != of.want {
			return fmt.Errorf("the node enforcer's metrics tell of %s %.0f, and it is %d", of.series, n, of.want)
		}
	}
	return nil
}

// repairs has somebody write into a file while all is well: it is restored within a time, and counted.
func (l *lab) repairs(ctx context.Context, within time.Duration) {
	n := l.enforced
	if n == nil {
		return
	}
	want := n.wanted(l.runningEnforced())
	f, value, wrote, err := n.hand.choose(want, l.counts.looked())
	if err != nil {
		l.counts.add("calms in which there was no file that somebody may change", 1)
		return
	}
	before, err := n.writesOf(ctx, f, requestTimeout, -1) // within is the time of the repair, which begins with the change
	if err == nil {
		err = l.change(ctx, n, f, value)
	}
	wrote()
	if err != nil {
		if ctx.Err() == nil {
			l.violated("in the calm %s of %s can't be changed: %v", f.name, f.cgroup, err)
		}
		return
	}
	changed, have := time.Now(), ""
	if err := cluster.UntilWithin(ctx, within, "the repair", func(context.Context) (bool, error) {
		have = n.read(map[keptFile]string{f: want[f]})[f]
		return have == want[f], nil
	}); err != nil {
		if ctx.Err() == nil {
			l.violated("in the calm somebody wrote %s into %s of %s, which is %q now, and is to be %s: %v", value, f.name, f.cgroup, have, want[f], err)
		}
		return
	}
	l.counts.add("files that somebody changed in a calm, and the enforcer restored", 1)
	l.say("%s of %s was restored after %.1f s", f.name, f.cgroup, time.Since(changed).Seconds())
	if _, err := n.writesOf(ctx, f, within, before); err != nil && ctx.Err() == nil {
		l.violated("in the calm %s of %s was restored, and the node enforcer does not count that: %v", f.name, f.cgroup, err)
	}
}

// writesOf is how many writes of files of a name the enforcer counts, once they are more than so many. A scrape that fails is tried again within the time.
func (n *enforcedNode) writesOf(ctx context.Context, f keptFile, within time.Duration, moreThan float64) (writes float64, err error) {
	var last error
	err = cluster.UntilWithin(ctx, within, fmt.Sprintf("the node enforcer to count more than %.0f writes of %s", moreThan, f.name), func(ctx context.Context) (bool, error) {
		var text string
		if text, last = metricsOf(ctx, n.enforcer.process().MetricsURL); last != nil {
			return false, nil
		}
		writes, last = measure.Sum(text, fmt.Sprintf("podgrace_node_writes_total{file=%q", f.name))
		return last == nil && writes > moreThan, nil
	})
	if err != nil {
		return writes, errors.Join(err, last)
	}
	return writes, nil
}

// measureEnforced looks what the process of the enforcer has, and whether that grows.
func (l *lab) measureEnforced(ctx context.Context) error {
	n := l.enforced
	if n == nil {
		return nil
	}
	r := n.enforcer.process()
	one, _, err := sampleOf(ctx, r.PID(), r.MetricsURL, time.Since(l.began))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil { // it hangs, or has ended
		l.violated("in the calm the node enforcer can't be measured: %v", err)
		return nil
	}
	n.mu.Lock()
	if n.of != r {
		n.samples, n.of = nil, r
	}
	n.samples = append(n.samples, one)
	samples := n.samples
	n.mu.Unlock()
	l.counts.sampled("node enforcer", samples)
	for _, what := range grows(samples) {
		l.violated("the node enforcer, over %d calms: %s", len(samples), what)
	}
	return nil
}
