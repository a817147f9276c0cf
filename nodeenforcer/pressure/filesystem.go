package pressure

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// fileSystem is one that is measured aside: statfs does not come back where a server is away that the kernel waits for.
type fileSystem struct {
	aside Aside[measured]
	asked time.Time
	last  measured
	// recent are answers within recently, a second apart or more.
	recent []measured
}

// remember keeps an answer for as long as the kubelet may be about to tell of it.
func (f *fileSystem) remember(m measured) {
	f.last = m
	f.recent = slices.DeleteFunc(f.recent, func(old measured) bool { return m.at.Sub(old.at).Abs() > recently })
	if n := len(f.recent); m.err == nil && (n == 0 || m.at.Sub(f.recent[n-1].at) >= time.Second) {
		f.recent = append(f.recent, m)
	}
}

// measured is what statfs said when it was asked at that time.
type measured struct {
	fs  unix.Statfs_t
	err error
	at  time.Time
}

// errPending is of a signal for which no answer has come yet.
var errPending = errors.New("not measured yet")

// statfs begins to measure a file system, and returns the last answer, with its time.
func (s *Sensor) statfs(path string) (unix.Statfs_t, time.Time, error) {
	of, ok := s.fileSystems[path]
	if !ok {
		if s.fileSystems == nil {
			s.fileSystems = map[string]*fileSystem{}
		}
		of = &fileSystem{aside: Aside[measured]{Go: s.Aside}}
		s.fileSystems[path] = of
	}
	now := s.Clock.Now()
	if of.aside.Begin(func() measured {
		m := measured{at: now}
		if err := unix.Statfs(path, &m.fs); err != nil {
			m.err = fmt.Errorf("the file system of %s: %w", path, err)
		}
		return m
	}) {
		of.asked = now
	}
	if answer, ok := of.aside.Take(); ok {
		of.remember(answer)
	}
	switch {
	case now.Sub(of.asked) > maxAge:
		return unix.Statfs_t{}, now, fmt.Errorf("the file system of %s does not answer", path)
	case of.last.at.IsZero():
		return unix.Statfs_t{}, now, errPending
	}
	return of.last.fs, of.last.at, of.last.err
}

// space is in units of the fragment size, as the kubelet counts (cadvisor 0.56.2 fs/vfs/stats.go GetVfsStats).
func (s *Sensor) space(disk Disk) (Sample, error) {
	if disk.Err != nil {
		return Sample{}, disk.Err
	}
	fs, at, err := s.statfs(disk.Path)
	is := roomOf(fs)
	return Sample{Available: is.BytesLeft, Capacity: is.Bytes, Time: at}, err
}

func (s *Sensor) inodes(disk Disk) (Sample, error) {
	if disk.Err != nil {
		return Sample{}, disk.Err
	}
	fs, at, err := s.statfs(disk.Path)
	if err == nil && fs.Files == 0 { // btrfs and others make them as they go
		err = fmt.Errorf("the file system of %s has no fixed number of inodes", disk.Path)
	}
	return Sample{Available: int64(fs.Ffree), Capacity: int64(fs.Files), Time: at}, err
}
