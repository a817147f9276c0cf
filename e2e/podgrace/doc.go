// Package podgrace installs Podgrace's real webhook in a test cluster: its program as a process with just the rights of
// deploy/webhook/rbac.yaml and deploy/components/selfmanaged/rbac.yaml (e2e/deploy holds it to that), its certificate and caBundle as it manages them itself, its configurations from deploy, with
// a URL on loopback in place of the Service.
package podgrace
