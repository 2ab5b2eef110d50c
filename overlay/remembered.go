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
func Remembered(s env.Store, network wire.Network, verify wire.Verifier) ([]*Contact, error) {
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

// memory keeps the peers in the store, for the next start.
type memory struct {
	*neighbours
	store      env.Store
	remembered []*Contact // members remembered from an earlier run
	saved      []*Contact // records in the store, in the order of their ids
	trusted    bool       // the last check of the entry points found nothing wrong
}

// load reads what an earlier run of the node saved. It reports whether there was one, so that
// the node needs a newer record.
func (mem *memory) load() bool {
	known, err := remembered(mem.store, mem.records)
	if err != nil {
		mem.log.Warn("known peers could not be read", "err", err)
	}
	for _, c := range known {
		if c.ID != mem.self.ID {
			mem.remembered = append(mem.remembered, c)
			mem.noteSaved(c)
		}
	}
	b, err := mem.store.Get([]byte(keyIssued))
	if err != nil || len(b) != 8 {
		return false
	}
	// Even if the clock went back, this run's records must be newer than those of the last
	// run.
	mem.self.Issued = max(mem.self.Issued, binary.BigEndian.Uint64(b))
	return true
}

func (mem *memory) saveIssued() {
	mem.commit([]env.Op{{Key: []byte(keyIssued), Value: binary.BigEndian.AppendUint64(nil, mem.self.Issued)}})
}

// savePeriodically saves the current peers and schedules the next time.
func (mem *memory) savePeriodically() {
	if mem.state != Left {
		mem.after(env.Jitter(mem.rand, mem.cfg.SaveInterval), task{kind: taskSave})
	}
	if mem.state == Active || mem.state == Attached {
		mem.save()
	}
}

// save saves the members that the node has to do with, if they have changed. If the store holds too
// many, the oldest records are deleted. As long as the network may be a false one, its members get at
// most half of the store, and those of the earlier run are deleted last: otherwise liars could make
// the node forget everybody else.
func (mem *memory) save() {
	others := slices.DeleteFunc(slices.Clone(mem.leaf.Members()), func(c *Contact) bool { return c.ID == mem.self.ID })
	now := slices.Concat(others, mem.Contacts(), mem.Hosts())
	most := maxRemembered
	if !mem.trusted {
		most /= 2
	}
	now = now[:min(len(now), most)]
	var ops []env.Op
	for _, c := range now {
		if mem.noteSaved(c) {
			ops = append(ops, env.Op{Key: peerKey(c.ID), Value: c.Raw})
		}
	}
	if over := len(mem.saved) - maxRemembered; over > 0 {
		old := slices.DeleteFunc(slices.Clone(mem.saved), func(c *Contact) bool {
			return slices.ContainsFunc(now, func(o *Contact) bool { return o.ID == c.ID })
		})
		last := func(c *Contact) int {
			if !mem.trusted && hasContact(mem.remembered, c) {
				return 1
			}
			return 0
		}
		slices.SortFunc(old, func(a, b *Contact) int {
			return cmp.Or(last(a)-last(b), cmp.Compare(a.Issued, b.Issued), compare(a.ID, b.ID))
		})
		old = old[:min(over, len(old))]
		for _, c := range old {
			ops = append(ops, env.Op{Key: peerKey(c.ID)})
		}
		mem.saved = slices.DeleteFunc(mem.saved, func(c *Contact) bool { return slices.Contains(old, c) })
	}
	if len(ops) > 0 {
		mem.commit(ops)
	}
}

// noteSaved records that the store holds a record, and reports whether the record is new.
func (mem *memory) noteSaved(c *Contact) bool {
	i, ok := slices.BinarySearchFunc(mem.saved, c.ID, func(s *Contact, id ID) int { return compare(s.ID, id) })
	switch {
	case !ok:
		mem.saved = slices.Insert(mem.saved, i, c)
	case mem.saved[i].Issued == c.Issued:
		return false
	default:
		mem.saved[i] = c
	}
	return true
}

func (mem *memory) commit(ops []env.Op) {
	mem.store.Commit(ops, func(err error) {
		if err != nil {
			mem.log.Debug("known peers could not be saved", "err", err)
		}
	})
}

func peerKey(id ID) []byte { return append([]byte(keyPeer), id[:]...) }
