package guard

// AnnotationConfirmForceDelete on a pod says that somebody accepts that it may run twice: its value is the pod's UID, so
// that it says nothing about the pod's successor.
const AnnotationConfirmForceDelete = "podgrace.dev/confirm-force-delete"

// Verb that a user must have on pods of the group podgrace.dev to confirm.
const Verb = "force-delete"

// confirmed allows a force delete that was confirmed for this very pod, by a user who may. It can be answered again and
// again: one force delete is reviewed two or three times, by whichever replica.
func confirmed(req Request, facts Facts) *Decision {
	if isConfirmed(req) && facts.MayForce == Yes {
		return allow("Confirmed")
	}
	return nil
}

func isConfirmed(req Request) bool {
	return req.Pod.UID != "" && req.Pod.Annotations[AnnotationConfirmForceDelete] == string(req.Pod.UID)
}
