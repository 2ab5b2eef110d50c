package feedtree_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// deepTrees returns a network with deep trees and a feed that most members read.
func deepTrees(t *testing.T) (s *sim.Swarm, readers []*sim.Peer) {
	t.Helper()
	s = swarm(48, func(n *node.Config) { n.Scribe.FanOut = 2 })
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: time.Minute}))
	for i, p := range s.Peers() {
		if i%4 > 0 {
			p.SubscribeFeed(url)
			readers = append(readers, p)
		}
	}
	s.World.Run(5 * time.Minute)
	return s, readers
}

// shadow returns the group of a feed's shadow tree.
func shadow(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// interior returns the reader with the most children in a group that does not own the feed and is not the group's
// root.
func interior(t *testing.T, s *sim.Swarm, readers []*sim.Peer, group overlay.ID) *sim.Peer {
	t.Helper()
	var best *sim.Peer
	most := 0
	for _, p := range readers {
		place, ok := p.Layers().Scribe.Place(group)
		v, _ := p.Layers().Owners.View(s.Key(url))
		if ok && !place.Root && !v.Owns && len(place.Children) > most {
			best, most = p, len(place.Children)
		}
	}
	if best == nil {
		t.Fatal("no reader has children")
	}
	return best
}

// below returns the readers whose parent in a group is the given peer.
func below(readers []*sim.Peer, group overlay.ID, who *sim.Peer) (of []*sim.Peer) {
	for _, p := range readers {
		if parent, ok := p.Layers().Scribe.Parent(group); ok && parent == who.Layers().Overlay.ID() {
			of = append(of, p)
		}
	}
	return of
}

// A parent that withholds messages of a feed's tree delays them by some seconds for the nodes below, because heads
// come another way. After three entries its children have left, and they do not return.
func TestAParentThatWithholdsIsLeft(t *testing.T) {
	t.Parallel()
	s, readers := deepTrees(t)
	key := s.Key(url)
	for tree, group := range []overlay.ID{key, shadow(key)} { // the tree of entries, and that of heads
		bad := interior(t, s, readers, group)
		children := below(readers, group, bad)
		if len(children) == 0 {
			t.Fatalf("tree %d: the parent has no children", tree)
		}
		bad.DropForwards()
		s.World.Run(10 * time.Minute)
		// Others may have become its children since, and need time to notice.
		for _, p := range below(readers, group, bad) {
			if slices.Contains(children, p) {
				t.Errorf("tree %d: one of %d children has not left: %+v", tree, len(children), p.Layers().Feeds.Stats())
			}
		}
		for _, p := range children {
			if st := p.Layers().Feeds.Stats(); st.ParentsLeft == 0 {
				t.Errorf("tree %d: %+v", tree, st)
			}
		}
	}
	checkSwarm(t, s)
}

// A reader whose parents in both trees withhold everything learns of new entries from an owner, within ten minutes.
func TestAuditsFindWhatBothTreesWithhold(t *testing.T) {
	t.Parallel()
	s := swarm(48, func(n *node.Config) { n.Scribe.FanOut = 2 })
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: time.Minute, Limit: 8}))
	key := s.Key(url)
	var readers []*sim.Peer
	for i, p := range s.Peers() {
		if i%2 > 0 {
			p.SubscribeFeed(url)
			readers = append(readers, p)
		}
	}
	s.World.Run(3 * time.Minute)
	for _, p := range s.Peers() {
		if v, _ := p.Layers().Owners.View(key); !v.Owns {
			p.DropForwards()
		}
	}
	s.World.Run(3 * time.Minute)
	lag := func() (behind int) {
		head := leader(t, s, url).Layers().Owners.LastCommitted(key)
		for _, p := range readers {
			if !p.Layers().Owners.Has(key, head.Hash) {
				behind++
			}
		}
		return behind
	}
	if lag() == 0 {
		t.Error("no reader is behind")
	}
	s.World.Run(12*time.Minute + 10*time.Second)
	if n := lag(); n > 0 {
		t.Errorf("%d of %d are behind", n, len(readers))
	}
	unheard, audits := uint64(0), uint64(0)
	for _, p := range readers {
		st := p.Layers().Feeds.Stats()
		unheard += st.AuditsBehind
		audits += st.Audits
	}
	if unheard == 0 || audits > uint64(len(readers))*4 {
		t.Errorf("%d audits of %d found entries, with %d readers", unheard, audits, len(readers))
	}
	checkSwarm(t, s)
}

// A head that a stranger has signed starts no repair.
func TestAHeadOfAStrangerIsIgnored(t *testing.T) {
	in := newIntruder(t)
	key := in.Key(in.feeds[0])
	v, _ := in.target.Layers().Owners.View(key)
	before := in.target.Layers().Feeds.Stats()
	stranger := wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), wire.HashOf(quickNetwork().Descriptor()))
	for i := range uint32(2) { // in the current epoch and in a future one
		in.publish(shadow(key), &feedtreepb.News{News: &feedtreepb.News_Beat{Beat: stranger.Sign(wire.DomainHeartbeat, wire.Encode(&feedtreepb.BeatStatement{
			Key: key[:], Branch: v.Epoch.Branch, Epoch: v.Epoch.Number + i, Seq: 1 << 20, Head: make([]byte, 32), Number: 1,
		})).Raw}})
	}
	in.World.Run(time.Minute)
	in.checkAfter()
	if st := in.target.Layers().Feeds.Stats(); st.Untrusted != before.Untrusted+2 || st.Late != before.Late {
		t.Errorf("%+v", st)
	}
}

// A reader remembers which of its parents brought the last items, and when.
func TestTheLastDeliveryIsRemembered(t *testing.T) {
	t.Parallel()
	s, readers := deepTrees(t)
	key := s.Key(url)
	s.World.Run(3 * time.Minute)
	brought := 0
	for _, p := range readers {
		d, ok := p.Layers().Feeds.LastDelivery(key)
		if place, _ := p.Layers().Scribe.Place(key); !ok || d.Items == 0 || d.Arrived.Before(d.Written) || place.Root != (d.From == "") {
			t.Errorf("%v (root: %v): %+v", ok, place.Root, d)
		}
		if d.From != "" && p.Layers().Scribe.Parents(key)[0].Peer.ID == d.From {
			brought++
		}
	}
	if brought < len(readers)/2 {
		t.Errorf("parents brought the last items to %d of %d readers", brought, len(readers))
	}
	p := readers[0]
	p.Layers().Feeds.Unsubscribe(url, func(error) {})
	s.World.Run(time.Minute)
	if d, ok := p.Layers().Feeds.LastDelivery(key); ok {
		t.Errorf("after the subscription: %+v", d)
	}
}
