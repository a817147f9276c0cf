package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
)

// redfish speaks to BMCs by DMTF's Redfish (DSP0266), by basic authentication. DSP0266 has services support that and sessions: a session would be one more thing that
// is made and must be taken away on a machine in trouble, and a BMC has room for few. A fencer that is killed between the two leaves one behind each time, until
// nobody can log in any more.
type redfish struct {
	spec        v1alpha1.RedfishAgent
	identity    v1alpha1.FenceIdentity
	credentials Credentials
}

// Off has the BMC force the machine off, if it is the right one and not off already: some BMCs call that a conflict.
func (r *redfish) Off(ctx context.Context, m v1alpha1.FenceMachine) error {
	return r.with(ctx, m, "power off", func(system *schemas.ComputerSystem) error {
		if system.PowerState == schemas.OffPowerState {
			return nil
		}
		// ForceOff alone: GracefulShutdown asks the operating system, PushPowerButton does what the firmware was set to, and the restarts and power cycles have no
		// moment at which the machine is known to be off. A BMC that names none is asked all the same.
		if types, err := system.GetSupportedResetTypes(); err != nil {
			return fmt.Errorf("read which resets it can do: %w", err)
		} else if len(types) > 0 && !slices.Contains(types, schemas.ForceOffResetType) {
			return fmt.Errorf("it can't be forced off; its ResetTypes are %s", resetTypes(types))
		}
		// A task that the BMC makes of it is not followed: what counts is the power that is read.
		_, err := system.Reset(schemas.ForceOffResetType)
		return err
	})
}

// Power reads the machine's power. DSP0268's PowerState has On, Off, PoweringOn, PoweringOff and Paused.
func (r *redfish) Power(ctx context.Context, m v1alpha1.FenceMachine) (fencing.Reading, error) {
	var read fencing.Reading
	err := r.with(ctx, m, "read the power", func(system *schemas.ComputerSystem) error {
		power := fencing.PowerUnknown
		switch system.PowerState {
		case schemas.OnPowerState:
			power = fencing.PowerOn
		case schemas.OffPowerState:
			power = fencing.PowerOff
		}
		read = reading(power, string(system.PowerState), system.UUID)
		return nil
	})
	return read, err
}

// with reads the machine's ComputerSystem, and does something with it if it is the right machine.
func (r *redfish) with(ctx context.Context, m v1alpha1.FenceMachine, what string, do func(*schemas.ComputerSystem) error) error {
	var scrub scrubber
	err := func() error {
		if err := verifiable(r.identity, m); err != nil {
			return err
		}
		secret, err := r.credentials.read(ctx, r.spec.Secret)
		if err != nil {
			return err
		}
		scrub = secret.scrubber()
		config, err := r.config(secret, m)
		if err != nil {
			return err
		}
		defer config.HTTPClient.CloseIdleConnections()
		scrub = secret.scrubber(config.Username + ":" + config.Password)
		system, err := connect(ctx, config, m)
		if err != nil {
			return err
		}
		if err := identify(r.identity, m, system.UUID); err != nil {
			return err
		}
		return do(system)
	}()
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err) // gofish makes a text of an answer that it could not read to its end
	}
	return scrub.wrap(err, "%s by Redfish at %s", what, shown(m.Address))
}

func (r *redfish) config(secret secret, m v1alpha1.FenceMachine) (*gofish.ClientConfig, error) {
	base, err := baseURL(m.Address)
	if err != nil {
		return nil, err
	}
	if strings.Trim(base.Path, "/") != "" {
		return nil, errors.New("the address must have no path: system says which ComputerSystem it is")
	}
	if m.System != "" && (!strings.HasPrefix(m.System, "/") || path.Clean(m.System) != strings.TrimSuffix(m.System, "/") || strings.ContainsAny(m.System, "?#%")) {
		return nil, fmt.Errorf("system %q is no path such as /redfish/v1/Systems/1", m.System)
	}
	user, err := secret.text("username")
	if err != nil {
		return nil, err
	}
	if strings.Contains(user, ":") {
		return nil, fmt.Errorf("username of Secret %s has a colon, which basic authentication can't tell from its own", secret.name)
	}
	password, err := secret.text("password")
	if err != nil {
		return nil, err
	}
	verify, err := secret.tlsConfig(r.spec.InsecureSkipVerify)
	if err != nil {
		return nil, err
	}
	return &gofish.ClientConfig{
		Endpoint: (&url.URL{Scheme: base.Scheme, Host: base.Host}).String(), Username: user, Password: password, BasicAuth: true, NoModifyTransport: true,
		ReuseConnections: true, HTTPClient: newClient(base, verify, nil),
	}, nil
}

// connect reads the machine's ComputerSystem. From then on nothing can be sent but to that system's own actions: their addresses are the BMC's to tell, and DSP0266
// has them beneath the resource.
func connect(ctx context.Context, config *gofish.ClientConfig, m v1alpha1.FenceMachine) (*schemas.ComputerSystem, error) {
	name := m.System
	transport := config.HTTPClient.Transport.(*pinned)
	transport.mayPost = func(to string) bool {
		return name != "" && path.Clean(to) == strings.TrimSuffix(to, "/") && strings.HasPrefix(to, strings.TrimSuffix(name, "/")+"/Actions/")
	}
	client, err := gofish.ConnectContext(ctx, *config) // and its service root, which is for everybody: the credentials are not sent yet
	if err != nil {
		return nil, fmt.Errorf("read the service root: %w", err)
	}
	if name == "" {
		if name, err = onlySystem(client); err != nil {
			return nil, err
		}
	}
	system, err := schemas.GetObject[schemas.ComputerSystem](client, name)
	if err != nil {
		return nil, fmt.Errorf("read ComputerSystem %s: %w", name, err)
	}
	if told := strings.TrimSuffix(system.ODataID, "/"); told != strings.TrimSuffix(name, "/") {
		return nil, fmt.Errorf("ComputerSystem %s says that it is %q", name, told)
	}
	return system, nil
}

// onlySystem is the ComputerSystem of a BMC that has one. Of several none is taken: which of them is the node's is for a person to say.
func onlySystem(client *gofish.APIClient) (string, error) {
	collection, err := systemsLink(client)
	if err != nil {
		return "", fmt.Errorf("read the service root: %w", err)
	}
	systems, err := schemas.GetCollection(client, collection)
	if err != nil {
		return "", fmt.Errorf("read the list of systems: %w", err)
	}
	if len(systems.ItemLinks) != 1 || systems.MembersNextLink != "" {
		return "", fmt.Errorf("the BMC has %s (%s): say by system which it is", console.Plural(len(systems.ItemLinks), "system", "systems"), console.Some(systems.ItemLinks, 4, ", "))
	}
	return systems.ItemLinks[0], nil
}

// systemsLink is where the list of systems is: gofish keeps that link to itself, and reads all systems by it.
func systemsLink(client *gofish.APIClient) (string, error) {
	resp, err := client.Get(schemas.DefaultServiceRoot)
	if err != nil {
		return "", err
	}
	defer schemas.DeferredCleanupHTTPResponse(resp)
	var root struct {
		Systems struct {
			ID string `json:"@odata.id"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&root); err != nil {
		return "", err
	}
	if root.Systems.ID == "" {
		return "", errors.New("it names no systems: it may be no BMC of a computer")
	}
	return root.Systems.ID, nil
}

func resetTypes(types []schemas.ResetType) string {
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, string(t))
	}
	return console.Some(names, 12, ", ")
}
