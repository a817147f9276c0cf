// Package noregistry is what serves only hosts that reach no registry, and it makes what others pull: the node image of kind, of Debian's
// packages and of Kubernetes' programs that are built here, and the base image of the Dockerfile, of this machine's Go. Package box, below,
// keeps a Docker daemon of our own apart from a host that has none, and from the network; command runc stands before the real one where the
// host lacks capabilities.
package noregistry
