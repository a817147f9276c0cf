package controller

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

// Census counts what the informers know, when it is asked, once this replica leads: before, there is nothing. False: it could not be counted. Which drivers are gated is told with it, since of a
// driver that nobody uses nothing is reconciled that would.
func (x *Attacher) Census(leads <-chan struct{}) func() (volumelock.Census, bool) {
	return func() (volumelock.Census, bool) {
		select {
		case <-leads:
		default:
			return volumelock.Census{}, true
		}
		ctx, cancel := context.WithTimeout(context.Background(), censusTimeout)
		defer cancel()
		var (
			locks       v1alpha1.VolumeLockList
			attachments storagev1.VolumeAttachmentList
			nodes       corev1.NodeList
		)
		if err := errors.Join(x.Cache.List(ctx, &locks, client.UnsafeDisableDeepCopy), x.Cache.List(ctx, &attachments, client.UnsafeDisableDeepCopy), x.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy)); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "count volumes")
			return volumelock.Census{}, false
		}
		for _, d := range x.Drivers {
			driver, err := read(ctx, x.Cache, d, &storagev1.CSIDriver{})
			if err != nil {
				utilruntime.HandleErrorWithContext(ctx, err, "read CSIDriver", "driver", d)
				continue
			}
			x.Metrics.gate(d, volumelock.Conflict(d, driver, nil) == "")
		}
		return volumelock.Count(x.Drivers, locks.Items, attachments.Items, nodes.Items), true
	}
}

// censusTimeout is how long a scrape waits for informers that have not synced.
const censusTimeout = 5 * time.Second

// census tells a census as metrics.
type census struct {
	count func() (volumelock.Census, bool)
}

var (
	locksMetric         = prometheus.NewDesc("podgrace_volumelock_locks", "VolumeLocks of the drivers that are gated, as the leader has them: Held, Releasing (the VolumeAttachment is deleted, and the node is not known to be rid of the volume), or NodeGone (its Node is no more, or another of its name); 0 on other replicas.", []string{"state"}, nil)
	driverLocksMetric   = prometheus.NewDesc("podgrace_volumelock_driver_locks", "VolumeLocks of each driver that --drivers names, as the leader has them; other replicas tell of none.", []string{"driver"}, nil)
	oldestReleaseMetric = prometheus.NewDesc("podgrace_volumelock_oldest_release_timestamp_seconds", "Since when the longest release goes on; 0: none does, or this replica does not lead.", nil, nil)
	waitingMetric       = prometheus.NewDesc("podgrace_volumelock_waiting_attachments", "VolumeAttachments of the drivers that are gated that are not attached, as the leader has them; 0 on other replicas.", nil, nil)
	oldestWaitingMetric = prometheus.NewDesc("podgrace_volumelock_oldest_waiting_attachment_timestamp_seconds", "When the oldest VolumeAttachment was made that podgrace_volumelock_waiting_attachments counts; 0: there is none.", nil, nil)
)

// NewCensusMetric registers metrics of what is counted when they are read.
func NewCensusMetric(registry prometheus.Registerer, count func() (volumelock.Census, bool)) {
	registry.MustRegister(&census{count})
}

// Describe is of prometheus.Collector.
func (*census) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{locksMetric, driverLocksMetric, oldestReleaseMetric, waitingMetric, oldestWaitingMetric} {
		all <- d
	}
}

// Collect is of prometheus.Collector.
func (c *census) Collect(all chan<- prometheus.Metric) {
	counted, ok := c.count()
	if !ok {
		return
	}
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range volumelock.Standings() {
		tell(locksMetric, float64(counted.Locks[s]), string(s))
	}
	for driver, locks := range counted.ByDriver {
		tell(driverLocksMetric, float64(locks), driver)
	}
	tell(oldestReleaseMetric, seconds(counted.OldestRelease))
	tell(waitingMetric, float64(counted.Waiting))
	tell(oldestWaitingMetric, seconds(counted.OldestWaiting))
}

// seconds since 1970; 0 of no time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
