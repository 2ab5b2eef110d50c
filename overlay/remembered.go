package overlay

import (
	"cmp"
	"encoding/binary"
	"slices"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// These are the overlay's keys in the store.
const (
	keyPeer   = "overlay/peer/"  // + id: a member's record
	keyIssued = "overlay/issued" // time of issue of the node's last record
)

// maxRemembered is the number of peers that the store keeps for the next start.
const maxRemembered = 200

// Remembered returns the members that a node of a network saved in a store, in the order of
// their ids. A node can try to join through them.
func Remembered(s env.Store, network string, verify wire.Verifier) ([]*Contact, error) {
	return remembered(s, NewRecords(network, verify, maxRemembered))
}

func remembered(s env.Store, records *Records) ([]*Contact, error) {
	var contacts []*Contact
	err := s.Range([]byte(keyPeer), func(_, raw []byte) bool {
		if c, err := records.open(slices.Clone(raw)); err == nil {
			contacts = append(contacts, c)
		}
		return true
	})
	return contacts, err
}

// loadRemembered reads what an earlier run of the node saved.
func (n *Node) loadRemembered() {
	known, err := remembered(n.store, n.records)
	if err != nil {
		n.log.Warn("known peers could not be read", "err", err)
	}
	for _, c := range known {
		if c.ID != n.self.ID {
			n.remembered = append(n.remembered, c)
			n.noteSaved(c)
		}
	}
	// Even if the clock went back, this run's records must be newer than those of the last
	// run.
	if b, err := n.store.Get([]byte(keyIssued)); err == nil && len(b) == 8 {
		n.self.Issued = max(n.self.Issued, binary.BigEndian.Uint64(b))
		n.issue(nil, false)
	}
}

func (n *Node) saveIssued() {
	n.commitPeers([]env.Op{{Key: []byte(keyIssued), Value: binary.BigEndian.AppendUint64(nil, n.self.Issued)}})
}

// savePeriodically saves the current peers and schedules the next time.
func (n *Node) savePeriodically() {
	if n.state != Left {
		n.after(n.jitter(n.cfg.SaveInterval), task{kind: taskSave})
	}
	if n.state == Active || n.state == Attached {
		n.savePeers()
	}
}

// savePeers saves the members of leaf and table that have changed. If the store holds too
// many, the oldest records are deleted.
func (n *Node) savePeers() {
	now := n.currentPeers()
	var ops []env.Op
	for _, c := range now {
		if n.noteSaved(c) {
			ops = append(ops, env.Op{Key: peerKey(c.ID), Value: c.Raw})
		}
	}
	if over := len(n.savedRecords) - maxRemembered; over > 0 {
		old := slices.DeleteFunc(slices.Clone(n.savedRecords), func(c *Contact) bool {
			return slices.ContainsFunc(now, func(o *Contact) bool { return o.ID == c.ID })
		})
		slices.SortFunc(old, func(a, b *Contact) int {
			return cmp.Or(cmp.Compare(a.Issued, b.Issued), compare(a.ID, b.ID))
		})
		old = old[:min(over, len(old))]
		for _, c := range old {
			ops = append(ops, env.Op{Key: peerKey(c.ID)})
		}
		n.savedRecords = slices.DeleteFunc(n.savedRecords, func(c *Contact) bool { return slices.Contains(old, c) })
	}
	if len(ops) > 0 {
		n.commitPeers(ops)
	}
}

// noteSaved records that the store holds a record, and reports whether the record is new.
func (n *Node) noteSaved(c *Contact) bool {
	i, ok := slices.BinarySearchFunc(n.savedRecords, c.ID, func(s *Contact, id ID) int { return compare(s.ID, id) })
	switch {
	case !ok:
		n.savedRecords = slices.Insert(n.savedRecords, i, c)
	case n.savedRecords[i].Issued == c.Issued:
		return false
	default:
		n.savedRecords[i] = c
	}
	return true
}

// currentPeers returns the members that the node has to do with, at most maxRemembered.
func (n *Node) currentPeers() []*Contact {
	var contacts []*Contact
	for _, c := range n.leaf.Members() {
		if c.ID != n.self.ID {
			contacts = append(contacts, c)
		}
	}
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			contacts = append(contacts, s.contact.contact)
		}
	})
	for _, p := range n.hosts {
		contacts = append(contacts, p.contact)
	}
	return contacts[:min(len(contacts), maxRemembered)]
}

func (n *Node) commitPeers(ops []env.Op) {
	n.store.Commit(ops, func(err error) {
		if err != nil {
			n.log.Debug("known peers could not be saved", "err", err)
		}
	})
}

func peerKey(id ID) []byte { return append([]byte(keyPeer), id[:]...) }
