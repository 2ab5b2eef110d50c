package overlay

import (
	"cmp"
	"encoding/binary"
	"slices"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// Keys of the overlay in the store.
const (
	keyPeer   = "overlay/peer/"  // + id: a member's record
	keyIssued = "overlay/issued" // time of issue of the node's last record
)

// maxKnown is how many peers the store remembers for the next start.
const maxKnown = 200

// Remembered returns the members that a node of a network remembered in a
// store, by their ids: who one can try to join through.
func Remembered(s env.Store, network string, verify wire.Verifier) ([]*Contact, error) {
	var of []*Contact
	err := s.Range([]byte(keyPeer), func(_, raw []byte) bool {
		if c, err := openRecord(network, verify, slices.Clone(raw)); err == nil {
			of = append(of, c)
		}
		return true
	})
	return of, err
}

// recall reads what an earlier life of the node remembered.
func (n *Node) recall() {
	n.saved = map[ID]uint64{}
	known, err := Remembered(n.store, n.network, n.verify)
	if err != nil {
		n.log.Warn("known peers not read", "err", err)
	}
	for _, c := range known {
		if c.ID != n.self.ID {
			n.known = append(n.known, c)
			n.saved[c.ID] = c.Issued
		}
	}
	// A clock that went back must not make this life look older than the last.
	if b, err := n.store.Get([]byte(keyIssued)); err == nil && len(b) == 8 {
		n.self.Issued = max(n.self.Issued, binary.BigEndian.Uint64(b))
		n.issue(nil, false)
	}
}

func (n *Node) saveIssued() {
	n.commit([]env.Op{{Key: []byte(keyIssued), Value: binary.BigEndian.AppendUint64(nil, n.self.Issued)}})
}

// save remembers who is here, again and again.
func (n *Node) save() {
	if n.state != Left {
		n.after(n.spread(n.cfg.SaveInterval), task{kind: taskSave})
	}
	if n.state == Active || n.state == Attached {
		n.remember()
	}
}

// remember saves the members of leaf and table, if they are others than those
// remembered; those remembered longest give way.
func (n *Node) remember() {
	now := n.here()
	var ops []env.Op
	for _, c := range now {
		if n.saved[c.ID] != c.Issued {
			ops = append(ops, env.Op{Key: peerKey(c.ID), Value: c.Raw})
			n.saved[c.ID] = c.Issued
		}
	}
	if over := len(n.saved) - maxKnown; over > 0 {
		var old []ID
		for id := range n.saved {
			if !slices.ContainsFunc(now, func(c *Contact) bool { return c.ID == id }) {
				old = append(old, id)
			}
		}
		slices.SortFunc(old, func(a, b ID) int {
			return cmp.Or(cmp.Compare(n.saved[a], n.saved[b]), compare(a, b))
		})
		for _, id := range old[:min(over, len(old))] {
			ops = append(ops, env.Op{Key: peerKey(id)})
			delete(n.saved, id)
		}
	}
	if len(ops) > 0 {
		n.commit(ops)
	}
}

// here returns the members this node has to do with, at most maxKnown.
func (n *Node) here() []*Contact {
	var of []*Contact
	for _, c := range n.leaf.Members() {
		if c.ID != n.self.ID {
			of = append(of, c)
		}
	}
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			of = append(of, s.contact.contact)
		}
	})
	for _, p := range n.hosts {
		of = append(of, p.contact)
	}
	return of[:min(len(of), maxKnown)]
}

func (n *Node) commit(ops []env.Op) {
	n.store.Commit(ops, func(err error) {
		if err != nil {
			n.log.Warn("known peers not saved", "err", err)
		}
	})
}

func peerKey(id ID) []byte { return append([]byte(keyPeer), id[:]...) }
