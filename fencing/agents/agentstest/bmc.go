package agentstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// System is a computer behind a BMC.
type System struct {
	// ID is the end of its path, /redfish/v1/Systems/ID.
	ID string
	// UUID that it tells. Empty: it tells none.
	UUID string
	// Power is its PowerState.
	Power func() string
	// ForceOff powers it off. It may have it done later.
	ForceOff func() error
	// ResetTypes that it says it can do. Nil: ForceOff, and what the others of their kind say.
	ResetTypes []string
}

// System is the machine behind a BMC.
func (m *Machine) System(id string) System {
	return System{ID: id, UUID: m.UUID, Power: m.State, ForceOff: m.Off}
}

// BMC speaks as much Redfish (DSP0266 1.20, ComputerSystem 1.22) as it takes to power machines off: a handler, for a server with TLS (Serve is one).
type BMC struct {
	// Username and Password of its only account. It takes basic authentication alone.
	Username, Password string
	// Systems behind it.
	Systems []System
	// Before, if it is set, sees each request first, and reports whether that was the answer.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// Edit, if it is set, changes a ComputerSystem before it is told.
	Edit func(system map[string]any)

	mutex    sync.Mutex
	requests []Request
}

// Request is one that a BMC got.
type Request struct {
	Method, Path string
	// Authorization that came with it.
	Authorization string
	// ResetType of an action.
	ResetType string
}

// Requests are those that it got, in their order.
func (b *BMC) Requests() []Request {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Clone(b.requests)
}

// Posts is to how many of its requests something was sent.
func (b *BMC) Posts() int {
	n := 0
	for _, r := range b.Requests() {
		if r.Method != http.MethodGet {
			n++
		}
	}
	return n
}

const (
	rootPath    = "/redfish/v1"
	systemsPath = rootPath + "/Systems"
)

// ServeHTTP answers a request.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := Request{Method: r.Method, Path: r.URL.Path, Authorization: r.Header.Get("Authorization")}
	if r.Method == http.MethodPost {
		var body struct{ ResetType string }
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&body); err != nil {
			fault(w, http.StatusBadRequest, "Base.1.0.MalformedJSON", err.Error())
			return
		}
		request.ResetType = body.ResetType
	}
	b.mutex.Lock()
	b.requests = append(b.requests, request)
	b.mutex.Unlock()
	if b.Before != nil && b.Before(w, r) {
		return
	}
	// The service root is for everybody (DSP0266, "Resource and operation authentication requirements").
	if r.Method == http.MethodGet && (r.URL.Path == rootPath || r.URL.Path == rootPath+"/") {
		answer(w, map[string]any{
			"@odata.id": rootPath + "/", "@odata.type": "#ServiceRoot.v1_17_0.ServiceRoot", "Id": "RootService", "Name": "Root Service", "RedfishVersion": "1.20.0",
			"Systems": link(systemsPath),
			"Links":   map[string]any{"Sessions": link(rootPath + "/SessionService/Sessions")},
		})
		return
	}
	if user, password, ok := r.BasicAuth(); !ok || user != b.Username || password != b.Password {
		// It repeats what it was sent, which no BMC should do, so that who asks must take care of it.
		fault(w, http.StatusUnauthorized, "Base.1.0.InsufficientPrivilege", fmt.Sprintf("no such account: %s, %s:%s", request.Authorization, user, password))
		return
	}
	b.route(w, r, request)
}

func (b *BMC) route(w http.ResponseWriter, r *http.Request, request Request) {
	if r.Method == http.MethodGet && r.URL.Path == systemsPath {
		members := []any{}
		for _, s := range b.Systems {
			members = append(members, link(systemsPath+"/"+s.ID))
		}
		answer(w, map[string]any{
			"@odata.id": systemsPath, "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Name": "Systems",
			"Members@odata.count": len(members), "Members": members,
		})
		return
	}
	for _, s := range b.Systems {
		path := systemsPath + "/" + s.ID
		switch {
		case r.Method == http.MethodGet && r.URL.Path == path:
			b.tell(w, s, path)
			return
		case r.Method == http.MethodPost && r.URL.Path == path+resetAction:
			reset(w, s, request.ResetType)
			return
		}
	}
	fault(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", r.URL.Path)
}

const resetAction = "/Actions/ComputerSystem.Reset"

func (s System) resetTypes() []string {
	if s.ResetTypes != nil {
		return s.ResetTypes
	}
	return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "PushPowerButton"}
}

func (b *BMC) tell(w http.ResponseWriter, s System, path string) {
	system := map[string]any{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem", "@odata.etag": `"1"`, "Id": s.ID, "Name": s.ID, "SystemType": "Physical", "PowerState": s.Power(),
		"Actions": map[string]any{
			"#ComputerSystem.Reset": map[string]any{"target": path + resetAction, "ResetType@Redfish.AllowableValues": s.resetTypes()},
		},
	}
	if s.UUID != "" {
		system["UUID"] = s.UUID
	}
	if b.Edit != nil {
		b.Edit(system)
	}
	answer(w, system)
}

func reset(w http.ResponseWriter, s System, resetType string) {
	if resetType != "ForceOff" || !slices.Contains(s.resetTypes(), resetType) {
		fault(w, http.StatusBadRequest, "Base.1.0.ActionParameterValueNotInList", "ResetType "+resetType)
		return
	}
	if err := s.ForceOff(); err != nil {
		fault(w, http.StatusInternalServerError, "Base.1.0.InternalError", err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func link(path string) map[string]any { return map[string]any{"@odata.id": path} }

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("OData-Version", "4.0")
	_ = json.NewEncoder(w).Encode(value) // whoever asked may be gone
}

func fault(w http.ResponseWriter, status int, id, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": id, "message": message, "@Message.ExtendedInfo": []any{map[string]any{"MessageId": id, "Message": message}},
	}})
}
