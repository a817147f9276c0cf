// Command release makes what a release consists of, and publishes it:
//
//	go run -C release . -version v1.2.3 -out ../dist [-registry REGISTRY] [-publish]
//
// Without -publish nothing leaves the machine, and what publishing would run is printed. What is made depends on the commit, the version, the registry's
// name and the pinned tools alone: no clock and no name of a machine or user gets into it, so that whoever builds the commit again has the same bytes.
//
// Images have no base but the authorities to trust, so that neither a daemon nor another registry is needed to make them, and no emulation for another
// architecture. They hold what the Dockerfile's targets hold (TestDockerfile).
package main
