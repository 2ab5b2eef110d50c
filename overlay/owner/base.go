package owner

import (
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A base is what all components build on.
type base struct {
	*timers
	*peers
	replicas *replicas
}

// A timers holds what the components of an Owners plan. They share one calendar, so that tasks that are due at the same
// time run in the order in which they were planned, whichever component planned them.
type timers struct {
	clock env.Clock
	rand  *rand.Rand
	cal   env.Calendar[task]
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskCampaign        taskKind = iota // start a candidacy
	taskRetryCandidacy                  // repeat a candidacy's requests
	taskStartWaiting                    // start campaigns that wait for a slot
	taskRetryReplicate                  // send an entry again
	taskRetryPull                       // repeat a pull's request
	taskHeartbeat                       // send heartbeats
	taskContactRival                    // contact another branch again
	taskLookUpAgain                     // a lookup has expired; pull from the informant
	taskCheckAllOwners                  // check all owners after a change of the leaf
	taskCheckOwners                     // check the owners of a key after an epoch was committed
	taskHandOverTimeout                 // end a hand-over without progress
)

// after plans a task and returns its time.
func (t *timers) after(d time.Duration, what task) time.Time {
	at := t.clock.Now().Add(d)
	t.cal.Add(at, what)
	return at
}

// spread returns a random duration between 3/4 and 5/4 of d.
func (t *timers) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(t.rand.Int64N(int64(d)/2+1))
}
