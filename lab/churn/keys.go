package churn

import (
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/internal/script"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/sim"
)

// readers is the number of members that read each channel.
const readers = 2

// pollInterval is the time between two polls of a channel, itemInterval that between two items.
const (
	pollInterval = time.Minute
	itemInterval = 5 * time.Minute
)

// serveFeeds serves n channels that gain items until some time has passed, and subscribes members
// to them.
func (w *world) serveFeeds(n int, until time.Duration, rng *rand.Rand) (keys []overlay.ID) {
	for i := range n {
		url := fmt.Sprintf("http://feed%d.example/", i)
		w.Serve(url, script.NewLively(script.Config{Seed: w.Seed()*1000 + uint64(i), Every: itemInterval, Limit: int(until / itemInterval)}))
		keys = append(keys, w.Key(url))
		for range readers {
			w.RandomMember(rng).SubscribeFeed(url)
		}
	}
	return keys
}

// A keyState is the state of a key's log, as its live members see it.
type keyState struct {
	leader         *sim.Peer // the sequencer; nil: none, or several
	leaders        int
	owners         []*sim.Peer         // members that consider themselves owners
	epochs         map[owner.Hash]bool // of the owners
	branches       map[uint64]bool     // of the owners
	epochOwners    int                 // number of owners in the sequencer's epoch
	heads          map[owner.Hash]bool // of the owners' logs
	staleFollowers int                 // followers whose head is not one of heads
}

// keyStates returns the states of the logs of some keys.
func (w *world) keyStates(keys []overlay.ID) []keyState {
	of := make([]keyState, len(keys))
	live := w.Live()
	for i, key := range keys {
		k := &of[i]
		k.epochs, k.branches, k.heads = map[owner.Hash]bool{}, map[uint64]bool{}, map[owner.Hash]bool{}
		var followed []owner.Hash
		for _, p := range live {
			v, ok := p.Layers().Owners.View(key)
			if !ok || v.Epoch == nil {
				continue
			}
			var head owner.Hash
			if log := p.Layers().Owners.Log(key); len(log) > 0 {
				head = log[len(log)-1].Hash
			}
			switch {
			case v.Owns:
				k.owners = append(k.owners, p)
				k.epochs[v.Epoch.Hash], k.branches[v.Epoch.Branch], k.heads[head] = true, true, true
			case v.Follows:
				followed = append(followed, head)
			}
			if v.Leads {
				k.leaders++
				k.leader, k.epochOwners = p, len(v.Epoch.Owners)
			}
		}
		if k.leaders != 1 {
			k.leader = nil
		}
		for _, head := range followed {
			if !k.heads[head] {
				k.staleFollowers++
			}
		}
	}
	return of
}

// complete reports whether a key has n live owners with one epoch and one head.
func (k *keyState) complete(n int) bool {
	return k.leader != nil && len(k.owners) == n && k.epochOwners == n && len(k.epochs) == 1 && len(k.heads) == 1
}
