package guard

// fenced allows the removal of a pod with a receipt of a fence: for this very pod, or for this boot of its node.
func fenced(req Request, facts Facts) *Decision {
	for _, r := range facts.Fences {
		if r.PodUID != "" && r.PodUID == req.Pod.UID {
			return allow(becauseFenced)
		}
	}
	if facts.stopped() {
		return allow(NodeStopped)
	}
	return nil
}
