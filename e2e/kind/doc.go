// Package kind runs Podgrace where its users do: real images, built by the Dockerfile, in a cluster that kind made, behind
// Services and with the certificates of both modes.
//
// Where a Docker daemon answers, it is used. Elsewhere one is started for this run alone, in a box (package box): what it
// makes of bridges, firewall rules, mounts and containers ends with the test, and nothing reaches the network. Its images are
// kept in the user's cache folder. No registry is needed: package noregistry makes the images that others pull. Where a registry can be reached, PODGRACE_KIND_IMAGE names a node image
// to use instead, or kind's own with "default", and the Dockerfile's own base images are pulled.
//
// Start reading at lab.go; docker.go has the daemon, build.go our images, cluster.go the cluster.
package kind
