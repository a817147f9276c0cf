// Package cgroupfile is the language of cgroups' files: which versions of them there are (Version), what a file means for the groups below (KindOf),
// what its contents say (Read, Holds), and which quotas systemd can keep (SystemdQuota). It is pure: package plan says in this language
// what a file should hold, package drift compares it with what it holds, package cgroup writes it.
package cgroupfile
