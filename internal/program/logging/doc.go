// Package logging makes the logs of the programs that run in a cluster: as text, as klog writes it, or as JSON, as Kubernetes' own components write it
// with --logging-format=json, by the same libraries. Of both a terminal may see every byte: much of what is logged was written by others.
package logging
