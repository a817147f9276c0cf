package plan

import "slices"

// Drill is a fault that lasts longer than a storm's: until the alerts that are to tell of it must.
type Drill struct {
	Name string
	// Ticks is how long it lasts. A tick is a scrape: a second here, which the rules take for a minute.
	Ticks int
	// Fires are the alerts that must be firing so many ticks after it began: the rule's own duration (for), the time in which its condition comes true, and two scrapes.
	Fires map[string]int
	// Ends is of one that ends all replicas of the webhook: it comes after the last round of an era.
	Ends bool
}

// The drills.
const (
	Outage     = "outage"     // all replicas are killed, also of the volume lock and the fencer, while users ask for what has to be judged
	Leaderless = "leaderless" // no replica reaches the API server, nor do those
	OneAway    = "one-away"   // one is killed
	Unrenewed  = "unrenewed"  // one reaches no API server for longer than its certificate lives
	Refusals   = "refusals"   // nothing is away, and an automaton force-deletes again and again
	Unfenced   = "unfenced"   // a machine is cut off, somebody asks for a fence of it, and its BMC never answers
	Unreleased = "unreleased" // a machine is cut off while it gives a volume back, which a pod on another one waits for
)

var drills = []Drill{
	{Name: Refusals, Ticks: 5, Fires: map[string]int{"PodgraceRemovalsRefused": 4}},
	{Name: Outage, Ticks: 24, Fires: map[string]int{
		"PodgraceWebhookDown": 8, "PodgraceVolumeLockDown": 8, "PodgraceFencerDown": 8, "PodgraceErrorBudgetBurnsFast": 15, "PodgraceRemovalsBlocked": 17, "PodgraceWebhookUnreachable": 22, "PodgraceWebhookFailedOpen": 22}, Ends: true},
	// A leader gives up after 10 s (RenewDeadline), and tries every 2 s; then 10 minutes.
	{Name: Leaderless, Ticks: 27, Fires: map[string]int{"PodgraceNoLeader": 26, "PodgraceVolumeLockNoLeader": 26, "PodgraceFencerNoLeader": 26}},
	{Name: OneAway, Ticks: 19, Fires: map[string]int{"PodgraceWebhookReplicaDown": 18}},
	// A certificate of 2 minutes that was signed just before is renewed after 80 s, has a day of seven left after 103 s, and has ended after 120 s.
	{Name: Unrenewed, Ticks: 119, Fires: map[string]int{"PodgraceCertificateExpires": 118}},
	// It begins once the fence has, whose phase the fencer tells with its next round, of 2 s. A node is partitioned after a minute's silence, and told of two rounds later.
	{Name: Unfenced, Ticks: 72, Fires: map[string]int{"PodgraceFenceStuck": 19, "PodgraceNodesPartitioned": 71}},
	// It begins once the VolumeAttachment waits.
	{Name: Unreleased, Ticks: 16, Fires: map[string]int{"PodgraceVolumeWaits": 15}},
}

// Drills are all that there are.
func Drills() []Drill { return slices.Clone(drills) }

// DrillAfter is the one after a round, of those of some names, if there is one: after the last round of an era one that ends all replicas, else the others in turn.
func DrillAfter(number int, names []string) (d Drill, is bool) {
	var these []Drill
	for _, d := range drills {
		if last := number%EraRounds == EraRounds-1; slices.Contains(names, d.Name) && d.Ends == last {
			these = append(these, d)
		}
	}
	if len(these) == 0 {
		return Drill{}, false
	}
	return these[number%len(these)], true
}
