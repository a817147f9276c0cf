package volumelock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/program"
	"github.com/podgrace/podgrace/internal/program/memory"
)

// Main measures, by the flags of the command line.
func Main() {
	var o options
	program.Main("bench volumelock", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

// The drivers of both sides.
const (
	gated  = "gated.example.org"
	beside = "beside.example.org"
)

type options struct {
	each, many, rounds, held int
	minute                   time.Duration
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.IntVar(&o.each, "each", 200, "volumes that each side attaches one by one")
	f.IntVar(&o.many, "many", 500, "volumes that each side attaches at once")
	f.IntVar(&o.rounds, "rounds", 3, "how often that is done, in turns; the median counts")
	f.IntVar(&o.held, "held", 20000, "volumes that are held while memory and processor are measured")
	f.DurationVar(&o.minute, "for", time.Minute, "how long these are measured")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	return errors.Join(program.Positive("each", o.each), program.Positive("many", o.many), program.Positive("rounds", o.rounds), program.Positive("held", o.held), program.Positive("for", o.minute))
}

// bench is one run.
type bench struct {
	options
	cluster *cluster.Cluster
	kube    kubernetes.Interface
	watcher watcher
	began   metav1.Time // since when the nodes are ready
	nodes   []string
	beats   atomic.Int64
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	if err := podgrace.AllowVolumeLock(ctx, c, gated); err != nil {
		return err
	}
	b := &bench{options: o, cluster: c, watcher: watcher{waiting: map[string]chan time.Time{}}, began: metav1.Now().Rfc3339Copy()}
	if b.kube, err = unlimited(c.Kubeconfig); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	l, err := b.startBoth(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	var r result
	if r.ours, r.theirs, err = b.oneByOne(ctx); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%d volumes were attached one by one\n", 2*o.each)
	if r.oursAll, r.theirsAll, err = b.atOnce(ctx); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%d volumes were attached at once, %d times\n", o.many, 2*o.rounds)
	if err := b.hold(ctx); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%d volumes are held, of %d nodes\n", o.held, len(b.nodes))
	if r.rest, err = b.watchRest(ctx, l, progress); err != nil {
		return err
	}
	return report(out, o, r)
}

// unlimited is a client of a kubeconfig that waits for no rate limit of its own.
func unlimited(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return kube, nil
}

// startBoth has a CSIDriver for each side, and starts both attachers.
func (b *bench) startBoth(ctx context.Context) (*podgrace.VolumeLock, error) {
	kube, err := client.New(b.cluster.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if _, err := podgrace.CreateAdopted(ctx, kube, gated); err != nil { // what was not adopted is not attached
		return nil, err
	}
	if _, err := b.kube.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: beside}}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("make CSIDriver %s: %w", beside, err)
	}
	kubeconfig, err := b.cluster.TokenKubeconfig(ctx, "podgrace-system", "podgrace-volumelock")
	if err != nil {
		return nil, err
	}
	attacher, err := unlimited(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(watch(ctx, b.kube, b.watcher.see), watch(ctx, attacher, trivial(ctx, attacher))); err != nil {
		return nil, err
	}
	return b.start(ctx, kubeconfig)
}

// start starts the volume lock, which is told of the memory limit that its container has.
func (b *bench) start(ctx context.Context, kubeconfig string) (*podgrace.VolumeLock, error) {
	if err := os.Setenv(memory.Variable, strconv.Itoa(memoryGoal)); err != nil {
		return nil, fmt.Errorf("tell of the memory limit: %w", err)
	}
	program, err := podgrace.BuildVolumeLock(ctx, filepath.Join(b.cluster.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	return podgrace.StartVolumeLock(ctx, b.cluster, program, kubeconfig, []string{gated}, "--leader-elect=false")
}

// oneByOne attaches volumes of both sides in turns.
func (b *bench) oneByOne(ctx context.Context) (ours, theirs []time.Duration, err error) {
	mine, others := some(gated, "each", b.each), some(beside, "each", b.each)
	if err := errors.Join(b.make(ctx, mine), b.make(ctx, others)); err != nil {
		return nil, nil, err
	}
	for i := range mine {
		for _, side := range []struct {
			v  volume
			to *[]time.Duration
		}{{mine[i], &ours}, {others[i], &theirs}} {
			took, err := b.attach(ctx, side.v)
			if err != nil {
				return nil, nil, err
			}
			*side.to = append(*side.to, took)
		}
	}
	return ours, theirs, nil
}

// atOnce attaches many volumes of each side, in turns.
func (b *bench) atOnce(ctx context.Context) (ours, theirs []time.Duration, err error) {
	for round := range b.rounds {
		for _, side := range []struct {
			driver string
			to     *[]time.Duration
		}{{gated, &ours}, {beside, &theirs}} {
			volumes := some(side.driver, fmt.Sprintf("many-%d", round), b.many)
			if err := b.make(ctx, volumes); err != nil {
				return nil, nil, err
			}
			took, err := b.attachAll(ctx, volumes)
			if err != nil {
				return nil, nil, err
			}
			*side.to = append(*side.to, took)
		}
	}
	return ours, theirs, nil
}

// hold has the volume lock attach many more.
func (b *bench) hold(ctx context.Context) error {
	volumes := some(gated, "held", b.held)
	if err := b.make(ctx, volumes); err != nil {
		return err
	}
	_, err := b.attachAll(ctx, volumes)
	return err
}
