// Package scheduling is what reviews and explanations know of a SchedulingPreview: it reads what podgrace-preview prints (-o json), and says it in a sentence or
// two. Kubernetes' scheduler, which judged, is in that program's module alone.
package scheduling
