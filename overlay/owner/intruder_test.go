package owner_test

import (
	"crypto/ed25519"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A story is a fuzzer's input: each choice takes a byte of it, and after its end every choice is the first.
type story []byte

func (s *story) choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func pick[T any](s *story, of ...T) T { return of[s.choose(len(of))] }

// number returns a number, mostly a boundary value.
func (s *story) number() uint64 {
	return pick[uint64](s, 1, 0, 2, 3, 64, 512, 1<<16, 1<<20, 1<<31, math.MaxUint32-1, math.MaxUint32, math.MaxUint64)
}

// An intruder sends arbitrary messages to the members of a small world in which feeds are read: as a stranger, or as a
// member that owns all keys and leads none.
type intruder struct {
	*sim.Swarm
	t      *testing.T
	hash   wire.Hash
	feeds  []string
	liar   *sim.Peer // nil: a stranger
	signer *wire.Signer
	from   env.PeerID
	heard  uint64 // guesses at nonces
}

const intruded, intrudedFeeds = 5, 3

func intrude(t *testing.T, stranger bool) *intruder {
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.MaintenanceInterval = time.Minute, 2*time.Minute
	in := &intruder{t: t, hash: wire.HashOf(network.Descriptor())}
	in.Swarm = sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 9, Topology: sim.Uniform(10 * time.Millisecond)}, Network: network})
	in.Grow(intruded, 100*time.Millisecond)
	in.World.Run(20 * time.Second)
	for i := range intrudedFeeds {
		url := fmt.Sprintf("http://feed%d.example/", i)
		in.feeds = append(in.feeds, url)
		in.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Format: script.Format(i), Every: time.Minute, Limit: 10}))
		for j, p := range in.Peers() {
			if (i+j)%2 == 0 {
				p.SubscribeFeed(url)
			}
		}
	}
	in.World.Run(2 * time.Minute)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if !stranger {
		for _, p := range in.Peers() {
			if p.Layers().Owners.Stats().Led == 0 {
				in.liar, key = p, p.Key()
			}
		}
		if in.liar == nil {
			t.Fatal("everybody leads something")
		}
	}
	in.signer = wire.NewSigner(key, in.hash)
	in.from = in.signer.PeerID()
	return in
}

// target is the member that is attacked.
func (in *intruder) target() *sim.Peer {
	if in.Peers()[1] == in.liar {
		return in.Peers()[2]
	}
	return in.Peers()[1]
}

// say sends a message to the target, directly or routed.
func (in *intruder) say(m *ownerpb.Message, routed bool) {
	body := wire.Encode(m)
	p := in.target()
	p.Do(func() {
		if routed {
			key := in.Key(in.feeds[0])
			if w := m.GetRequestOwners(); w != nil {
				key = in.Key(w.Url)
			} else if w := m.GetFindOwners(); len(w.GetKey()) == len(key) {
				key = overlay.ID(w.Key)
			}
			p.Layers().Owners.Deliver(&overlay.Message{Key: key, Payload: body})
			return
		}
		before := p.Layers().Owners.Stats().Garbage
		err := p.Layers().Owners.Receive(in.from, body)
		if counted := p.Layers().Owners.Stats().Garbage - before; (err != nil) != (counted == 1) {
			in.t.Errorf("%v: %v, counted %d", m, err, counted)
		}
	})
	in.World.Run(50 * time.Millisecond)
}

// endures checks that readers have all items after the intruder is gone, and that no node keeps more than it needs.
func (in *intruder) endures() {
	in.t.Helper()
	if in.liar != nil {
		in.liar.Kill(true)
	}
	in.World.Run(16 * time.Minute)
	in.CheckReaders()
	for _, v := range in.Violations() {
		in.t.Error(v)
	}
	for _, p := range in.Peers() {
		if !p.Up() {
			continue
		}
		if st := p.Layers().Owners.Stats(); st.Replicas > intrudedFeeds+2 {
			in.t.Errorf("host %d has more on its mind than it should: %+v", p.Index(), st)
		}
	}
}

func (in *intruder) aURL(s *story) string {
	return pick(s, in.feeds[0], in.feeds[1], in.feeds[2], "http://other.example/")
}

// aKey is mostly the key of a feed.
func (in *intruder) aKey(s *story) []byte {
	if s.choose(6) == 5 {
		return make([]byte, pick(s, 32, 0, 31, 33))
	}
	id := in.Key(in.aURL(s))
	return id[:]
}

func (in *intruder) view(s *story) owner.View {
	v, ok := in.target().Layers().Owners.View(in.Key(in.feeds[s.choose(intrudedFeeds)]))
	if !ok || v.Epoch == nil {
		v, _ = in.target().Layers().Owners.View(in.Key(in.feeds[0]))
	}
	return v
}

func (in *intruder) sybil(n int) *wire.Signer {
	return wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{byte(n + 1)}, ed25519.SeedSize)), in.hash)
}

// aStatement is the epoch in force, or an arbitrary one that continues from it.
func (in *intruder) aStatement(s *story) *ownerpb.EpochStatement {
	v := in.view(s)
	m, st := new(ownerpb.Epoch), new(ownerpb.EpochStatement)
	if v.Epoch == nil || proto.Unmarshal(v.Epoch.Bytes(), m) != nil || proto.Unmarshal(m.Statement, st) != nil {
		return st
	}
	for range s.choose(4) {
		switch s.choose(10) {
		case 0:
			st.Number++
		case 1:
			st.Number = uint32(s.number())
		case 2:
			st.Branch = pick(s, st.Branch-1, st.Branch+1, 0, math.MaxUint64)
		case 3:
			st.Sequencer = in.signer.Public()
		case 4:
			st.Owners = append(st.Owners[:len(st.Owners)/2:len(st.Owners)/2], in.signer.Public())
		case 5:
			st.Prior = v.Epoch.Hash[:]
		case 6:
			st.Concurrent = append(st.Concurrent, v.Epoch.Hash[:])
		case 7:
			st.After, st.AfterHash = nil, nil
		case 8:
			st.TimeMs = s.number()
		case 9:
			if log := in.target().Layers().Owners.Log(in.Key(v.URL)); len(log) > 0 {
				e := log[len(log)-1]
				st.After, st.AfterHash = &ownerpb.Position{Branch: e.At.Branch, Epoch: e.At.Epoch, Seq: e.At.Seq}, e.Hash[:]
			}
		}
	}
	return st
}

// anEpoch is the epoch in force, or one signed by the intruder and by unknown peers, without a quorum.
func (in *intruder) anEpoch(s *story) *ownerpb.Epoch {
	switch s.choose(6) {
	case 0, 1:
		e := new(ownerpb.Epoch)
		if v := in.view(s); v.Epoch != nil && proto.Unmarshal(v.Epoch.Bytes(), e) != nil {
			in.t.Fatal("an epoch that cannot be read")
		}
		if s.choose(3) == 1 && len(e.Signatures) > 0 {
			e.Signatures = e.Signatures[:s.choose(len(e.Signatures))]
		}
		return e
	case 2:
		return nil
	case 3:
		return &ownerpb.Epoch{Statement: make([]byte, pick(s, 1, 0, 3<<10, 3<<10+1)), Signatures: make([][]byte, pick(s, 0, 1, 32, 33))}
	}
	st := in.aStatement(s)
	if len(st.Owners) < 3 {
		return nil // with two owners, of which one lies, there is no quorum
	}
	e := &ownerpb.Epoch{Statement: wire.Encode(st)}
	hash := owner.HashOf(e.Statement)
	e.Signatures = append(e.Signatures, in.signer.Sign(wire.DomainEpoch, hash[:]).Raw)
	for i := range s.choose(8) {
		e.Signatures = append(e.Signatures, in.sybil(i).Sign(wire.DomainEpoch, hash[:]).Raw)
	}
	return e
}

// anEntry is an entry of the target, or a forged one.
func (in *intruder) anEntry(s *story) (raw, body []byte) {
	key := in.Key(in.feeds[s.choose(intrudedFeeds)])
	log := in.target().Layers().Owners.Log(key)
	if len(log) == 0 || s.choose(8) == 7 {
		return make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1)), make([]byte, pick(s, 0, 1, 48<<10, 48<<10+1))
	}
	e := log[len(log)-1-s.choose(min(len(log), 3))]
	if s.choose(2) == 0 {
		return e.Raw(), nil
	}
	body = []byte("a body")
	hash := owner.HashOf(body)
	st := &ownerpb.EntryStatement{
		Key: key[:], Prev: e.Hash[:], TimeMs: uint64(e.Time.UnixMilli()) + s.number(), Body: hash[:], Set: hash[:],
		Position: &ownerpb.Position{Branch: e.At.Branch, Epoch: e.At.Epoch, Seq: e.At.Seq + 1}, Size: uint32(len(body)), Items: 1,
	}
	switch s.choose(6) {
	case 1:
		st.Position.Epoch++
	case 2:
		st.Position.Branch--
	case 3:
		st.Position.Seq = s.number()
	case 4:
		st.Size = uint32(s.number())
	case 5:
		st.Prev = nil
	}
	return in.signer.Sign(wire.DomainEntry, wire.Encode(st)).Raw, body
}

// aNonce is a nonce that a member may have used.
func (in *intruder) aNonce(s *story) uint64 {
	if s.choose(3) == 2 {
		return s.number()
	}
	in.heard++
	return in.target().Layers().Owners.Stats().Control/4 + in.heard%64
}

func (in *intruder) aRecord(s *story) []byte {
	leaf := in.target().Layers().Overlay.Leaf()
	switch s.choose(4) {
	case 0:
		return leaf.Members()[s.choose(leaf.Len())].Raw
	case 1, 2:
		payload := wire.Encode(&overlaypb.Record{Member: s.choose(2) == 0, IssuedMs: uint64(in.Now().UnixMilli())})
		return in.signer.Sign(wire.DomainRecord, payload).Raw
	}
	return make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1))
}

// A kind makes messages of one kind.
type kind func(in *intruder, s *story) *ownerpb.Message

var kinds = []kind{
	aRequestOwners, aFindOwners, aOwnersFound, aPrepare, aPromise, aSign, aSigned, aCommit, aReplicate, aReplicateAck, aNote,
	aHeartbeat, aHeartbeatAck, aLogList, aWeightReport, aWeightRequest, aRetire, aMerge, aPull, anEntries, aChunkRequest, aChunk,
}

// tell sends a member the messages of a story.
func tell(t *testing.T, b []byte, kinds ...kind) {
	s := story(b)
	in := intrude(t, s.choose(2) == 1)
	for range 1 + s.choose(6) {
		m := kinds[s.choose(len(kinds))](in, &s)
		routed := s.choose(4) == 3
		if m.GetRequestOwners() != nil || m.GetFindOwners() != nil {
			routed = !routed
		}
		for range pick(&s, 1, 2, 20) {
			in.say(m, routed)
		}
	}
	in.endures()
}

var storiesFlag = flag.Int("stories", 1, "how many stories the members of a small world are told of each kind")

// Members endure messages of every kind with arbitrary contents, each kind alone and all together: readers miss nothing
// after the intruder is gone.
func TestOwnersEndureAnyStory(t *testing.T) {
	t.Parallel()
	for i := range *storiesFlag {
		b := make([]byte, 400)
		dice := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		_, _ = dice.Read(b)
		for j, k := range append(slices.Clone(kinds), nil) {
			these := kinds
			if k != nil {
				these = []kind{k}
			}
			if tell(t, b, these...); t.Failed() {
				t.Fatalf("story %d of kind %d", i, j)
			}
		}
	}
}

func fuzz(f *testing.F, k kind) {
	f.Add([]byte("\x02\x05\x00\x01the quick brown fox jumps over the lazy dog and says so to everybody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 4<<10 {
			tell(t, b, k)
		}
	})
}

func FuzzRequestOwners(f *testing.F) { fuzz(f, aRequestOwners) }

func aRequestOwners(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_RequestOwners{RequestOwners: &ownerpb.RequestOwners{Url: in.aURL(s)}}}
}

func FuzzFindOwners(f *testing.F) { fuzz(f, aFindOwners) }

func aFindOwners(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_FindOwners{FindOwners: &ownerpb.FindOwners{
		Key: in.aKey(s), Record: in.aRecord(s), Url: pick(s, "", in.aURL(s)), Hops: uint32(pick(s, 0, 1, 4, 5, s.number())),
	}}}
}

func FuzzOwnersFound(f *testing.F) { fuzz(f, aOwnersFound) }

func aOwnersFound(in *intruder, s *story) *ownerpb.Message {
	m := &ownerpb.OwnersFound{Key: in.aKey(s), Epoch: in.anEpoch(s)}
	for range pick(s, 1, 0, 3, 16, 17) {
		m.Records = append(m.Records, in.aRecord(s))
	}
	for range pick(s, 0, 1, 13, 17) {
		m.Followers = append(m.Followers, in.aRecord(s))
	}
	return &ownerpb.Message{Body: &ownerpb.Message_OwnersFound{OwnersFound: m}}
}

func FuzzPrepare(f *testing.F) { fuzz(f, aPrepare) }

func aPrepare(in *intruder, s *story) *ownerpb.Message {
	st := in.aStatement(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Prepare{Prepare: &ownerpb.Prepare{
		Key: in.aKey(s), Branch: st.Branch, Number: pick(s, st.Number+1, st.Number, uint32(s.number())),
	}}}
}

func FuzzPromise(f *testing.F) { fuzz(f, aPromise) }

func aPromise(in *intruder, s *story) *ownerpb.Message {
	st := in.aStatement(s)
	m := &ownerpb.Promise{
		Key: in.aKey(s), Branch: st.Branch, Number: pick(s, st.Number+1, st.Number, uint32(s.number())),
		Refused: uint32(pick(s, 0, s.number())), Epoch: in.anEpoch(s),
	}
	for range pick(s, 0, 1, 3, 8, 9) {
		m.Undecided = append(m.Undecided, in.anEpoch(s))
	}
	m.Undecided = slices.DeleteFunc(m.Undecided, func(e *ownerpb.Epoch) bool { return e == nil })
	m.Head, _ = in.anEntry(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Promise{Promise: m}}
}

func FuzzSign(f *testing.F) { fuzz(f, aSign) }

func aSign(in *intruder, s *story) *ownerpb.Message {
	b := wire.Encode(in.aStatement(s))
	if s.choose(8) == 7 {
		b = make([]byte, pick(s, 0, 1, 3<<10, 3<<10+1))
	}
	return &ownerpb.Message{Body: &ownerpb.Message_Sign{Sign: &ownerpb.Sign{Statement: b, Forced: s.choose(2) == 1}}}
}

func FuzzSigned(f *testing.F) { fuzz(f, aSigned) }

func aSigned(in *intruder, s *story) *ownerpb.Message {
	hash := owner.HashOf(wire.Encode(in.aStatement(s)))
	raw := in.signer.Sign(wire.DomainEpoch, hash[:]).Raw
	if s.choose(4) == 3 {
		raw = make([]byte, pick(s, 0, 1, 160, 161))
	}
	return &ownerpb.Message{Body: &ownerpb.Message_Signed{Signed: &ownerpb.Signed{Key: in.aKey(s), Signature: raw}}}
}

func FuzzCommit(f *testing.F) { fuzz(f, aCommit) }

func aCommit(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{
		Epoch: in.anEpoch(s), Note: make([]byte, pick(s, 0, 1, 6<<10, 6<<10+1)), Version: s.number(), MergedHead: make([]byte, pick(s, 0, 32, 33)),
	}}}
}

func FuzzReplicate(f *testing.F) { fuzz(f, aReplicate) }

func aReplicate(in *intruder, s *story) *ownerpb.Message {
	entry, body := in.anEntry(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: entry, Body: body}}}
}

func FuzzReplicateAck(f *testing.F) { fuzz(f, aReplicateAck) }

func aReplicateAck(in *intruder, s *story) *ownerpb.Message {
	hash := make([]byte, pick(s, 32, 0, 33))
	if log := in.target().Layers().Owners.Log(in.Key(in.feeds[0])); len(log) > 0 && s.choose(2) == 0 {
		hash = log[len(log)-1].Hash[:]
	}
	return &ownerpb.Message{Body: &ownerpb.Message_ReplicateAck{ReplicateAck: &ownerpb.ReplicateAck{Key: in.aKey(s), Hash: hash}}}
}

func FuzzNote(f *testing.F) { fuzz(f, aNote) }

func aNote(in *intruder, s *story) *ownerpb.Message {
	st := in.aStatement(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Note{Note: &ownerpb.Note{
		Key: in.aKey(s), Branch: st.Branch, Number: st.Number, Version: s.number(), Note: make([]byte, pick(s, 0, 1, 6<<10, 6<<10+1)),
	}}}
}

func FuzzHeartbeat(f *testing.F) { fuzz(f, aHeartbeat) }

func aHeartbeat(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_Heartbeat{Heartbeat: &ownerpb.Heartbeat{Nonce: in.aNonce(s), Count: uint32(s.number()), Digest: s.number()}}}
}

func FuzzHeartbeatAck(f *testing.F) { fuzz(f, aHeartbeatAck) }

func aHeartbeatAck(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_HeartbeatAck{HeartbeatAck: &ownerpb.HeartbeatAck{Nonce: in.aNonce(s), Match: s.choose(2) == 1}}}
}

func FuzzLogList(f *testing.F) { fuzz(f, aLogList) }

// aLogList comes after a Heartbeat that did not match; otherwise it is ignored.
func aLogList(in *intruder, s *story) *ownerpb.Message {
	in.say(&ownerpb.Message{Body: &ownerpb.Message_Heartbeat{Heartbeat: &ownerpb.Heartbeat{Nonce: 1, Count: 99}}}, false)
	m := &ownerpb.LogList{Last: s.choose(2) == 0, Nonce: in.aNonce(s)}
	for range pick(s, 1, 0, 3, 512, 513) {
		st := in.aStatement(s)
		m.States = append(m.States, &ownerpb.LogState{Key: in.aKey(s), Branch: st.Branch, Number: st.Number, Head: s.number(), Version: s.number()})
	}
	return &ownerpb.Message{Body: &ownerpb.Message_LogList{LogList: m}}
}

func FuzzWeightRequest(f *testing.F) { fuzz(f, aWeightRequest) }

func aWeightRequest(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_WeightRequest{WeightRequest: &ownerpb.WeightRequest{Key: in.aKey(s)}}}
}

func FuzzWeightReport(f *testing.F) { fuzz(f, aWeightReport) }

func aWeightReport(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_WeightReport{WeightReport: &ownerpb.WeightReport{Key: in.aKey(s), Weight: uint32(s.number())}}}
}

func FuzzRetire(f *testing.F) { fuzz(f, aRetire) }

func aRetire(in *intruder, s *story) *ownerpb.Message {
	st := in.aStatement(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Retire{Retire: &ownerpb.Retire{Key: in.aKey(s), Branch: st.Branch, Number: st.Number}}}
}

func FuzzMerge(f *testing.F) { fuzz(f, aMerge) }

func aMerge(in *intruder, s *story) *ownerpb.Message {
	m := &ownerpb.Merge{Epoch: in.anEpoch(s)}
	m.Head, _ = in.anEntry(s)
	return &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}}
}

func FuzzPull(f *testing.F) { fuzz(f, aPull) }

func aPull(in *intruder, s *story) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_Pull{Pull: &ownerpb.Pull{
		Key: in.aKey(s), Have: make([]byte, pick(s, 0, 32, 33)), Nonce: s.number(),
	}}}
}

func FuzzEntries(f *testing.F) { fuzz(f, anEntries) }

// anEntries comes after a message that made the target pull, if the intruder owns the key.
func anEntries(in *intruder, s *story) *ownerpb.Message {
	if s.choose(2) == 0 {
		entry, _ := in.anEntry(s)
		in.say(&ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: entry}}}, false)
	}
	m := &ownerpb.Entries{
		Key: in.aKey(s), Nonce: in.aNonce(s), Restart: s.choose(2) == 1, More: s.choose(3) == 1, Epoch: in.anEpoch(s),
		Note: make([]byte, pick(s, 0, 1, 6<<10, 6<<10+1)), Version: s.number(),
	}
	for range pick(s, 1, 0, 2, 101, 102) {
		entry, body := in.anEntry(s)
		m.Entries = append(m.Entries, &ownerpb.LogEntry{Entry: entry, Body: body, BodyLost: s.choose(4) == 3})
	}
	return &ownerpb.Message{Body: &ownerpb.Message_Entries{Entries: m}}
}

func FuzzChunkRequest(f *testing.F) { fuzz(f, aChunkRequest) }

func aChunkRequest(in *intruder, s *story) *ownerpb.Message {
	m := &ownerpb.ChunkRequest{Key: in.aKey(s), Hash: make([]byte, pick(s, 32, 0, 33)), Offset: uint32(s.number())}
	if log := in.target().Layers().Owners.Log(in.Key(in.feeds[0])); len(log) > 0 && s.choose(2) == 0 {
		m.Hash = log[0].Hash[:]
	}
	return &ownerpb.Message{Body: &ownerpb.Message_ChunkRequest{ChunkRequest: m}}
}

func FuzzChunk(f *testing.F) { fuzz(f, aChunk) }

func aChunk(in *intruder, s *story) *ownerpb.Message {
	hash := owner.HashOf(nil)
	return &ownerpb.Message{Body: &ownerpb.Message_Chunk{Chunk: &ownerpb.Chunk{
		Key: in.aKey(s), Hash: hash[:pick(s, 32, 0, 31)], Offset: uint32(s.number()), Bytes: make([]byte, pick(s, 0, 1, 48<<10, 48<<10+1)),
	}}}
}
