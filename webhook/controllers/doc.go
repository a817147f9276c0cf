// Package controllers has what the webhook's leader alone does: it arms the removal guard (arming.go), writes allowed actors into match conditions (actors.go),
// compiles limits for the API server (limits.go), reports the status of policies and exceptions (policystatus.go, nodesections.go, exceptionstatus.go),
// and tells what the webhook configurations lack (registered.go).
package controllers
