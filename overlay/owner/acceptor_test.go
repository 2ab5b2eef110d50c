package owner_test

import (
	"testing"
	"time"

	"tidings/overlay/owner/ownerpb"
)

// A member that will own a key in an epoch that others have signed, and of which it has not heard, promises a candidate as
// owners do. Otherwise a candidate that needs a quorum of that epoch's owners fails until its lease is over (seed 32 of
// sim faults: two and a half minutes).
func TestAnOwnerToBePromises(t *testing.T) {
	w, channels := met(t, 1)
	c := channels[0]
	follower, words := c.other[0], c.other[0].overheard()
	for _, from := range []*member{c.also[0], c.other[1]} { // an owner and another member
		*words = nil
		follower.hears(from.Host, &ownerpb.Message{Body: &ownerpb.Message_Prepare{Prepare: &ownerpb.Prepare{
			Key: c.key[:], Branch: c.epoch.Branch, Number: c.epoch.Number + 1,
		}}})
		w.Run(time.Second)
		promised := false
		for _, word := range *words {
			if s := word.msg.GetPromise(); s != nil && word.to == from.ID() {
				promised = s.Refused == 0
			}
		}
		if owner := from == c.also[0]; promised != owner {
			t.Errorf("it promised: %v, to an owner: %v", promised, owner)
		}
	}
}
