// Package nodeenforcer makes a node keep what admission decided: it reads the pods of its node and its NodePolicy, plans the cgroup
// tree (plan), compares it with what is there (cgroup) and, as the mode allows, writes the difference. Under pressure (pressure) it
// chooses victims (eviction) and stops them with the grace that they were promised (terminate).
package nodeenforcer
