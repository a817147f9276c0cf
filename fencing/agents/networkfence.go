package agents

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/storage"
)

// csi-addons' kinds (kubernetes-csi-addons v0.14.0, api/csiaddons/v1alpha1). Of its module, which needs a hundred others, these few fields are all that is used.
var csiAddons = schema.GroupVersion{Group: "csiaddons.openshift.io", Version: "v1alpha1"}

const (
	kindNetworkFence      = "NetworkFence"
	kindNetworkFenceClass = "NetworkFenceClass"
	// ownParameters begin the parameters of a class that csi-addons does not give to the driver: where its Secret is.
	ownParameters = "csiaddons.openshift.io/"
	stateFenced   = "Fenced"
	stateUnfenced = "Unfenced"
	// succeeded and failed are the results of the last operation. There is none that says which operation that was: not the state that was asked for, nor a generation.
	succeeded = "Succeeded"
	failed    = "Failed"
	// lifted is the message of an operation that lifted (UnFenceOperationSuccessfulMessage).
	lifted = "unfencing operation successful"
)

// What a NetworkFence that a fencer made says of the incident that it is for. It has no owner reference: garbage collection would delete it with its Fence, and csi-addons
// then forgets it without giving the storage back (internal/controller/csiaddons/networkfence_controller.go, v0.14.0), so that nobody ever would.
const (
	labelFence           = "podgrace.dev/fence-uid"
	annotationFence      = "podgrace.dev/fence"
	annotationNode       = "podgrace.dev/node"
	annotationNodeUID    = "podgrace.dev/node-uid"
	annotationBootID     = "podgrace.dev/boot-id"
	annotationSystemUUID = "podgrace.dev/system-uuid"
)

// networkFence is a NetworkFence, its fields that matter here.
type networkFence struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Class  string   `json:"networkFenceClassName"`
		Driver string   `json:"driver"`
		State  string   `json:"fenceState"`
		CIDRs  []string `json:"cidrs"`
		// Parameters are given to the driver beside those of the class, which win.
		Parameters map[string]string `json:"parameters"`
	} `json:"spec"`
	Status struct {
		Result  string `json:"result"`
		Message string `json:"message"`
	} `json:"status"`
}

func newObject(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(csiAddons.WithKind(kind))
	return o
}

func list(ctx context.Context, live client.Reader, kind string) ([]unstructured.Unstructured, error) {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(csiAddons.WithKind(kind + "List"))
	if err := live.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list %ss of %s: %w", kind, csiAddons.Group, err)
	}
	return all.Items, nil
}

func parseFence(o *unstructured.Unstructured) (*networkFence, error) {
	var x networkFence
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &x); err != nil {
		return nil, fmt.Errorf("NetworkFence %s can't be read: %w", o.GetName(), err)
	}
	return &x, nil
}

func listFences(ctx context.Context, live client.Reader) ([]*networkFence, error) {
	objects, err := list(ctx, live, kindNetworkFence)
	if err != nil {
		return nil, err
	}
	all := make([]*networkFence, len(objects))
	for i := range objects {
		if all[i], err = parseFence(&objects[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ListStorage lists csi-addons' classes, by their names, and all NetworkFences.
func ListStorage(ctx context.Context, live client.Reader) (map[string]storage.Class, []storage.Fence, error) {
	objects, err := list(ctx, live, kindNetworkFenceClass)
	if err != nil {
		return nil, nil, err
	}
	classes := make(map[string]storage.Class, len(objects))
	for i := range objects {
		driver, _, _ := unstructured.NestedString(objects[i].Object, "spec", "provisioner")
		parameters, _, err := unstructured.NestedStringMap(objects[i].Object, "spec", "parameters")
		if driver == "" || err != nil {
			continue // it counts as one that does not exist
		}
		class := storage.Class{UID: objects[i].GetUID(), Driver: driver, Parameters: map[string]string{}}
		for key, value := range parameters {
			if !strings.HasPrefix(key, ownParameters) {
				class.Parameters[key] = value
			}
		}
		classes[objects[i].GetName()] = class
	}
	fences, err := listFences(ctx, live)
	if err != nil {
		return nil, nil, err
	}
	all := make([]storage.Fence, len(fences))
	for i, x := range fences {
		s := storage.Fence{
			Name: x.Name, UID: x.UID, CIDRs: x.Spec.CIDRs, Fenced: x.Spec.State != stateUnfenced, Deleting: x.DeletionTimestamp != nil, Created: x.CreationTimestamp.Time,
			SystemUUID: x.Annotations[annotationSystemUUID],
		}
		s.Lifted = !s.Fenced && x.Status.Result == succeeded && x.Status.Message == lifted
		if boot := x.boot(); x.Labels[labelFence] != "" && boot.Name != "" && boot.UID != "" && boot.BootID != "" {
			s.Boot = &boot
		}
		all[i] = s
	}
	return classes, all, nil
}

func (x *networkFence) boot() v1alpha1.BootReference {
	return v1alpha1.BootReference{Name: x.Annotations[annotationNode], UID: types.UID(x.Annotations[annotationNodeUID]), BootID: x.Annotations[annotationBootID]}
}

// Storage is what a NetworkFence is made with, and for which incident.
type Storage struct {
	Live   client.Reader
	Client client.Client
	Fence  *v1alpha1.Fence
	Target v1alpha1.FenceTargetAgent
}

// storageAgent has csi-addons take a node's storage away, by a NetworkFence that says what was frozen when the fence was decided.
type storageAgent struct{ Storage }

func newNetworkFence(x *v1alpha1.NetworkFenceAgent, s Storage) (*storageAgent, error) {
	switch {
	case s.Fence == nil || s.Fence.Status.Target == nil || s.Target.Storage == nil || s.Live == nil || s.Client == nil:
		return nil, errors.New("it is called without an incident, of which alone it knows the addresses")
	case len(s.Target.Storage.CIDRs) == 0:
		return nil, errors.New("the incident has no addresses")
	}
	if why := storage.NotAllowed(x, s.Target.Storage.CIDRs); why != "" { // edited since the round began
		return nil, errors.New(why)
	}
	return &storageAgent{s}, nil
}

// name is that of the incident and the agent: a fencer that was restarted finds what the one before made.
func (s *storageAgent) name() string {
	sum := sha256.Sum256([]byte(string(s.Fence.UID) + "/" + string(s.Target.UID)))
	return fmt.Sprintf("%s-%x", strings.TrimRight(s.Fence.Name[:min(len(s.Fence.Name), 220)], "-."), sum[:6])
}

// Off makes the NetworkFence, if it is not there.
func (s *storageAgent) Off(ctx context.Context, _ v1alpha1.FenceMachine) error {
	switch x, err := s.get(ctx); {
	case err != nil:
		return err
	case x != nil:
		return s.right(x)
	}
	if err := s.contradicted(ctx); err != nil {
		return err
	}
	o := newObject(kindNetworkFence)
	boot := s.Fence.Spec.Node
	o.SetName(s.name())
	o.SetLabels(map[string]string{labelFence: string(s.Fence.UID), "app.kubernetes.io/managed-by": "podgrace-fencer"})
	o.SetAnnotations(map[string]string{
		annotationFence: s.Fence.Name, annotationNode: boot.Name, annotationNodeUID: string(boot.UID), annotationBootID: boot.BootID, annotationSystemUUID: s.Fence.Status.Target.SystemUUID,
	})
	cidrs := make([]any, len(s.Target.Storage.CIDRs))
	for i, c := range s.Target.Storage.CIDRs {
		cidrs[i] = c
	}
	// driver and secret are as csi-addons writes them when it adds its finalizer, whose types leave neither out: the spec would change by that, and its generation.
	o.Object["spec"] = map[string]any{"networkFenceClassName": s.Target.Storage.NetworkFenceClassName, "fenceState": stateFenced, "cidrs": cidrs, "driver": "", "secret": map[string]any{}}
	if err := s.Client.Create(ctx, o); err != nil {
		return fmt.Errorf("create NetworkFence %s: %w", s.name(), err)
	}
	return nil
}

// Power reads what became of it. PowerOn is that nobody has ordered anything.
func (s *storageAgent) Power(ctx context.Context, _ v1alpha1.FenceMachine) (fencing.Reading, error) {
	x, err := s.get(ctx)
	switch {
	case err != nil:
		return fencing.Reading{}, err
	case x == nil:
		return fencing.Reading{Power: fencing.PowerOn, State: "no NetworkFence"}, nil
	}
	if err := errors.Join(s.right(x), s.contradicted(ctx)); err != nil {
		return fencing.Reading{}, err
	}
	read := reading(fencing.PowerUnknown, "no result yet", "")
	read.Object = x.UID
	switch x.Status.Result {
	case "":
	case succeeded:
		read.Power, read.State = fencing.PowerRevoked, stateFenced+", "+succeeded
	case failed:
		return fencing.Reading{}, fmt.Errorf("NetworkFence %s failed: %s", x.Name, short(x.Status.Message, maxError/2))
	default:
		read.State = short("unknown result "+x.Status.Result, maxWord)
	}
	return read, nil
}

// get reads the incident's NetworkFence; nil: there is none.
func (s *storageAgent) get(ctx context.Context) (*networkFence, error) {
	o := newObject(kindNetworkFence)
	switch err := s.Live.Get(ctx, types.NamespacedName{Name: s.name()}, o); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read NetworkFence %s: %w", s.name(), err)
	}
	return parseFence(o)
}

// right says what is wrong with a NetworkFence of the incident's name. It must be as it was made: its result does not say of which generation it is, so that one whose spec was ever
// changed proves nothing, whatever it says now.
func (s *storageAgent) right(x *networkFence) error {
	var wrong string
	switch {
	case x.Labels[labelFence] != string(s.Fence.UID) || x.boot() != s.Fence.Spec.Node || x.Annotations[annotationSystemUUID] != s.Fence.Status.Target.SystemUUID: // by these it is lifted
		wrong = "it was not made for this incident"
	case x.DeletionTimestamp != nil:
		wrong = "somebody deletes it"
	case x.Spec.State != stateFenced:
		wrong = fmt.Sprintf("it says fenceState %q", x.Spec.State)
	case x.Spec.Class != s.Target.Storage.NetworkFenceClassName || x.Spec.Driver != "" || len(x.Spec.Parameters) > 0 || !slices.Equal(x.Spec.CIDRs, s.Target.Storage.CIDRs):
		wrong = "it says another class or other addresses than were decided"
	case x.Generation > 1:
		wrong = "somebody edited it, so that its result may be of what it said before"
	default:
		return nil
	}
	return fmt.Errorf("NetworkFence %s is no proof: %s. Delete it, if the storage may be fenced anew", x.Name, wrong)
}

// contradicted says which other NetworkFence gives an address back, or did and is still there: csi-addons does that again whenever it starts.
func (s *storageAgent) contradicted(ctx context.Context) error {
	all, err := listFences(ctx, s.Live)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Name != s.name() && x.Spec.State == stateUnfenced && storage.Overlap(x.Spec.CIDRs, s.Target.Storage.CIDRs) {
			return fmt.Errorf("NetworkFence %s says Unfenced for the same address: what is fenced by another one may be undone by it. Delete it, once it is done", x.Name)
		}
	}
	return nil
}

// Lift has a NetworkFence say Unfenced, where its UID is this one.
func Lift(ctx context.Context, c client.Client, name string, uid types.UID) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"fenceState": stateUnfenced}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	o := newObject(kindNetworkFence)
	o.SetName(name)
	if err := c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body)); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// DeleteLifted deletes a NetworkFence that has been lifted, where its UID is this one.
func DeleteLifted(ctx context.Context, c client.Client, name string, uid types.UID) error {
	o := newObject(kindNetworkFence)
	o.SetName(name)
	if err := c.Delete(ctx, o, client.Preconditions{UID: &uid}); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
