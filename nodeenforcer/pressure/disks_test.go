package pressure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

const gib = 1 << 30

// of is a file system of so many GiB with so many left, and as many thousand inodes.
func of(size, left int64) *Room {
	return &Room{Bytes: size * gib, BytesLeft: left * gib, Inodes: size * 1000, InodesLeft: left * 1000}
}

// on is a folder on a file system that had from so much to so much.
func on(path string, least, most *Room) Folder {
	return Folder{Path: path, Least: *least, Most: *most}
}

func TestLocate(t *testing.T) {
	none := func(path string) Folder {
		return Folder{Path: path, Err: fmt.Errorf("the file system of %s: %w", path, unix.ENOENT)}
	}
	uncounted := of(100, 50)
	uncounted.Inodes, uncounted.InodesLeft = 0, 0
	inodes := of(100, 50)
	inodes.InodesLeft = 20_000
	same := func(path string, is *Room) Folder { return on(path, is, is) }
	root, disk := of(100, 50), of(500, 300)
	for name, tc := range map[string]struct {
		node, image     *Room
		kubelet, images Folder
		// The folders by which they are measured, or what is told.
		wantNode, wantImage string
		nodeErr, imageErr   []string
	}{
		"one disk":                      {node: root, image: root, kubelet: same("/k", root), images: same("/i", root), wantNode: "/k", wantImage: "/i"},
		"one disk, no folder":           {node: root, image: root, kubelet: same("/k", root), images: none("/i"), wantNode: "/k", wantImage: "/k"},
		"two disks":                     {node: root, image: disk, kubelet: same("/k", root), images: same("/i", disk), wantNode: "/k", wantImage: "/i"},
		"two disks, no folder":          {node: root, image: disk, kubelet: same("/k", root), images: none("/i"), wantNode: "/k", imageErr: []string{"it has 500.0 GiB as the kubelet says", "/i is not there", "/k is on another one, of 100.0 GiB", "--image-root", "nodeEnforcer.imageRoot"}},
		"two disks, another's folder":   {node: root, image: disk, kubelet: same("/k", root), images: same("/i", root), wantNode: "/k", imageErr: []string{"/i is on another one, of 100.0 GiB"}},
		"one disk, another's folder":    {node: root, image: root, kubelet: same("/k", root), images: same("/i", disk), wantNode: "/k", wantImage: "/k"},
		"the kubelet's is elsewhere":    {node: disk, image: disk, kubelet: same("/k", root), images: same("/i", disk), wantImage: "/i", nodeErr: []string{"it has 500.0 GiB", "/k is on another one, of 100.0 GiB", "--kubelet-root", "nodeEnforcer.kubeletRoot"}},
		"as large, not as full":         {node: root, image: of(100, 90), kubelet: same("/k", root), images: none("/i"), wantNode: "/k", imageErr: []string{"it has 100.0 GiB"}},
		"as large and full, of others":  {node: root, image: inodes, kubelet: same("/k", root), images: none("/i"), wantNode: "/k", imageErr: []string{"it has 100.0 GiB"}},
		"fills while it is asked":       {node: of(100, 30), image: of(100, 30), kubelet: on("/k", of(100, 29), of(100, 50)), images: none("/i"), wantNode: "/k", wantImage: "/k"},
		"a little off":                  {node: of(100, 51), image: of(100, 49), kubelet: same("/k", root), images: same("/i", root), wantNode: "/k", wantImage: "/i"},
		"more than a little":            {node: of(100, 53), image: of(100, 47), kubelet: same("/k", root), images: same("/i", root), nodeErr: []string{"100.0 GiB"}, imageErr: []string{"100.0 GiB"}},
		"inodes are not counted":        {node: uncounted, image: uncounted, kubelet: same("/k", root), images: none("/i"), wantNode: "/k", wantImage: "/k"},
		"the runtime's does not answer": {node: root, image: disk, kubelet: same("/k", root), images: Folder{Path: "/i", Err: errors.New("it hangs")}, wantNode: "/k", imageErr: []string{"and it hangs, /k is"}},
		"nothing is said":               {kubelet: same("/k", root), images: same("/i", root), nodeErr: []string{"have no nodefs"}, imageErr: []string{"have no imagefs"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Locate(tc.node, tc.image, tc.kubelet, tc.images)
			for what, d := range map[string]struct {
				got  Disk
				want string
				errs []string
			}{"nodefs": {got.Node, tc.wantNode, tc.nodeErr}, "imagefs": {got.Image, tc.wantImage, tc.imageErr}} {
				if d.got.Path != d.want || (d.got.Err != nil) != (d.want == "") {
					t.Errorf("%s: got %+v, want %q", what, d.got, d.want)
				}
				for _, text := range d.errs {
					if d.got.Err != nil && !strings.Contains(d.got.Err.Error(), text) {
						t.Errorf("%s: %v, want %q in it", what, d.got.Err, text)
					}
				}
			}
			if got.Located() != (tc.nodeErr == nil && tc.imageErr == nil) {
				t.Errorf("located: %v", got.Located())
			}
		})
	}
}

// A disk that was located stays so while one answer of the kubelet or a few do not fit, unless it has another size, cannot be measured, or that goes on.
func TestRelocate(t *testing.T) {
	is, filled, other := of(100, 50), of(100, 20), of(500, 300)
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	same := func(path string, is *Room) Folder { return on(path, is, is) }
	gone := Folder{Path: "/k", Err: errors.New("gone")}
	type answer struct {
		after       time.Duration
		node, image *Room
		kubelet     Folder
		wantNode    string
		wantImage   string
		doubted     bool
	}
	ok := answer{0, is, is, same("/k", is), "/k", "/i", false}
	for name, answers := range map[string][]answer{
		"one that does not fit": {ok, {5, filled, is, same("/k", is), "/k", "/i", true}, {6, is, is, same("/k", is), "/k", "/i", false}, {100, filled, is, same("/k", is), "/k", "/i", true}},
		"for too long":          {ok, {5, filled, filled, same("/k", is), "/k", "/i", true}, {64, filled, filled, same("/k", is), "/k", "/i", true}, {65, filled, filled, same("/k", is), "", "", false}},
		"never located":         {{0, filled, is, same("/k", is), "", "/i", false}, {5, filled, is, same("/k", is), "", "/i", false}},
		"another size":          {ok, {5, other, is, same("/k", is), "", "/i", false}},
		"nothing is said":       {ok, {5, nil, is, same("/k", is), "", "/i", false}},
		"can't be measured":     {ok, {5, filled, is, gone, "", "/i", false}},
	} {
		t.Run(name, func(t *testing.T) {
			disks := Unlocated(nil)
			for _, a := range answers {
				disks = disks.Relocate(began.Add(a.after*time.Second), a.node, a.image, a.kubelet, same("/i", is))
				if disks.Node.Path != a.wantNode || disks.Image.Path != a.wantImage || disks.Node.Doubted.IsZero() == a.doubted || (disks.Node.Err == nil) != (a.wantNode != "") {
					t.Errorf("after %d s: %+v", a.after, *disks)
				}
			}
		})
	}
}

// What is told of a disk does not change with what is left on it: each change is a line of the log.
func TestLocateTellsTheSame(t *testing.T) {
	say := func(left int64) string {
		k := of(100, left)
		return Locate(k, of(500, left), on("/k", k, k), Folder{Path: "/i", Err: errors.New("none")}).Image.Err.Error()
	}
	if a, b := say(50), say(40); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

// Before anything is known, and where that can't be, no signal of a disk is measured.
func TestUnlocated(t *testing.T) {
	for signal, want := range map[v1alpha1.EvictionSignal]error{v1alpha1.SignalNodeFsAvailable: errPending, v1alpha1.SignalImageFsInodesFree: errPending} {
		if got := Unlocated(nil).Of(signal); !errors.Is(got.Err, want) || got.Path != "" {
			t.Errorf("%s: %+v", signal, got)
		}
	}
	if d := Unlocated(errors.New("it is away")); d.Located() || !strings.Contains(d.Of(v1alpha1.SignalNodeFsInodesFree).Err.Error(), "it is away") {
		t.Errorf("%+v", d)
	}
}

// A folder is known by what it had in all the time of which the kubelet may tell, and no longer.
func TestSensorRemembersAFolder(t *testing.T) {
	proc, _, v2 := statetest.Sensed()
	s := sensor(t, cgroupfile.V2, proc, v2)
	clock := testclock.NewFakePassiveClock(statetest.LongAgo)
	s.Clock = clock
	path := t.TempDir()
	is := s.Folder(path)
	if is.Err != nil || is.Path != path || is.Least != is.Most || is.Most.Bytes <= 0 || is.Most.BytesLeft > is.Most.Bytes || is.Most.InodesLeft > is.Most.Inodes {
		t.Fatalf("got %+v", is)
	}
	of := s.fileSystems[path]
	for i := range of.recent {
		of.recent[i].fs.Bavail, of.recent[i].fs.Ffree = 7, 9 // as it was a moment ago
	}
	clock.SetTime(clock.Now().Add(recently))
	if is := s.Folder(path); is.Least.BytesLeft != 7*of.last.fs.Frsize || is.Least.InodesLeft != 9 || is.Most.BytesLeft <= is.Least.BytesLeft {
		t.Errorf("within the time: %+v", is)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if is := s.Folder(path); is.Least.BytesLeft == 7*of.last.fs.Frsize {
		t.Errorf("after it: %+v", is)
	}
	for range 1000 {
		clock.SetTime(clock.Now().Add(25 * time.Millisecond))
		s.Folder(path)
	}
	if n := len(of.recent); n > int(recently/time.Second)+1 {
		t.Errorf("it keeps %d answers", n)
	}
	if f := s.Folder("/nowhere"); f.Err == nil || !strings.Contains(f.Err.Error(), "/nowhere") {
		t.Errorf("got %+v", f)
	}
}
