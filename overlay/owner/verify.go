package owner

import (
	"fmt"
	"slices"

	"tidings/overlay"
)

// What the owners of a key have signed is shown to members who have nothing to do with it,
// and know of the key no more than its name.

// OpenEpoch reads what Epoch.Bytes has made, of a key that this node may have nothing to do
// with: it is the key of the epoch's URL, a quorum of the epoch's owners has signed, and they
// stand as near to it as owners in a network of this size do. That they are members at
// all, it does not say (Vouch).
func (o *Owners) OpenEpoch(b []byte) (*Epoch, error) {
	e, err := o.readEpoch(b)
	switch {
	case err != nil:
		return nil, err
	case overlay.Key(o.node.Network(), e.URL) != e.Key:
		return nil, errKey
	case !e.certifiedBy(e.Owners):
		return nil, fmt.Errorf("%w: no quorum has signed", ErrEpoch)
	case !o.ownersNearKey(e):
		return nil, fmt.Errorf("%w: its owners stand far from the key", ErrEpoch)
	}
	return e, nil
}

// Vouch looks whether a quorum of an epoch's owners live where they own its key, and calls
// then with the answer: at once of a key in the own leaf, else after a look-up by disjoint
// routes, which costs some twenty messages and takes seconds, half a minute at most.
func (o *Owners) VerifyOwners(e *Epoch, then func(ok bool)) {
	live := func(near []*overlay.Contact) bool {
		n := 0
		for _, p := range e.Owners {
			if slices.ContainsFunc(near, func(c *overlay.Contact) bool { return c.Peer.ID == p }) {
				n++
			}
		}
		return n >= e.Quorum()
	}
	if !o.outsideLeaf(e.Key) {
		then(live(o.node.Leaf().NearestN(e.Key, 2*o.cfg.Owners)))
		return
	}
	o.stats.Lookups++
	o.node.Lookup(e.Key, 2*o.cfg.Owners, func(found overlay.Lookup) { then(live(found.Nearest)) })
}
