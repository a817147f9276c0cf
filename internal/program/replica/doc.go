// Package replica is what the programs have in common of which a Deployment runs replicas: how they are called, what all of them are told, and how those work of which one leads.
package replica
