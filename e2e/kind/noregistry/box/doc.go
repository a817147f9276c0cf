// Package box runs a program again in namespaces of its own: process ids, mounts and network, with loopback and nothing
// else. What it starts there (daemons, containers, bridges, firewall rules, mounts) ends with it, however it ends, and no
// packet leaves the machine.
package box
