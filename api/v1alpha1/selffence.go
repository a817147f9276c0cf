package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationMaintenance on a Node says that it is being worked on: the fencer begins nothing by itself, and its watchdog is disarmed. Its value says what is done.
const AnnotationMaintenance = "podgrace.dev/maintenance"

// AnnotationSelfFence on a Node says, as JSON of a SelfFence, that the machine resets itself when its Lease is not renewed. The node enforcer writes it after it has armed the
// watchdog, and says off before it disarms it: as long as it says otherwise, for this Node and the boot that it has, the watchdog is armed.
const AnnotationSelfFence = "podgrace.dev/self-fence"

// SelfFence is how a machine's watchdog is fed.
//
// +kubebuilder:object:generate=false
type SelfFence struct {
	// NodeUID of the Node that it was written to: one that is made anew from what somebody saved has another.
	NodeUID types.UID `json:"nodeUID"`
	// BootID of the boot that it is about.
	BootID string `json:"bootID"`
	// Patience is for how long the watchdog is fed after the Node's Lease was known to be renewed for the last time.
	Patience metav1.Duration `json:"patience"`
	// Timeout of the watchdog: it has reset the machine when it was not fed for that long. It is what its driver reads back, or twice that of one that counts down twice.
	Timeout metav1.Duration `json:"timeout"`
	// Watchdog is what its driver calls itself.
	Watchdog string `json:"watchdog"`
	// Off: the watchdog is not armed, and the other fields say nothing. Its text is another one each time, so that a write which is late can't undo it.
	Off string `json:"off,omitempty"`
	// Pausable: it is a virtual machine, or not known to be none. Where it is paused its watchdog is paused as well, and both go on later.
	Pausable bool `json:"pausable"`
}
