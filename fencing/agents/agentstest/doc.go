// Package agentstest has what ways to power machines off are tested with: the suite that each of them passes, and machines, a BMC and a service as scripted as it takes.
//
//	suite.go      Run: what every agent must do, and must not be led to do
//	machine.go    a machine that obeys or does not
//	bmc.go        a BMC that speaks Redfish, before such a machine or any other: its power is read and switched by functions, such as QEMU's
//	service.go    a service that speaks the fence webhook's contract
//	faults.go     what can be wrong with whoever answers by HTTP
package agentstest
