package owner_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A follower of a key outside its leaf looks up the members near the key before it believes that somebody owns the
// key: made-up owners are not found, real ones are.
func TestMadeUpOwnersAreNotBelieved(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(48)
	w.Run(2 * time.Minute)
	w.want(8)
	w.Run(10 * time.Second)
	w.write(5*time.Second, time.Second, 100)
	tried := 0
	for _, url := range w.urls {
		key := w.key(url)
		for _, m := range w.members {
			if m.overlay.Leaf().Covers(key) {
				continue
			}
			tried++
			before := m.owners.Stats().Lookups
			liars := w.strangers(3)
			liars[0].claims(w.epoch(claim{url: url, branch: 1, number: 1, sequencer: liars[0], owners: liars, at: w.Now()}))
			m.Do(func() { m.owners.Follow(key, url) })
			if m.pulls(key, liars[0].Peer()) {
				t.Errorf("%s: member %d takes the word of made-up owners", url, m.Index())
			}
			if v, _ := m.owners.View(key); v.Epoch != nil {
				t.Errorf("%s: member %d has an epoch that nobody made", url, m.Index())
			}
			if !m.pulls(key, w.nearest(key)[0].Peer()) || len(m.owners.Log(key)) == 0 {
				t.Errorf("%s: member %d does not believe the owners", url, m.Index())
			}
			if looks := m.owners.Stats().Lookups - before; looks != 1 {
				t.Errorf("%s: member %d has made %d lookups for one key", url, m.Index(), looks)
			}
			break
		}
	}
	if tried < 4 {
		t.Errorf("only %d keys lie in another leaf than somebody's", tried)
	}
}

// pulls pulls a key's log from a peer and returns whether that succeeded.
func (m *member) pulls(key overlay.ID, from env.Peer) (ok bool) {
	m.Do(func() { m.owners.Pull(from, key, func(well bool) { ok = well }) })
	m.w.Run(40 * time.Second)
	return ok
}

// A faker answers every pull with an empty log and an epoch.
type faker struct {
	net   env.Network
	epoch *ownerpb.Epoch
}

func (f *faker) Receive(from env.PeerID, frame []byte) error {
	_, body, err := wire.ParseFrame(frame)
	m := new(ownerpb.Message)
	if err != nil || proto.Unmarshal(body, m) != nil || m.GetPull() == nil {
		return nil
	}
	f.net.Send(env.Peer{ID: from}, env.Bulk, wire.AppendFrame(nil, wire.Owner, &ownerpb.Message{Body: &ownerpb.Message_Entries{
		Entries: &ownerpb.Entries{Key: m.GetPull().Key, Nonce: m.GetPull().Nonce, Epoch: f.epoch, Committed: true},
	}}))
	return nil
}

func (f *faker) Run(time.Time) time.Time { return time.Time{} }
func (f *faker) Found(env.Peer)          {}
func (f *faker) Reachable([]string)      {}
func (f *faker) PeerDown(env.PeerID)     {}
