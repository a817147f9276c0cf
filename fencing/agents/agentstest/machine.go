package agentstest

import "sync"

// Machine is scripted: it has power, in a word of Redfish's, until it is told to be off.
type Machine struct {
	// UUID that it tells.
	UUID string

	mutex    sync.Mutex
	state    string
	afterOff string
	offs     int
}

// NewMachine is a machine that is on, and off as soon as it is told.
func NewMachine(uuid string) *Machine { return &Machine{UUID: uuid, state: "On", afterOff: "Off"} }

// State is its power.
func (m *Machine) State() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.state
}

// SetState changes its power.
func (m *Machine) SetState(state string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.state = state
}

// SetAfterOff is the power that it has once it was told to be off.
func (m *Machine) SetAfterOff(state string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.afterOff = state
}

// Off tells it to be off.
func (m *Machine) Off() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.offs++
	m.state = m.afterOff
	return nil
}

// Offs is how often it was told to be off.
func (m *Machine) Offs() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.offs
}
