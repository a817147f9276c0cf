// Package review is the policies' answer to manifests and recorded requests, without a cluster: what the webhook would
// change, warn about and refuse. It decides nothing itself. A manifest becomes the AdmissionRequests that the API server
// would send, with the scheme's defaults and what its own plugins do before and after; they go through the very handlers of
// package webhook, whose informers are replaced by State: objects from files, or of a cluster.
//
// What the state does not hold is unknown, and never taken for absent: a Result says what was not known, and a removal
// that needs it is refused.
//
//	input     documents from files, folders and streams, with file and line
//	Engine    one document in, one Result out: manifest.go makes an object of it, request.go of that what the API server is asked,
//	          admit.go does with it what the API server does, and notes what the handlers decide
//	report    results as text, JSON, SARIF, JUnit, annotations, Markdown, a page
package review
