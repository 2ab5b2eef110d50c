package overlay

import (
	"time"

	"tidings/internal/env"
)

// A member looks up its own id again after selfLookupSoon, then after selfLookupFirst, then
// every selfLookupLater. A node that was caught by liars, or that joined during a partition,
// thus finds its real neighbours. One route begins at a bootstrap member, because a node that
// has only liars as contacts would not get past them.
const (
	selfLookupSoon  = time.Minute
	selfLookupFirst = 10 * time.Minute
	selfLookupLater = time.Hour
)

// scheduleSelfLookup sets the time of the next self-lookup. Only one is scheduled at a time.
func (ls *lookups) scheduleSelfLookup(in time.Duration) {
	ls.selfLookupAt = ls.clock.Now().Add(env.Jitter(ls.rand, in))
	ls.at(ls.selfLookupAt, task{kind: taskSelfLookup})
}

// selfLookup looks up the members near the node's own id and considers them for the leaf.
func (ls *lookups) selfLookup() {
	if ls.state != Active {
		return
	}
	ls.scheduleSelfLookup(ls.selfLookupInterval)
	ls.selfLookupInterval = selfLookupLater
	ls.queue(ls.self.ID, joinWant, true, func(found []*lookupMember) {
		for _, member := range found {
			ls.liveness.considerMember(member.contact)
		}
	})
}

func contactsOf(named []*lookupMember) []*Contact {
	contacts := make([]*Contact, len(named))
	for i, member := range named {
		contacts[i] = member.contact
	}
	return contacts
}
