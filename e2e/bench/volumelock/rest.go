package volumelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// beatEvery is how often a kubelet reports a status (nodeStatusUpdateFrequency); one that has not changed every five minutes only, by default.
const beatEvery = 10 * time.Second

// atRest is what the volume lock uses while nothing happens but heartbeats.
type atRest struct {
	nodes  int
	span   time.Duration
	cpu    time.Duration
	memory measure.Memory
	beats  int64
}

// beat has each node report a status in turns, evenly over the time, until the context ends.
func (b *bench) beat(ctx context.Context) {
	due := make(chan string)
	for range atOnce {
		go func() {
			for name := range due {
				patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
				if _, err := b.kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err == nil {
					b.beats.Add(1)
				}
			}
		}()
	}
	defer close(due)
	tick := time.NewTicker(beatEvery / time.Duration(len(b.nodes)))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case due <- b.nodes[i%len(b.nodes)]:
		case <-ctx.Done():
			return
		}
	}
}

// watchRest measures once the volume lock has nothing to do.
func (b *bench) watchRest(ctx context.Context, l *podgrace.VolumeLock, progress io.Writer) (r atRest, err error) {
	if err := cluster.UntilWithin(ctx, 10*time.Minute, "the volume lock to have nothing to do", func(ctx context.Context) (bool, error) {
		text, err := measure.Metrics(ctx, l.MetricsURL+"/metrics")
		if err != nil {
			return false, err
		}
		depth, err := measure.Sum(text, "workqueue_depth")
		return depth == 0, err
	}); err != nil {
		return r, err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go b.beat(ctx)
	fmt.Fprintf(progress, "the kubelets of %d nodes report for %s\n", len(b.nodes), b.minute)
	look := func() (now atRest, err error) {
		var errs [2]error
		now.cpu, errs[0] = measure.CPU(l.PID())
		now.memory, errs[1] = measure.MemoryOf(l.PID())
		now.beats = b.beats.Load()
		return now, errors.Join(errs[:]...)
	}
	before, err := look()
	if err != nil {
		return r, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return r, ctx.Err()
	case <-time.After(b.minute):
	}
	if r, err = look(); err != nil {
		return r, err
	}
	r.nodes, r.span = len(b.nodes), time.Since(begin)
	r.cpu -= before.cpu
	r.beats -= before.beats
	if want := float64(r.nodes) * r.span.Seconds() / beatEvery.Seconds(); float64(r.beats) < 0.9*want {
		return r, fmt.Errorf("this run is void: nodes have reported %d times in %s, of %.0f: this machine is too busy, or too slow for so many", r.beats, r.span.Round(time.Second), want)
	}
	return r, nil
}
