package feedtree_test

import (
	"cmp"
	"crypto/ed25519"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
	"tidings/overlay/scribe"
	"tidings/sim"
)

// A choices is the input of a fuzzer. Each choice takes a byte; at the end of the input every choice is the first.
type choices []byte

func (s *choices) choose(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func pick[T any](s *choices, of ...T) T { return of[s.choose(len(of))] }

// number mostly returns a number that a programmer may not have thought of.
func (s *choices) number() uint64 {
	return pick[uint64](s, 1, 0, 2, 64, 512, 1<<16, 1<<31, math.MaxUint32, 1<<62, math.MaxUint64)
}

// An intruder is a member that owns all feeds of a small network and leads none. It sends arbitrary messages to one
// of its neighbours and down the trees.
type intruder struct {
	*sim.Swarm
	t      *testing.T
	feeds  []string
	liar   *sim.Peer
	target *sim.Peer
	signer *wire.Signer
}

const intrudedFeeds = 3

func newIntruder(t *testing.T) *intruder {
	in := &intruder{t: t}
	in.Swarm = sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 9, Topology: sim.Uniform(10 * time.Millisecond)}, Network: quickNetwork()})
	in.Grow(5, 100*time.Millisecond)
	in.World.Run(20 * time.Second)
	for i := range intrudedFeeds {
		url := fmt.Sprintf("http://feed%d.example/", i)
		in.feeds = append(in.feeds, url)
		in.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Format: script.Format(i), Every: time.Minute, Limit: 10}))
		for j, p := range in.Peers() {
			if (i+j)%3 > 0 {
				p.SubscribeFeed(url)
			}
		}
	}
	in.World.Run(2 * time.Minute)
	for _, p := range in.Peers() {
		if p.Layers().Owners.Stats().Led == 0 {
			in.liar = p
		} else {
			in.target = p
		}
	}
	in.signer = wire.NewSigner(in.liar.Key(), wire.HashOf(quickNetwork().Descriptor()))
	return in
}

// send delivers a message to the target.
func (in *intruder) send(m *feedtreepb.Message) {
	body := wire.Encode(m)
	in.target.Do(func() {
		before := in.target.Layers().Feeds.Stats().Garbage
		err := in.target.Layers().Feeds.Receive(in.liar.ID(), body)
		if counted := in.target.Layers().Feeds.Stats().Garbage - before; (err != nil) != (counted == 1) {
			in.t.Errorf("%v: %v, counted %d", m, err, counted)
		}
	})
	in.World.Run(50 * time.Millisecond)
}

// publish delivers a message to the target as if it came down a tree.
func (in *intruder) publish(group [32]byte, n *feedtreepb.News) {
	payload := wire.Encode(n)
	in.target.Do(func() { in.target.Layers().Feeds.Deliver(scribe.Delivery{Group: group, Payload: payload}) })
	in.World.Run(50 * time.Millisecond)
}

// checkAfter stops the intruder and checks that readers have all items, and that no node asked an origin because of
// the intruder.
func (in *intruder) checkAfter() {
	in.t.Helper()
	in.liar.Kill(true)
	in.World.Run(16 * time.Minute)
	in.CheckReaders()
	for _, v := range in.Violations() {
		in.t.Error(v)
	}
	if st := in.FeedStats(); st.Unlike > 0 || st.Fetches > 0 {
		in.t.Errorf("%+v", st)
	}
}

// chooseKey mostly returns the key of a feed.
func (in *intruder) chooseKey(s *choices) []byte {
	if s.choose(6) == 5 {
		return make([]byte, pick(s, 32, 0, 31, 33))
	}
	id := in.Key(pick(s, in.feeds[0], in.feeds[1], in.feeds[2], "http://other.example/"))
	return id[:]
}

// chooseBeat returns a heartbeat signed by the intruder, although only a sequencer may sign one.
func (in *intruder) chooseBeat(s *choices) []byte {
	if s.choose(8) == 7 {
		return make([]byte, pick(s, 0, 1, 3<<9, 3<<9+1))
	}
	m := &feedtreepb.BeatStatement{Key: in.chooseKey(s), Head: make([]byte, pick(s, 32, 0, 33)), Number: s.number(), TimeMs: s.number(), State: make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1))}
	if v, ok := in.target.Layers().Owners.View(in.Key(in.feeds[s.choose(intrudedFeeds)])); ok && v.Epoch != nil {
		m.Branch, m.Epoch, m.Seq = pick(s, v.Epoch.Branch, s.number()), pick(s, v.Epoch.Number, v.Epoch.Number+1, uint32(s.number())), s.number()
	}
	return in.signer.Sign(wire.DomainHeartbeat, wire.Encode(m)).Raw
}

// chooseUpdate returns an entry that the target has, or one signed by the intruder.
func (in *intruder) chooseUpdate(s *choices) *feedtreepb.Update {
	log := in.target.Layers().Owners.Log(in.Key(in.feeds[s.choose(intrudedFeeds)]))
	if len(log) == 0 || s.choose(8) == 7 {
		return &feedtreepb.Update{Entry: make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1)), Body: make([]byte, pick(s, 0, 48<<10, 48<<10+1))}
	}
	e := log[len(log)-1-s.choose(min(len(log), 3))]
	u := &feedtreepb.Update{Entry: e.Raw(), Body: make([]byte, pick(s, 0, 1, 48<<10))}
	if s.choose(3) > 0 {
		u.Entry = in.signer.Sign(wire.DomainEntry, wire.Encode(&ownerpb.EntryStatement{
			Key: e.Key[:], Prev: e.Hash[:], TimeMs: uint64(e.Time.UnixMilli()), Body: make([]byte, 32), Set: make([]byte, 32), Size: 1, Items: 1,
			Position: &ownerpb.Position{Branch: e.At.Branch, Epoch: pick(s, e.At.Epoch, e.At.Epoch+1, uint32(s.number())), Seq: pick(s, e.At.Seq+1, s.number())},
		})).Raw
	}
	if v, ok := in.target.Layers().Owners.View(e.Key); ok && v.Epoch != nil && s.choose(2) == 1 {
		u.Epoch = v.Epoch.Bytes()[:pick(s, len(v.Epoch.Bytes()), 0, 1, 40)]
	}
	return u
}

// An attack sends the target a message of one kind.
type attack func(in *intruder, s *choices)

var attacks = []attack{sendDigest, sendDigestAck, sendHeads, sendHeadsReply, sendBeats, sendUpdate, sendBeat, sendPush, sendPushReply, sendContent, sendWitnessRequest, sendWitnessReply, sendObjection, sendSightRequest, sendSight, sendAudit, sendContest}

// runAttacks sends a member the messages that the input describes.
func runAttacks(t *testing.T, b []byte, kinds ...attack) {
	s := choices(b)
	in := newIntruder(t)
	for range 1 + s.choose(8) {
		kinds[s.choose(len(kinds))](in, &s)
	}
	in.checkAfter()
}

var storiesFlag = flag.Int("stories", 0, "how many stories the members of a small world are told of each kind; 0: as many as the tier has")

// Feeds survive messages of every kind with arbitrary contents, for each kind alone and for all together.
func TestFeedsSurviveArbitraryMessages(t *testing.T) {
	t.Parallel()
	for i := range cmp.Or(*storiesFlag, longtest.Pick(1, 2)) {
		b := make([]byte, 400)
		rng := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		_, _ = rng.Read(b)
		for j, k := range append(slices.Clone(attacks), nil) {
			these := attacks
			if k != nil {
				these = []attack{k}
			}
			if runAttacks(t, b, these...); t.Failed() {
				t.Fatalf("input %d, kind %d", i, j)
			}
		}
	}
}

func fuzz(f *testing.F, a attack) {
	f.Add([]byte("\x02\x05\x00\x01the quick brown fox jumps over the lazy dog and says so to everybody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 4<<10 {
			runAttacks(t, b, a)
		}
	})
}

func FuzzDigest(f *testing.F) { fuzz(f, sendDigest) }

func sendDigest(in *intruder, s *choices) {
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Digest{Digest: &feedtreepb.Digest{Nonce: s.number(), Count: uint32(s.number()), Digest: s.number()}}})
}

func FuzzDigestAck(f *testing.F) { fuzz(f, sendDigestAck) }

func sendDigestAck(in *intruder, s *choices) {
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_DigestAck{DigestAck: &feedtreepb.DigestAck{
		Nonce: pick(s, s.number(), in.target.Layers().Feeds.Stats().Digests), Match: s.choose(2) == 1,
	}}})
}

func FuzzHeads(f *testing.F) { fuzz(f, sendHeads) }

func sendHeads(in *intruder, s *choices) {
	m := &feedtreepb.Heads{}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Heads = append(m.Heads, &feedtreepb.Head{Key: in.chooseKey(s), Head: s.number()})
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: m}})
}

func FuzzHeadsReply(f *testing.F) { fuzz(f, sendHeadsReply) }

func sendHeadsReply(in *intruder, s *choices) {
	m := &feedtreepb.HeadsReply{}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Different = append(m.Different, in.chooseKey(s))
	}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Unknown = append(m.Unknown, in.chooseKey(s))
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_HeadsReply{HeadsReply: m}})
}

func FuzzBeats(f *testing.F) { fuzz(f, sendBeats) }

func sendBeats(in *intruder, s *choices) {
	m := &feedtreepb.Beats{}
	for range pick(s, 1, 0, 3, 64, 65) {
		m.Beats = append(m.Beats, in.chooseBeat(s))
	}
	for range pick(s, 0, 1, 16, 17) {
		p, err := difference.Publish(in.liar.Key(), pick(s, in.feeds[0], "http://other.example/"), s.number(), feed.Hash{1}, in.Now(), nil)
		if err != nil {
			continue
		}
		m.Statements = append(m.Statements, p.Raw[:pick(s, len(p.Raw), len(p.Raw)-1)])
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: m}})
}

func FuzzUpdate(f *testing.F) { fuzz(f, sendUpdate) }

func sendUpdate(in *intruder, s *choices) {
	in.publish(in.Key(in.feeds[s.choose(intrudedFeeds)]), &feedtreepb.News{News: &feedtreepb.News_Update{Update: in.chooseUpdate(s)}})
}

func FuzzBeat(f *testing.F) { fuzz(f, sendBeat) }

func sendBeat(in *intruder, s *choices) {
	in.publish(in.Key(in.feeds[s.choose(intrudedFeeds)]), &feedtreepb.News{News: &feedtreepb.News_Beat{Beat: in.chooseBeat(s)}})
}

func FuzzPush(f *testing.F) { fuzz(f, sendPush) }

// sendPush sends a publication of a publisher that no origin names.
func sendPush(in *intruder, s *choices) {
	m := &feedtreepb.Push{Publication: make([]byte, pick(s, 0, 1, difference.MaxEnvelope, difference.MaxEnvelope+1))}
	if s.choose(6) < 5 {
		var prev feed.Hash
		prev[0] = byte(s.choose(3))
		it := pick(s, newItem(in.t, "strange"), nil)
		seq := s.number()
		if it != nil {
			seq = max(seq, 1)
		}
		p, err := difference.Publish(in.liar.Key(), pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), seq, prev, in.Now().Add(time.Duration(s.number()%1e9)*time.Millisecond), it)
		if err != nil {
			in.t.Fatal(err)
		}
		m.Publication = p.Raw[:pick(s, len(p.Raw), len(p.Raw)-1, 40)]
	}
	m.Record = pick(s, nil, in.liar.Layers().Overlay.Self().Raw, []byte{1})
	if s.choose(2) == 1 {
		in.target.Do(func() {
			in.target.Layers().Feeds.Route(wire.Encode(&feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}}))
		})
		return
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}})
}

func FuzzPushReply(f *testing.F) { fuzz(f, sendPushReply) }

func sendPushReply(in *intruder, s *choices) {
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_PushReply{PushReply: &feedtreepb.PushReply{
		Hash: make([]byte, pick(s, 32, 0, 31, 33)), Verdict: feedtreepb.PushReply_Verdict(int32(s.number())), Pubseq: s.number(), Reason: strings.Repeat("w", pick(s, 0, 1, 256, 257)),
	}}})
}

func FuzzContent(f *testing.F) { fuzz(f, sendContent) }

// sendContent sends parts of items that nobody waits for, and requests those that nobody pushes.
func sendContent(in *intruder, s *choices) {
	hash, offset := make([]byte, pick(s, 32, 0, 31, 33)), uint32(s.number())
	if s.choose(2) == 1 {
		in.send(&feedtreepb.Message{Body: &feedtreepb.Message_ContentRequest{ContentRequest: &feedtreepb.ContentRequest{Hash: hash, Offset: offset}}})
		return
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Content{Content: &feedtreepb.Content{Hash: hash, Offset: offset, Bytes: make([]byte, pick(s, 1, 0, 48<<10, 48<<10+1))}}})
}

func FuzzWitnessRequest(f *testing.F) { fuzz(f, sendWitnessRequest) }

// sendWitnessRequest sends a request that only a sequencer may make.
func sendWitnessRequest(in *intruder, s *choices) {
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_WitnessRequest{WitnessRequest: &feedtreepb.WitnessRequest{Key: in.chooseKey(s), Publisher: make([]byte, pick(s, 32, 0, 31, 33))}}})
}

func FuzzObjection(f *testing.F) { fuzz(f, sendObjection) }

// sendObjection objects to the key of feeds that have none, to an owner or down a tree.
func sendObjection(in *intruder, s *choices) {
	raw := make([]byte, pick(s, 0, 1, 3<<9, 3<<9+1))
	if s.choose(4) < 3 {
		key := in.liar.Key().Public().(ed25519.PublicKey)
		at := in.Now().Add(pick(s, 0, -time.Hour, time.Hour, -100*365*24*time.Hour))
		raw = difference.Attest(in.signer, pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), key[:pick(s, 32, 0, 31)], at).Raw
		raw = raw[:pick(s, len(raw), len(raw)-1)]
	}
	if s.choose(2) == 1 {
		in.publish(in.Key(in.feeds[s.choose(intrudedFeeds)]), &feedtreepb.News{News: &feedtreepb.News_Objection{Objection: raw}})
		return
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Objection{Objection: &feedtreepb.Objection{Witness: raw}}})
}

func FuzzWitnessReply(f *testing.F) { fuzz(f, sendWitnessReply) }

func sendWitnessReply(in *intruder, s *choices) {
	m := &feedtreepb.WitnessReply{Witness: make([]byte, pick(s, 0, 1, 3<<9, 3<<9+1))}
	if s.choose(4) < 3 {
		key := in.liar.Key().Public().(ed25519.PublicKey)
		w := difference.Attest(in.signer, pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), key[:pick(s, 32, 0, 31)], in.Now())
		m.Witness = w.Raw[:pick(s, len(w.Raw), len(w.Raw)-1)]
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_WitnessReply{WitnessReply: m}})
}

func FuzzSightRequest(f *testing.F) { fuzz(f, sendSightRequest) }

// sendSightRequest sends a request that only a sequencer may make.
func sendSightRequest(in *intruder, s *choices) {
	m := &feedtreepb.SightRequest{Key: in.chooseKey(s), Look: s.choose(2) == 1}
	for range pick(s, 1, 0, difference.MaxSeen, difference.MaxSeen+1) {
		m.Items = append(m.Items, make([]byte, pick(s, 64, 0, 63, 65)))
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_SightRequest{SightRequest: m}})
}

func FuzzSight(f *testing.F) { fuzz(f, sendSight) }

// sendSight sends a sighting that nobody has asked for, of items that do not exist. The intruder is an owner.
func sendSight(in *intruder, s *choices) {
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Sight{Sight: &feedtreepb.Sight{Sighting: in.chooseSighting(s)}}})
}

func (in *intruder) chooseSighting(s *choices) []byte {
	raw := make([]byte, pick(s, 0, 1, difference.MaxSighting, difference.MaxSighting+1))
	if s.choose(4) < 3 {
		at := in.Now().Add(pick(s, 0, -time.Hour, time.Hour, -100*365*24*time.Hour))
		seen := make([]difference.Version, pick(s, 1, 0, difference.MaxSeen, difference.MaxSeen+1))
		raw = difference.See(in.signer, pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), seen, at, make([]difference.Version, pick(s, 0, 1, difference.MaxSeen))...).Raw
		raw = raw[:pick(s, len(raw), len(raw)-1)]
	}
	return raw
}

func FuzzContest(f *testing.F) { fuzz(f, sendContest) }

// sendContest tells of a contest of items that do not exist.
func sendContest(in *intruder, s *choices) {
	m := &feedtreepb.Contest{Key: in.chooseKey(s)}
	for range pick(s, 1, 0, 3, difference.MaxSightings+1) {
		m.Sightings = append(m.Sightings, in.chooseSighting(s))
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Contest{Contest: m}})
}

func FuzzAudit(f *testing.F) { fuzz(f, sendAudit) }

// sendAudit reports a problem that does not exist.
func sendAudit(in *intruder, s *choices) {
	raw := make([]byte, pick(s, 0, 1, difference.MaxSighting, difference.MaxSighting+1))
	if s.choose(4) < 3 {
		at := in.Now().Add(pick(s, 0, -time.Hour, time.Hour, -100*365*24*time.Hour))
		seen := make([]difference.Version, pick(s, 1, 0))
		raw = difference.See(in.signer, pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), seen, at, make([]difference.Version, pick(s, 0, 1, difference.MaxSeen))...).Raw
		raw = raw[:pick(s, len(raw), len(raw)-1)]
	}
	in.send(&feedtreepb.Message{Body: &feedtreepb.Message_Audit{Audit: &feedtreepb.Audit{Sighting: raw}}})
}

// mergePause is longer than the pause after a heartbeat in which a merge makes none.
const mergePause = 6 * time.Second

// A follower of a branch that has ended may learn of the other branch only by a heartbeat. It then asks nodes that
// it knows. A heartbeat of an invented branch costs it only these requests.
func TestAHeartbeatOfAnotherBranchStartsARepair(t *testing.T) {
	in, asked := newIntruder(t), 0
	for _, url := range in.feeds {
		key := in.Key(url)
		leads := leader(t, in.Swarm, url)
		for _, p := range in.Peers() {
			if v, ok := p.Layers().Owners.View(key); p == leads || !ok || !v.Follows {
				continue
			}
			in.target = p
			v, _ := p.Layers().Owners.View(key)
			before := p.Layers().Feeds.Stats()
			beat := in.signer.Sign(wire.DomainHeartbeat, wire.Encode(&feedtreepb.BeatStatement{
				Key: key[:], Branch: v.Epoch.Branch + 1, Epoch: 1, Head: make([]byte, 32),
				Number: uint64(in.Now().UnixMilli()), TimeMs: uint64(in.Now().UnixMilli()), State: []byte("made up"),
			}))
			in.publish(key, &feedtreepb.News{News: &feedtreepb.News_Beat{Beat: beat.Raw}})
			if after := p.Layers().Feeds.Stats(); after.Gaps != before.Gaps+1 {
				t.Errorf("host %d started %d repairs", p.Index(), after.Gaps-before.Gaps)
			}
			asked++
		}
		// The heartbeat after a merge reaches all readers.
		in.World.Run(time.Minute)
		beats := uint64(0)
		for beats != leads.Layers().Feeds.Stats().Beats { // until none has just been made
			beats = leads.Layers().Feeds.Stats().Beats
			in.World.Run(mergePause)
		}
		for range 3 {
			leads.Do(func() { leads.Layers().Feeds.BranchMerged(key) })
		}
		if made := leads.Layers().Feeds.Stats().Beats - beats; made != 1 {
			t.Errorf("%d heartbeats after merges", made)
		}
	}
	if asked < 5 {
		t.Fatalf("only %d followers", asked)
	}
	in.checkAfter()
}
