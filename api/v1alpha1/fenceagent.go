package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FenceAgent is a way to power machines off and to know that they are, or to take the storage away from them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fa,categories=podgrace
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Identity",type=string,JSONPath=`.spec.identity`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FenceAgent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how to reach the machines.
	// +required
	Spec FenceAgentSpec `json:"spec"`
}

// FenceAgentList is a list of FenceAgents.
//
// +kubebuilder:object:root=true
type FenceAgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the agents.
	Items []FenceAgent `json:"items"`
}

// FenceAgentSpec is how an agent reaches the machines.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Redfish') == has(self.redfish)",message="type Redfish has a section redfish, and no other type has",fieldPath=".redfish"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Exec') == has(self.exec)",message="type Exec has a section exec, and no other type has",fieldPath=".exec"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Webhook') == has(self.webhook)",message="type Webhook has a section webhook, and no other type has",fieldPath=".webhook"
// +kubebuilder:validation:XValidation:rule="(self.type == 'NetworkFence') == has(self.networkFence)",message="type NetworkFence has a section networkFence, and no other type has",fieldPath=".networkFence"
// +kubebuilder:validation:XValidation:rule="self.type != 'NetworkFence' || self.identity == 'Configured'",message="a storage does not tell which machine an address is of: say identity: Configured if the addresses that nodes told while they were healthy are to be trusted",fieldPath=".identity"
// +kubebuilder:validation:XValidation:rule="self.type != 'NetworkFence' || !has(self.machines) || self.machines.size() == 0",message="type NetworkFence has no machines: it goes by the addresses that each node had while it was healthy",fieldPath=".machines"
// +kubebuilder:validation:XValidation:rule="self.type != 'Exec' || self.identity == 'Configured'",message="a fence agent of ClusterLabs does not tell which machine it has powered off: say identity: Configured if the list of machines is to be trusted",fieldPath=".identity"
// +kubebuilder:validation:XValidation:rule="self.type == 'Watchdog' || !has(self.watchdog)",message="type Watchdog may have a section watchdog, and no other type has",fieldPath=".watchdog"
// +kubebuilder:validation:XValidation:rule="self.type in ['Webhook', 'Manual', 'Watchdog', 'NetworkFence'] || (has(self.machines) && self.machines.size() > 0)",message="machines are needed: which address belongs to which machine",fieldPath=".machines"
// +kubebuilder:validation:XValidation:rule="self.type != 'Redfish' || !has(self.machines) || self.machines.all(m, has(m.address) && m.address.matches('^https://[^/?#@]+/?$'))",message="each machine of type Redfish has the address of its BMC, such as https://192.0.2.7: without a path, and without user and password, which belong in the Secret",fieldPath=".machines"
type FenceAgentSpec struct {
	// Type: Redfish speaks to BMCs, Exec runs a fence agent of ClusterLabs (fence_ipmilan and its like), Webhook asks a service of yours, Manual waits for a person,
	// Watchdog reckons when the machine's own watchdog must have reset it (docs/fencing.md, self-fence). NetworkFence powers nothing off: by csi-addons it has a CSI driver's storage take no more writes from the node's addresses.
	// +required
	Type FenceAgentType `json:"type"`
	// Identity says how the machine is known to be the right one. Verified: what is powered off tells its UUID, which must be that of the node when it was
	// healthy. Configured: the list of machines is trusted.
	// +optional
	// +kubebuilder:default=Verified
	Identity FenceIdentity `json:"identity"`
	// Redfish is how to speak to BMCs.
	// +optional
	Redfish *RedfishAgent `json:"redfish,omitempty"`
	// Exec is which program to run.
	// +optional
	Exec *ExecAgent `json:"exec,omitempty"`
	// Webhook is which service to ask.
	// +optional
	Webhook *WebhookAgent `json:"webhook,omitempty"`
	// Watchdog is which watchdogs are reckoned with.
	// +optional
	Watchdog *WatchdogAgent `json:"watchdog,omitempty"`
	// NetworkFence is which storage is asked.
	// +optional
	NetworkFence *NetworkFenceAgent `json:"networkFence,omitempty"`
	// Machines says where each machine is powered off. What a node says of itself never tells where, only which machine it is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Machines []FenceMachine `json:"machines,omitempty"`
}

// FenceAgentType is how an agent works.
//
// +kubebuilder:validation:Enum=Redfish;Exec;Webhook;Manual;Watchdog;NetworkFence
type FenceAgentType string

// The types of agents.
const (
	AgentRedfish  FenceAgentType = "Redfish"
	AgentExec     FenceAgentType = "Exec"
	AgentWebhook  FenceAgentType = "Webhook"
	AgentManual   FenceAgentType = "Manual"
	AgentWatchdog FenceAgentType = "Watchdog"
	// AgentNetworkFence is csi-addons' NetworkFence. Its evidence is StorageRevoked, which a policy must accept by name.
	AgentNetworkFence FenceAgentType = "NetworkFence"
)

// FenceIdentity is how a machine is known to be the right one.
//
// +kubebuilder:validation:Enum=Verified;Configured
type FenceIdentity string

// How a machine is known to be the right one.
const (
	IdentityVerified   FenceIdentity = "Verified"
	IdentityConfigured FenceIdentity = "Configured"
)

// FenceMachine says where a machine is powered off.
//
// +kubebuilder:validation:XValidation:rule="has(self.systemUUID) || has(self.providerID)",message="say which machine it is: systemUUID or providerID, as its Node has them",fieldPath=".systemUUID"
type FenceMachine struct {
	// SystemUUID as the Node's status.nodeInfo has it; vendors differ in the order of its first bytes, and both orders are the same machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SystemUUID string `json:"systemUUID,omitempty"`
	// ProviderID as the Node's spec has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ProviderID string `json:"providerID,omitempty"`
	// Address: for Redfish the BMC's URL, such as https://192.0.2.7; for Exec the value of the parameter ip.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Address string `json:"address,omitempty"`
	// System is the ComputerSystem behind the BMC, such as /redfish/v1/Systems/1. Absent: the only one that it has.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	System string `json:"system,omitempty"`
	// Parameters of Exec for this machine, such as plug. No secrets: these are in the agent's Secret.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Parameters map[string]string `json:"parameters,omitempty"`
}

// RedfishAgent is how to speak to BMCs by Redfish (DMTF DSP0266).
type RedfishAgent struct {
	// Secret in the namespace podgrace-fencing, with username, password and, to verify the BMCs by, ca.crt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
	// InsecureSkipVerify takes any certificate: whoever is at that address gets the password.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// ExecAgent runs a fence agent of ClusterLabs by its API (FenceAgentAPI.md, 4.17): parameters on its standard input, off, then status.
type ExecAgent struct {
	// Program is its name, such as fence_ipmilan. It must be in the fencer's image.
	// +required
	// +kubebuilder:validation:Pattern=`^fence_[a-z0-9_]{1,64}$`
	Program string `json:"program"`
	// Parameters for all machines.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="!('action' in self) && !('password' in self)",message="action is the fencer's to say, and password belongs in the Secret"
	Parameters map[string]string `json:"parameters,omitempty"`
	// Secret in the namespace podgrace-fencing, each key of which is a parameter as well.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
}

// WebhookAgent asks a service of yours (docs/fencing.md has the contract).
type WebhookAgent struct {
	// URL of the service.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="it must be an https URL"
	URL string `json:"url"`
	// Secret in the namespace podgrace-fencing, with token and, to verify the service by, ca.crt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
}

// WatchdogAgent is which watchdogs are reckoned with.
type WatchdogAgent struct {
	// NeverPaused takes the word of whoever writes it that virtual machines are neither paused, nor suspended, nor saved and continued by their hosts: their watchdogs would be as well. Without it
	// only a machine that is known to be none counts.
	// +optional
	NeverPaused bool `json:"neverPaused,omitempty"`
}

// NetworkFenceAgent has csi-addons (kubernetes-csi-addons v0.14) fence a node's addresses at a storage. Which addresses, nobody lists: those that the Node had as InternalIPs
// while the fencer saw it healthy, by its kubelet's word. AllowedCIDRs bounds what it can say.
type NetworkFenceAgent struct {
	// NetworkFenceClassName is the NetworkFenceClass by which csi-addons knows the CSI driver, the storage and its credentials.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	NetworkFenceClassName string `json:"networkFenceClassName"`
	// AllowedCIDRs are the blocks in which all addresses of a node must lie that is fenced: those of the machines that are nodes. A node of which one lies in none of them is not fenced by this agent. Absent: any
	// address may be fenced that no other node has. IPv4 and IPv6 blocks may stand beside each other, and overlap.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="it must be a CIDR, such as 10.0.0.0/24 or fd00::/64, and one of IPv4 addresses written as such"
	// +kubebuilder:validation:items:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="the address goes beyond the prefix length: 10.0.0.0/24, and not 10.0.0.7/24"
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}
