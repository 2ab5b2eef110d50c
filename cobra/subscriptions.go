package cobra

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/internal/env"
)

// A Subscription is a keyword subscription as it is stored.
type Subscription struct {
	Query string
	Since time.Time // when it was made
	Owner uint32    // whose it is; 0: the node's user
}

// Query returns a subscription of a store, or ErrUnknown. It may be called from any goroutine.
func Query(s env.Store, number SubscriptionID) (Subscription, error) {
	value, err := s.Get(numbered(subscriptionPrefix, uint32(number)))
	if err == nil && value == nil {
		err = ErrUnknown
	}
	if err != nil {
		return Subscription{}, err
	}
	return decodeSubscription(value)
}

func decodeSubscription(value []byte) (Subscription, error) {
	var record cobrapb.Subscription
	err := proto.Unmarshal(value, &record)
	return Subscription{record.Query, time.Unix(record.Since, 0), record.Owner}, err
}

// blockSubscriptions is the number of subscriptions whose keys differ only in the last byte. A list that begins in the
// middle reads one block in vain at most.
const blockSubscriptions = 1 << 8

// Subscriptions calls each for the subscriptions of a store from a number on, in ascending order, until it returns false.
// It may be called from any goroutine.
func Subscriptions(s env.Store, from SubscriptionID, each func(number SubscriptionID, s Subscription) bool) error {
	counters, err := readCounters(s)
	if err != nil {
		return err
	}
	var broken, damaged error
	for more := true; more && uint32(from) < counters.NextSubscription; from = (from/blockSubscriptions + 1) * blockSubscriptions {
		block := numbered(subscriptionPrefix, uint32(from))
		err := s.Range(block[:len(block)-1], func(key, value []byte) bool {
			number := SubscriptionID(binary.BigEndian.Uint32(key[len(subscriptionPrefix):]))
			if number < from {
				return true
			}
			var found Subscription
			if found, broken = decodeSubscription(value); broken != nil {
				more = false
				return false
			}
			more = each(number, found)
			return more
		})
		if damaged = cmp.Or(damaged, err); err != nil && !errors.Is(err, env.ErrDamaged) {
			break
		}
	}
	return errors.Join(damaged, broken)
}

// Owned returns the subscriptions of an owner other than the node's user, in ascending order.
func (r *Reflector) Owned(owner uint32) []SubscriptionID { return slices.Clone(r.owned[owner]) }

// Owners returns all owners of subscriptions other than the node's user.
func (r *Reflector) Owners() []uint32 { return slices.Sorted(maps.Keys(r.owned)) }

// addOwned notes whose a subscription is. Numbers come in ascending order.
func (r *Reflector) addOwned(number SubscriptionID, owner uint32) {
	if owner != 0 {
		r.owned[owner] = append(r.owned[owner], number)
		r.stats.Owned++
	}
}

func (r *Reflector) removeOwned(number SubscriptionID, owner uint32) {
	at, found := slices.BinarySearch(r.owned[owner], number)
	if !found {
		return
	}
	r.stats.Owned--
	if r.owned[owner] = slices.Delete(r.owned[owner], at, at+1); len(r.owned[owner]) == 0 {
		delete(r.owned, owner)
	}
}
