package agentstest

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/agents"
)

// Service is a fence webhook before one machine.
type Service struct {
	// Token that it wants.
	Token string
	// Machine that it powers off, whichever it is asked for: that it is the right one is for who asks to see.
	Machine *Machine
	// Before, if it is set, sees each request first, and reports whether that was the answer.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// Edit, if it is set, changes an answer before it is told.
	Edit func(*agents.FenceAnswer)

	mutex    sync.Mutex
	requests []agents.FenceRequest
}

// Requests are those that it got, in their order.
func (s *Service) Requests() []agents.FenceRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]agents.FenceRequest(nil), s.requests...)
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Before != nil && s.Before(w, r) {
		return
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+s.Token {
		http.Error(w, "no such token: "+got, http.StatusUnauthorized) // repeated as no service should, so that who asks must take care of it
		return
	}
	var request agents.FenceRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	s.requests = append(s.requests, request)
	s.mutex.Unlock()
	if request.Action == agents.ActionOff {
		if err := s.Machine.Off(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	reply := agents.FenceAnswer{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: agents.KindFenceAnswer, UID: request.UID, Power: "Unknown", State: s.Machine.State(), SystemUUID: s.Machine.UUID,
	}
	switch reply.State {
	case "On", "Off", "Gone":
		reply.Power = reply.State
	}
	if s.Edit != nil {
		s.Edit(&reply)
	}
	answer(w, reply)
}
