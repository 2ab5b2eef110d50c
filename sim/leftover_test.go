package sim

import (
	"encoding/binary"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

// An entry that a full disk could not delete, or that was written although its commit failed, is
// not taken for a part of the log in the next life.
func TestALeftoverEntryDoesNotCutTheLog(t *testing.T) {
	t.Parallel()
	s, urls := diskWorld(1)
	s.World.Run(10 * time.Minute)
	for _, p := range s.Peers() {
		for _, url := range urls {
			key := s.Key(url)
			log := p.node.Owners.Log(key)
			if len(log) < 4 {
				continue
			}
			e := log[len(log)/2]
			st := new(ownerpb.EntryStatement)
			signed, err := wire.NewVerifier(s.hash).Open(wire.DomainEntry, e.Raw())
			if err != nil || proto.Unmarshal(signed.Payload, st) != nil {
				t.Fatalf("entry of %s: %v", url, err)
			}
			st.TimeMs++
			payload := wire.Encode(st)
			k := binary.BigEndian.AppendUint64(append([]byte("owner/entry/"), key[:]...), e.At.Seq)
			p.disk.put(string(k), wire.NewSigner(s.World.byID[e.Signer].Key(), s.hash).Sign(wire.DomainEntry, payload).Raw)
		}
		had := map[string]int{}
		for _, url := range urls {
			for _, e := range p.node.Owners.Log(s.Key(url)) {
				if s.Now().Sub(e.Time) > 5*time.Second { // the node may not know yet that a younger entry is committed
					had[url]++
				}
			}
		}
		p.Kill(true)
		p.Start()
		for _, url := range urls {
			if has := len(p.node.Owners.Log(s.Key(url))); has < had[url] {
				t.Errorf("host %d has %d of %d entries of %s", p.Index(), has, had[url], url)
			}
		}
		s.World.Run(time.Minute)
	}
	s.World.Run(15 * time.Minute) // until all items have arrived
	s.recover()
	report(t, s)
}

// A follower whose disk lost an entry in the middle of a log pulls all of the log again.
func TestALostEntryIsPulledAgain(t *testing.T) {
	t.Parallel()
	s, urls := diskWorld(2)
	c := s.Add(false, s.Peers()[0])
	c.Start()
	c.SubscribeFeed(urls[0])
	s.World.Run(10 * time.Minute)
	key := s.Key(urls[0])
	log := c.node.Owners.Log(key)
	c.Kill(true)
	k := binary.BigEndian.AppendUint64(append([]byte("owner/entry/"), key[:]...), log[len(log)/2].At.Seq)
	c.disk.scan(string(k), func(key, _ []byte) bool {
		c.disk.put(string(key), nil)
		return true
	})
	c.Start()
	s.World.Run(time.Minute)
	if has := len(c.node.Owners.Log(key)); has < len(log) {
		t.Errorf("%d of %d entries", has, len(log))
	}
	s.World.Run(15 * time.Minute) // until all items have arrived
	s.recover()
	report(t, s)
}
