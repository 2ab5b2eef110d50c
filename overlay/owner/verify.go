package owner

import (
	"fmt"
	"slices"

	"tidings/overlay"
)

// OpenEpoch decodes an epoch made by Epoch.Bytes, of any key. It verifies that the key is that of the URL, that a
// quorum of the owners has signed, and that they are as near to the key as owners in a network of this size are. It does
// not verify that they are members: VerifyOwners does.
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
		return nil, fmt.Errorf("%w: its owners are too far from the key", ErrEpoch)
	}
	return e, nil
}

// VerifyOwners calls then with whether a quorum of an epoch's owners are live members near its key. For a key in the
// leaf it does so at once; otherwise after a lookup by disjoint routes, which takes about twenty messages and seconds,
// half a minute at most.
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
