package pressure

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Room is how large a file system is, and what is left of it.
type Room struct{ Bytes, BytesLeft, Inodes, InodesLeft int64 }

// Folder is one by which a file system could be measured: the least and the most that statfs said of each value within recently.
type Folder struct {
	Path        string
	Least, Most Room
	// Err is why it can't be measured.
	Err error
}

// recently is how old what the kubelet says of a file system can be: cadvisor measures all of them every ten to fifteen seconds (defaultHousekeepingInterval and
// maxHousekeepingInterval, pkg/kubelet/cadvisor/cadvisor_linux.go, 1.36.3), and the kubelet may take thirty to answer.
const recently = time.Minute

// Disk is by which folder one of the kubelet's file systems is measured, or why it can't be.
type Disk struct {
	Path string
	Err  error
	// Doubted is since when what the kubelet says of it does not fit; zero: it fits.
	Doubted time.Time
}

// doubtful is how long a file system is taken for the one that it was while what the kubelet says does not fit. One answer says little where a disk fills fast and the node is busy, which is
// when it matters: the kubelet's numbers may then be older than recently, and it gives the same ones until it has measured again.
const doubtful = time.Minute

// Disks are the kubelet's file systems: nodefs has its own folder, imagefs the container runtime's.
type Disks struct{ Node, Image Disk }

// Unlocated is before the kubelet has told what its file systems are like; why is nil before it was asked.
func Unlocated(why error) *Disks {
	unknown := Disk{Err: errPending}
	if why != nil {
		unknown.Err = fmt.Errorf("which file system it is, is not known: %w", why)
	}
	return &Disks{Node: unknown, Image: unknown}
}

// Of is the one that a signal is about.
func (d *Disks) Of(signal v1alpha1.EvictionSignal) Disk {
	if signal == v1alpha1.SignalNodeFsAvailable || signal == v1alpha1.SignalNodeFsInodesFree {
		return d.Node
	}
	return d.Image
}

// Located reports whether both are known.
func (d *Disks) Located() bool { return d.Node.Err == nil && d.Image.Err == nil }

// Locate finds the folders by which the kubelet's file systems are to be measured, by what the kubelet says of these; nil: it says nothing. A folder that
// was made for want of the right one, or is another distribution's, is on a file system that is not as the kubelet says, and is not measured. imagefs
// needs no folder of the runtime's where it is nodefs, as on most nodes.
func Locate(node, image *Room, kubelet, runtime Folder) *Disks {
	d := &Disks{}
	switch {
	case node == nil:
		d.Node.Err = errors.New("the kubelet's statistics have no nodefs")
	case kubelet.is(*node):
		d.Node.Path = kubelet.Path
	default:
		d.Node.Err = fmt.Errorf("it has %s as the kubelet says, and %s: name the kubelet's own folder (--kubelet-root, nodeEnforcer.kubeletRoot of the chart)", size(node.Bytes), kubelet.told())
	}
	switch {
	case image == nil:
		d.Image.Err = errors.New("the kubelet's statistics have no imagefs")
	case runtime.is(*image):
		d.Image.Path = runtime.Path
	case kubelet.is(*image):
		d.Image.Path = kubelet.Path
	default:
		d.Image.Err = fmt.Errorf("it has %s as the kubelet says, and %s, %s: name the container runtime's folder (--image-root, nodeEnforcer.imageRoot of the chart)", size(image.Bytes), runtime.told(), kubelet.told())
	}
	return d
}

// Relocate is Locate where the file systems were located before. One that is as large as the kubelet says stays where it was found, until it was doubtful for too long.
func (d *Disks) Relocate(now time.Time, node, image *Room, kubelet, runtime Folder) *Disks {
	next := Locate(node, image, kubelet, runtime)
	next.Node = d.Node.or(now, next.Node, node, kubelet)
	next.Image = d.Image.or(now, next.Image, image, runtime, kubelet)
	return next
}

// or is a disk as it was, or as it is found now. told is what the kubelet says of it, and folders are those by which it may have been measured.
func (d Disk) or(now time.Time, found Disk, told *Room, folders ...Folder) Disk {
	if found.Err == nil || d.Err != nil || told == nil {
		return found
	}
	if d.Doubted.IsZero() {
		d.Doubted = now
	}
	i := slices.IndexFunc(folders, func(f Folder) bool { return f.Path == d.Path })
	if i < 0 || !folders[i].asLarge(*told) || now.Sub(d.Doubted).Abs() >= doubtful {
		return found
	}
	return d
}

// told says what a folder that is not the right one is on. What is left there is not in it: it would be another text each time.
func (f Folder) told() string {
	if errors.Is(f.Err, fs.ErrNotExist) {
		return f.Path + " is not there"
	}
	if f.Err != nil {
		return f.Err.Error()
	}
	return fmt.Sprintf("%s is on another one, of %s", f.Path, size(f.Most.Bytes))
}

func size(bytes int64) string {
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// tolerance is the part of a file system by which two answers about it may differ: some (ZFS, btrfs) are not of a fixed size. Whatever were taken for
// the right one by it would hardly be measured otherwise.
const tolerance = 50

// is reports whether the folder is on the file system that the kubelet describes. Of some it counts no inodes.
func (f Folder) is(told Room) bool {
	return f.asLarge(told) && near(told.BytesLeft, f.Least.BytesLeft, f.Most.BytesLeft, told.Bytes) &&
		(told.Inodes == 0 || near(told.InodesLeft, f.Least.InodesLeft, f.Most.InodesLeft, told.Inodes))
}

// asLarge reports whether the folder is on a file system as large as the one that the kubelet describes.
func (f Folder) asLarge(told Room) bool {
	return f.Err == nil && near(told.Bytes, f.Least.Bytes, f.Most.Bytes, told.Bytes)
}

// near reports whether a value is between two others, give or take the tolerated part of a capacity.
func near(value, least, most, capacity int64) bool {
	slack := capacity / tolerance
	return value >= least-slack && value <= most+slack
}

// roomOf is what statfs said.
func roomOf(said unix.Statfs_t) Room {
	return Room{Bytes: int64(said.Blocks) * said.Frsize, BytesLeft: int64(said.Bavail) * said.Frsize, Inodes: int64(said.Files), InodesLeft: int64(said.Ffree)}
}

// Folder measures the file system of a folder, and returns what was recently so. Whoever means to know what the kubelet's answer is about calls it all the time.
func (s *Sensor) Folder(path string) Folder {
	f := Folder{Path: path}
	if _, _, f.Err = s.statfs(path); f.Err != nil {
		return f
	}
	for i, m := range s.fileSystems[path].recent {
		is := roomOf(m.fs)
		if i == 0 {
			f.Least, f.Most = is, is
		}
		f.Least = Room{min(f.Least.Bytes, is.Bytes), min(f.Least.BytesLeft, is.BytesLeft), min(f.Least.Inodes, is.Inodes), min(f.Least.InodesLeft, is.InodesLeft)}
		f.Most = Room{max(f.Most.Bytes, is.Bytes), max(f.Most.BytesLeft, is.BytesLeft), max(f.Most.Inodes, is.Inodes), max(f.Most.InodesLeft, is.InodesLeft)}
	}
	return f
}
