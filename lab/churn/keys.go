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

// readers is how many members read each channel.
const readers = 2

// pollEvery is the time between two polls of a channel, itemEvery that between two items.
const (
	pollInterval = time.Minute
	itemInterval = 5 * time.Minute
)

// serve has origins serve n channels from now on, which gain an item now and then until
// some time has passed, and members read them.
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

// A keep is how the log of a key is kept, as the live members see it.
type keyState struct {
	leader         *sim.Peer // the sequencer; nil: none, or several
	leaders        int
	owners         []*sim.Peer         // that say they are
	epochs         map[owner.Hash]bool // that these go by
	branches       map[uint64]bool     // the lineages of these
	epochOwners    int                 // owners in the sequencer's epoch
	heads          map[owner.Hash]bool // of the owners' logs
	staleFollowers int                 // followers whose head is none of these
}

// keeps looks how the logs of all keys are kept.
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

// whole says whether a key has n living owners, who go by one epoch and have one head.
func (k *keyState) complete(n int) bool {
	return k.leader != nil && len(k.owners) == n && k.epochOwners == n && len(k.epochs) == 1 && len(k.heads) == 1
}
