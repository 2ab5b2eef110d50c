package feedtree

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/overlay"
)

// A subscriptionStore keeps the subscriptions, and the publishers' keys that this node trusts, on the disk.
type subscriptionStore struct {
	*common
	store env.Store
}

// subscription is what this node's readers have asked for.
type subscription struct {
	subscribed bool
	weight     int // number of readers
	since      time.Time
	attributes []byte // opaque, for the layers above
	// pendingWrites is the number of changes of the subscription that are on their way to the disk. trustUnstored
	// is set if trust has changed meanwhile.
	pendingWrites int
	trustUnstored bool
}

// SubscriptionPrefix is the common prefix of the store's keys of subscriptions.
const SubscriptionPrefix = "feedtree/subscription/"

func subscriptionKey(key overlay.ID) []byte { return append([]byte(SubscriptionPrefix), key[:]...) }

// load reads the subscriptions in the store. Damaged records are skipped.
func (st *subscriptionStore) load() error {
	err := st.store.Range([]byte(SubscriptionPrefix), func(key, value []byte) bool {
		m := new(feedtreepb.Subscription)
		if len(key) != len(SubscriptionPrefix)+len(overlay.ID{}) || proto.Unmarshal(value, m) != nil {
			st.log.Warn("subscription record is damaged", "record", fmt.Sprintf("%x", key))
			return true
		}
		c := st.channel(overlay.ID(key[len(SubscriptionPrefix):]), m.Url)
		c.subscribed, c.weight, c.attributes = true, int(m.Weight), m.Attributes
		c.since = time.UnixMilli(int64(m.SinceMs)).UTC()
		if len(m.Pin) > 0 {
			var err error
			if c.trust, err = difference.ParsePin(m.Pin); err != nil {
				st.log.Warn("record of a publisher's key is damaged", "url", m.Url, "err", err)
			}
		}
		if log := st.owners.Visible(c.key); len(log) > 0 {
			c.window.shownUpTo = log[len(log)-1].Hash // the log up to here was shown in an earlier life
		}
		return true
	})
	if errors.Is(err, env.ErrDamaged) {
		st.log.Warn("subscriptions could not be read", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	return nil
}

// record returns the store's record of a subscription.
func (c *channel) record() *feedtreepb.Subscription {
	m := &feedtreepb.Subscription{Url: c.url, Weight: uint32(c.weight), SinceMs: uint64(c.since.UnixMilli()), Attributes: c.attributes}
	if c.trust != nil {
		m.Pin = c.trust.Append()
	}
	return m
}

// saveTrust stores the trusted pin with the subscription. While a change of the subscription is being written,
// saveTrust waits for its result.
func (st *subscriptionStore) saveTrust(c *channel) {
	if c.trustUnstored = c.pendingWrites > 0; c.trustUnstored || !c.subscribed {
		return
	}
	st.store.Commit([]env.Op{{Key: subscriptionKey(c.key), Value: marshal(c.record())}}, func(err error) {
		if err != nil {
			st.log.Warn("publisher's key could not be stored", "url", c.url, "err", err) // the next life of the node decides on the pin again
		}
	})
}

// commit writes a new, changed or ended subscription to the disk; c is nil if the node does not know
// the feed yet.
func (st *subscriptionStore) commit(c *channel, op env.Op, then func(error)) {
	if c != nil {
		c.pendingWrites++
	}
	st.store.Commit([]env.Op{op}, func(err error) {
		then(err)
		if c == nil {
			return
		}
		if c.pendingWrites--; c.pendingWrites == 0 && c.trustUnstored {
			st.saveTrust(c)
		}
	})
}
