package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

var (
	network = wire.HashOf(wire.DefaultNetwork("fuzz").Descriptor())
	key     = overlay.Key("fuzz", "http://a.example/")
	began   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

type fixedClock struct{}

func (fixedClock) Now() time.Time { return began }

func signer() *wire.Signer {
	return wire.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), network)
}

// FuzzMessage decodes arbitrary bytes as a message. A decoded message is within bounds, and survives encoding and
// decoding.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	for _, m := range []*feedtreepb.Message{
		{Body: &feedtreepb.Message_Digest{Digest: &feedtreepb.Digest{Nonce: 1, Count: 2, Digest: 3}}},
		{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: []*feedtreepb.Head{{Key: key[:], Head: 1}}}}},
		{Body: &feedtreepb.Message_HeadsReply{HeadsReply: &feedtreepb.HeadsReply{Different: [][]byte{key[:]}, Unknown: [][]byte{key[:]}}}},
		{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: [][]byte{{1}}, Statements: [][]byte{{1}}}}},
		{Body: &feedtreepb.Message_Push{Push: &feedtreepb.Push{Publication: []byte{1}, Record: []byte{2}}}},
		{Body: &feedtreepb.Message_PushReply{PushReply: &feedtreepb.PushReply{Hash: key[:], Verdict: feedtreepb.PushReply_GAP, Pubseq: 3, Reason: "words"}}},
		{Body: &feedtreepb.Message_WitnessRequest{WitnessRequest: &feedtreepb.WitnessRequest{Key: key[:], Publisher: key[:]}}},
		{Body: &feedtreepb.Message_WitnessReply{WitnessReply: &feedtreepb.WitnessReply{Witness: []byte{1}}}},
		{Body: &feedtreepb.Message_Objection{Objection: &feedtreepb.Objection{Witness: []byte{1}}}},
		{Body: &feedtreepb.Message_SightRequest{SightRequest: &feedtreepb.SightRequest{Key: key[:], Items: [][]byte{make([]byte, 64)}, Look: true}}},
		{Body: &feedtreepb.Message_Sight{Sight: &feedtreepb.Sight{Sighting: []byte{1}}}},
		{Body: &feedtreepb.Message_Contest{Contest: &feedtreepb.Contest{Key: key[:], Sightings: [][]byte{{1}}}}},
	} {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		again, err := parse(wire.Encode(m))
		if err != nil || !proto.Equal(m, again) {
			t.Errorf("%v became %v, %v", m, again, err)
		}
	})
}

// FuzzNews decodes arbitrary bytes as a message in a tree.
func FuzzNews(f *testing.F) {
	f.Add([]byte{})
	f.Add(wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: []byte{1}}}))
	f.Add(wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Objection{Objection: []byte{1}}}))
	f.Add(wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Statement{Statement: []byte{1}}}))
	f.Add(wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Update{Update: &feedtreepb.Update{Entry: []byte{1}, Body: []byte{2}, Epoch: []byte{3}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseNews(b)
		if err != nil {
			return
		}
		again, err := parseNews(wire.Encode(n))
		if err != nil || !proto.Equal(n, again) {
			t.Errorf("%v became %v, %v", n, again, err)
		}
	})
}

// FuzzBeatStatement decodes arbitrary signed bytes as a heartbeat. A decoded heartbeat is within bounds, and
// survives encoding and decoding.
func FuzzBeatStatement(f *testing.F) {
	f.Add([]byte{})
	statement := wire.Encode(&feedtreepb.BeatStatement{Key: key[:], Branch: 1, Epoch: 2, Seq: 3, Head: make([]byte, 32), Number: 4, TimeMs: 5, State: []byte("state")})
	f.Add(statement)
	f.Add(append(bytes.Clone(statement), 0xf8, 1, 1)) // a further field
	beats := &heartbeats{common: &common{verify: wire.NewVerifier(network), clock: fixedClock{}}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		by := signer()
		raw := by.Sign(wire.DomainHeartbeat, payload).Raw
		of, b, err := beats.open(raw)
		if err != nil {
			return
		}
		if len(b.state) > maxState || b.signer != by.PeerID() {
			t.Errorf("heartbeat beyond bounds: %+v", b)
		}
		if !bytes.Equal(b.raw(of), raw) {
			t.Errorf("%x is passed on as %x", raw, b.raw(of))
		}
		m := &feedtreepb.BeatStatement{
			Key: of[:], Branch: b.branch, Epoch: b.epoch, Seq: b.seq, Head: b.head[:], Number: b.number, State: b.state,
		}
		if b.time != env.Never {
			m.TimeMs = uint64(b.time.Time().UnixMilli())
		}
		of2, again, err := beats.open(by.Sign(wire.DomainHeartbeat, wire.Encode(m)).Raw)
		if err != nil || of2 != of {
			t.Fatalf("%+v cannot be read again: %v", b, err)
		}
		if again.branch != b.branch || again.epoch != b.epoch || again.seq != b.seq || again.head != b.head ||
			again.number != b.number || again.time != b.time || string(again.state) != string(b.state) || again.laterThan(b) {
			t.Errorf("%+v became %+v", b, again)
		}
	})
}

// A recordStore is a store with one record.
type recordStore struct{ key, value []byte }

func (s *recordStore) Commit(ops []env.Op, done func(error)) {
	s.key, s.value = ops[0].Key, ops[0].Value
	done(errors.New("not supported")) // an error, so that nothing follows
}
func (s *recordStore) Get([]byte) ([]byte, error) { return nil, nil }
func (s *recordStore) Range(_ []byte, each func(key, value []byte) bool) error {
	each(s.key, s.value)
	return nil
}

// FuzzSubscription loads arbitrary bytes, which a broken disk may have written, as a subscription. A loaded
// subscription survives storing and loading.
func FuzzSubscription(f *testing.F) {
	url := "http://a.example/"
	f.Add(subscriptionKey(key), []byte{})
	f.Add(subscriptionKey(key), wire.Encode(&feedtreepb.Subscription{Url: url, Weight: 2, SinceMs: uint64(began.UnixMilli()), Attributes: []byte("title")}))
	f.Add([]byte("feedtree/subscription/short"), []byte{})
	pin := &difference.Pin{Key: make([]byte, 32), Next: feed.Hash{1}, Since: began}
	f.Add(subscriptionKey(key), wire.Encode(&feedtreepb.Subscription{Url: url, Pin: pin.Append()}))
	read := func(s *recordStore) *subscriptions {
		st := &subscriptions{common: &common{clock: fixedClock{}, owners: &owner.Owners{}, log: slog.New(slog.DiscardHandler), feeds: channels{}}, store: s}
		if err := st.load(); err != nil {
			panic(err)
		}
		return st
	}
	f.Fuzz(func(t *testing.T, at, b []byte) {
		for k, c := range read(&recordStore{at, b}).feeds {
			again := read(&recordStore{subscriptionKey(k), wire.Encode(c.record())}).feeds[k]
			if again == nil || (again.trust == nil) != (c.trust == nil) || c.trust != nil && !bytes.Equal(again.trust.Append(), c.trust.Append()) || again.url != c.url || again.weight != c.weight || again.since != c.since || string(again.attributes) != string(c.attributes) || !c.subscribed {
				t.Errorf("%+v became %+v", c, again)
			}
		}
	})
}

// The largest messages that a node may have to pass on fit into a frame.
func TestTheLargestMessagesFitIntoAFrame(t *testing.T) {
	heads, keys, beats := []*feedtreepb.Head{}, [][]byte{}, [][]byte{}
	for range maxHeads {
		heads = append(heads, &feedtreepb.Head{Key: key[:], Head: ^uint64(0)})
		keys = append(keys, key[:])
	}
	for range maxBeats / 2 {
		beats = append(beats, make([]byte, maxBeat))
	}
	for what, m := range map[string]*feedtreepb.Message{
		"heads":   {Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: heads}}},
		"behind":  {Body: &feedtreepb.Message_HeadsReply{HeadsReply: &feedtreepb.HeadsReply{Different: keys, Unknown: keys}}},
		"beats":   {Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: beats}}},
		"content": {Body: &feedtreepb.Message_Content{Content: &feedtreepb.Content{Hash: make([]byte, 32), Offset: ^uint32(0), Bytes: make([]byte, maxContentPart)}}},
		"push":    {Body: &feedtreepb.Message_Push{Push: &feedtreepb.Push{Publication: make([]byte, difference.MaxEnvelope), Record: make([]byte, 4<<10)}}},
	} {
		if n := proto.Size(m); n > wire.MaxMessage {
			t.Errorf("%s of %d bytes", what, n)
		}
	}
	beat := wire.Encode(&feedtreepb.BeatStatement{
		Key: key[:], Branch: 1, Epoch: ^uint32(0), Seq: ^uint64(0), Head: make([]byte, 32), Number: 1, TimeMs: 1, State: make([]byte, maxState),
	})
	if n := len(signer().Sign(wire.DomainHeartbeat, beat).Raw); n > maxBeat {
		t.Errorf("a valid heartbeat of %d bytes is over the limit", n)
	}
}
