package firehose

import (
	"crypto/ed25519"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A lab is the world of one node's components. It records what the node sends, and runs the calendar of its base.
type lab struct {
	t         *testing.T
	d         *base
	now       time.Time
	sent      []sentMessage
	published []*firehosepb.Broadcast
	joins     [][]env.Peer
	stored    map[string][]byte
	found     owner.Found // the answer of FindOwners
	owned     *owner.Epoch

	// The tracker's state:
	epoch     *owner.Epoch
	peers     []env.Peer
	refreshed int
}

type sentMessage struct {
	to env.PeerID
	m  *firehosepb.Message
}

// newLab returns the world of a node that is "self" to its components.
func newLab(t *testing.T, cfg Config) *lab {
	t.Helper()
	l := &lab{t: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), stored: map[string][]byte{}}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.d = &base{
		cfg: cfg, clock: clockOf{l}, net: l, rand: rand.New(rand.NewPCG(1, 2)), log: slog.New(slog.DiscardHandler), owners: logsOf{lab: l},
		signer: wire.NewSigner(key, wire.Hash{}), verify: wire.NewVerifier(wire.Hash{}), self: "self",
	}
	return l
}

// place returns the place of shard 0, whose owners are these, the sequencer first.
func (l *lab) place(owners ...env.PeerID) *place {
	l.epoch, l.peers = &owner.Epoch{Hash: owner.Hash{1}, Branch: 1, Owners: owners}, nil
	for _, o := range owners {
		l.peers = append(l.peers, env.Peer{ID: o})
	}
	return &place{base: l.d, tracker: l}
}

// pass lets time pass, and gives each task that is due to run.
func (l *lab) pass(d time.Duration, run func(t task)) {
	for end := l.now.Add(d); ; {
		next := l.d.cal.Next()
		if next.IsZero() || next.After(end) {
			l.now = end
			return
		}
		if l.now.Before(next) {
			l.now = next
		}
		if t, _, ok := l.d.cal.Pop(l.now); ok {
			run(t)
		}
	}
}

// entry returns an entry that was made some time ago.
func (l *lab) entry(n byte, age time.Duration) *owner.Entry {
	return &owner.Entry{Key: overlay.ID{n}, Hash: owner.Hash{n}, Time: l.now.Add(-age), Items: 1}
}

func (l *lab) ref(n byte) *firehosepb.EntryRef {
	key, hash := overlay.ID{n}, owner.Hash{n}
	return &firehosepb.EntryRef{Key: key[:], Entry: hash[:], AtMs: uint64(l.now.UnixMilli())}
}

func (l *lab) Send(to env.Peer, _ env.Class, frame []byte) {
	_, body, err := wire.ParseFrame(frame)
	m := new(firehosepb.Message)
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.sent = append(l.sent, sentMessage{to.ID, m})
}

func (l *lab) Join(_ string, peers []env.Peer, _ func(env.PeerID, []byte) env.Verdict) {
	l.joins = append(l.joins, slices.Clone(peers))
}

func (l *lab) Leave(string) {}

func (l *lab) Publish(_ string, frame []byte) {
	signed, err := l.d.verify.Open(wire.DomainShard, frame)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := openBroadcast(signed.Payload, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	l.published = append(l.published, m)
}

func (l *lab) Latest() *owner.Epoch    { return l.epoch }
func (l *lab) Owners() []env.Peer      { return l.peers }
func (l *lab) Owns(p env.PeerID) bool  { return slices.Contains(l.epoch.Owners, p) }
func (l *lab) Owned(p env.PeerID) bool { return l.Owns(p) }
func (l *lab) Accept(e *owner.Epoch)   { l.epoch = e }
func (l *lab) Refresh()                { l.refreshed++ }
func (l *lab) Forget()                 { l.epoch, l.peers = nil, nil }

func (l *lab) Get(key []byte) ([]byte, error) { return l.stored[string(key)], nil }

func (l *lab) Range([]byte, func(key, value []byte) bool) error { return nil }

func (l *lab) Commit(ops []env.Op, done func(error)) {
	for _, op := range ops {
		l.stored[string(op.Key)] = op.Value
	}
	done(nil)
}

type clockOf struct{ l *lab }

func (c clockOf) Now() time.Time { return c.l.now }

// logsOf answers what Owners of the lab know.
type logsOf struct {
	Owners
	lab *lab
}

func (o logsOf) FindOwners(_ overlay.ID, then func(owner.Found)) { then(o.lab.found) }

func (o logsOf) View(overlay.ID) (owner.View, bool) {
	return owner.View{Epoch: o.lab.owned, Owns: o.lab.owned != nil}, o.lab.owned != nil
}
