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

	"google.golang.org/protobuf/proto"

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

// A story is what a fuzzer makes up: each choice takes a byte of it, and when it
// is told every choice is the first.
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

// number is mostly one that somebody did not think of.
func (s *choices) number() uint64 {
	return pick[uint64](s, 1, 0, 2, 64, 512, 1<<16, 1<<31, math.MaxUint32, 1<<62, math.MaxUint64)
}

// An intruder is a member that owns all feeds of a small world and leads none,
// and says what it likes, to one of its neighbours and down the trees.
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
				p.Read(url)
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

// say says a message to the target.
func (in *intruder) say(m *feedtreepb.Message) {
	body := in.encoded(m)
	in.target.Do(func() {
		before := in.target.Layers().Feeds.Stats().Garbage
		err := in.target.Layers().Feeds.Receive(in.liar.ID(), body)
		if counted := in.target.Layers().Feeds.Stats().Garbage - before; (err != nil) != (counted == 1) {
			in.t.Errorf("%v: %v, counted %d", m, err, counted)
		}
	})
	in.World.Run(50 * time.Millisecond)
}

// publish brings news to the target as if they came down a tree.
func (in *intruder) publish(group [32]byte, n *feedtreepb.News) {
	payload := in.encoded(n)
	in.target.Do(func() { in.target.Layers().Feeds.Deliver(scribe.Delivery{Group: group, Payload: payload}) })
	in.World.Run(50 * time.Millisecond)
}

func (in *intruder) encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		in.t.Fatal(err)
	}
	return b
}

// endures checks that when the intruder is gone readers have all that came, and
// that nobody asked an origin because of it.
func (in *intruder) checkAfter() {
	in.t.Helper()
	in.liar.Kill(true)
	in.World.Run(16 * time.Minute)
	in.CheckReaders()
	for _, v := range in.Wrong() {
		in.t.Error(v)
	}
	if st := in.FeedStats(); st.Unlike > 0 || st.Fetches > 0 {
		in.t.Errorf("%+v", st)
	}
}

// aKey is mostly that of a feed.
func (in *intruder) aKey(s *choices) []byte {
	if s.choose(6) == 5 {
		return make([]byte, pick(s, 32, 0, 31, 33))
	}
	id := in.Key(pick(s, in.feeds[0], in.feeds[1], in.feeds[2], "http://other.example/"))
	return id[:]
}

// aBeatOf is a heartbeat that the intruder signs: only a sequencer may.
func (in *intruder) aBeatOf(s *choices) []byte {
	if s.choose(8) == 7 {
		return make([]byte, pick(s, 0, 1, 3<<9, 3<<9+1))
	}
	m := &feedtreepb.BeatStatement{Key: in.aKey(s), Head: make([]byte, pick(s, 32, 0, 33)), Number: s.number(), TimeMs: s.number(), State: make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1))}
	if v, ok := in.target.Layers().Owners.View(in.Key(in.feeds[s.choose(intrudedFeeds)])); ok && v.Epoch != nil {
		m.Branch, m.Epoch, m.Seq = pick(s, v.Epoch.Branch, s.number()), pick(s, v.Epoch.Number, v.Epoch.Number+1, uint32(s.number())), s.number()
	}
	return in.signer.Sign(wire.DomainBeat, in.encoded(m)).Raw
}

// anUpdateOf is an entry that the target has, or one of the intruder's.
func (in *intruder) anUpdateOf(s *choices) *feedtreepb.Update {
	log := in.target.Layers().Owners.Log(in.Key(in.feeds[s.choose(intrudedFeeds)]))
	if len(log) == 0 || s.choose(8) == 7 {
		return &feedtreepb.Update{Entry: make([]byte, pick(s, 0, 1, 1<<10, 1<<10+1)), Body: make([]byte, pick(s, 0, 48<<10, 48<<10+1))}
	}
	e := log[len(log)-1-s.choose(min(len(log), 3))]
	u := &feedtreepb.Update{Entry: e.Raw, Body: make([]byte, pick(s, 0, 1, 48<<10))}
	if s.choose(3) > 0 {
		u.Entry = in.signer.Sign(wire.DomainEntry, in.encoded(&ownerpb.EntryStatement{
			Key: e.Key[:], Prev: e.Hash[:], TimeMs: uint64(e.Time.UnixMilli()), Body: make([]byte, 32), Set: make([]byte, 32), Size: 1, Items: 1,
			Position: &ownerpb.Position{Branch: e.At.Branch, Epoch: pick(s, e.At.Epoch, e.At.Epoch+1, uint32(s.number())), Seq: pick(s, e.At.Seq+1, s.number())},
		})).Raw
	}
	if v, ok := in.target.Layers().Owners.View(e.Key); ok && v.Epoch != nil && s.choose(2) == 1 {
		u.Epoch = v.Epoch.Bytes()[:pick(s, len(v.Epoch.Bytes()), 0, 1, 40)]
	}
	return u
}

// A kind tells the target something of one kind.
type attack func(in *intruder, s *choices)

var attacks = []attack{aDigest, aDigestAck, someHeads, aBehind, someBeats, anUpdate, aBeat, aPush, aPushed, aLook, aLooked, anObjection}

// tell tells a member a story.
func runAttacks(t *testing.T, b []byte, kinds ...attack) {
	s := choices(b)
	in := newIntruder(t)
	for range 1 + s.choose(8) {
		kinds[s.choose(len(kinds))](in, &s)
	}
	in.checkAfter()
}

var storiesFlag = flag.Int("stories", 0, "how many stories the members of a small world are told of each kind; 0: as many as the tier has")

// Feeds endure messages of every kind with the strangest of contents, each kind
// alone and all together.
func TestFeedsEndureAnyStory(t *testing.T) {
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
				t.Fatalf("story %d of kind %d", i, j)
			}
		}
	}
}

func fuzz(f *testing.F, k attack) {
	f.Add([]byte("\x02\x05\x00\x01the quick brown fox jumps over the lazy dog and says so to everybody"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) <= 4<<10 {
			runAttacks(t, b, k)
		}
	})
}

func FuzzDigest(f *testing.F) { fuzz(f, aDigest) }

func aDigest(in *intruder, s *choices) {
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_Digest{Digest: &feedtreepb.Digest{Nonce: s.number(), Count: uint32(s.number()), Digest: s.number()}}})
}

func FuzzDigestAck(f *testing.F) { fuzz(f, aDigestAck) }

func aDigestAck(in *intruder, s *choices) {
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_DigestAck{DigestAck: &feedtreepb.DigestAck{
		Nonce: pick(s, s.number(), in.target.Layers().Feeds.Stats().Digests), Match: s.choose(2) == 1,
	}}})
}

func FuzzHeads(f *testing.F) { fuzz(f, someHeads) }

func someHeads(in *intruder, s *choices) {
	m := &feedtreepb.Heads{}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Heads = append(m.Heads, &feedtreepb.Head{Key: in.aKey(s), Head: s.number()})
	}
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: m}})
}

func FuzzBehind(f *testing.F) { fuzz(f, aBehind) }

func aBehind(in *intruder, s *choices) {
	m := &feedtreepb.HeadsReply{}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Different = append(m.Different, in.aKey(s))
	}
	for range pick(s, 1, 0, 3, 512, 513) {
		m.Unknown = append(m.Unknown, in.aKey(s))
	}
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_HeadsReply{HeadsReply: m}})
}

func FuzzBeats(f *testing.F) { fuzz(f, someBeats) }

func someBeats(in *intruder, s *choices) {
	m := &feedtreepb.Beats{}
	for range pick(s, 1, 0, 3, 64, 65) {
		m.Beats = append(m.Beats, in.aBeatOf(s))
	}
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: m}})
}

func FuzzUpdate(f *testing.F) { fuzz(f, anUpdate) }

func anUpdate(in *intruder, s *choices) {
	in.publish(in.Key(in.feeds[s.choose(intrudedFeeds)]), &feedtreepb.News{News: &feedtreepb.News_Update{Update: in.anUpdateOf(s)}})
}

func FuzzBeat(f *testing.F) { fuzz(f, aBeat) }

func aBeat(in *intruder, s *choices) {
	in.publish(in.Key(in.feeds[s.choose(intrudedFeeds)]), &feedtreepb.News{News: &feedtreepb.News_Beat{Beat: in.aBeatOf(s)}})
}

func FuzzPush(f *testing.F) { fuzz(f, aPush) }

// aPush is of a publisher whom no origin names.
func aPush(in *intruder, s *choices) {
	m := &feedtreepb.Push{Publication: make([]byte, pick(s, 0, 1, difference.MaxPublication, difference.MaxPublication+1))}
	if s.choose(6) < 5 {
		var prev feed.Hash
		prev[0] = byte(s.choose(3))
		it := pick(s, anItem(in.t, "strange"), nil)
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
			in.target.Layers().Feeds.Route(in.encoded(&feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}}))
		})
		return
	}
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}})
}

func FuzzPushed(f *testing.F) { fuzz(f, aPushed) }

func aPushed(in *intruder, s *choices) {
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_PushReply{PushReply: &feedtreepb.PushReply{
		Hash: make([]byte, pick(s, 32, 0, 31, 33)), Verdict: feedtreepb.PushReply_Verdict(int32(s.number())), Pubseq: s.number(), Reason: strings.Repeat("w", pick(s, 0, 1, 256, 257)),
	}}})
}

func FuzzLook(f *testing.F) { fuzz(f, aLook) }

// aLook is a sequencer's question, and the intruder is none.
func aLook(in *intruder, s *choices) {
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_WitnessRequest{WitnessRequest: &feedtreepb.WitnessRequest{Key: in.aKey(s), Publisher: make([]byte, pick(s, 32, 0, 31, 33))}}})
}

func FuzzObjection(f *testing.F) { fuzz(f, anObjection) }

// anObjection is to a key that the feeds, which have none, do not have; to an owner or down a tree.
func anObjection(in *intruder, s *choices) {
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
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_Objection{Objection: &feedtreepb.Objection{Witness: raw}}})
}

func FuzzLooked(f *testing.F) { fuzz(f, aLooked) }

func aLooked(in *intruder, s *choices) {
	m := &feedtreepb.WitnessReply{Witness: make([]byte, pick(s, 0, 1, 3<<9, 3<<9+1))}
	if s.choose(4) < 3 {
		key := in.liar.Key().Public().(ed25519.PublicKey)
		w := difference.Attest(in.signer, pick(s, in.feeds[0], in.feeds[1], "http://other.example/"), key[:pick(s, 32, 0, 31)], in.Now())
		m.Witness = w.Raw[:pick(s, len(w.Raw), len(w.Raw)-1)]
	}
	in.say(&feedtreepb.Message{Body: &feedtreepb.Message_WitnessReply{WitnessReply: m}})
}

// Who follows a line of a log that has ended hears of the other one by a heartbeat of it, if
// nothing else comes: it asks, and believes whom it knows. A made-up line costs it questions.
func TestAHeartbeatOfAnotherLineIsAReasonToAsk(t *testing.T) {
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
			beat := in.signer.Sign(wire.DomainBeat, in.encoded(&feedtreepb.BeatStatement{
				Key: key[:], Branch: v.Epoch.Branch + 1, Epoch: 1, Head: make([]byte, 32),
				Number: uint64(in.Now().UnixMilli()), TimeMs: uint64(in.Now().UnixMilli()), State: []byte("made up"),
			}))
			in.publish(key, &feedtreepb.News{News: &feedtreepb.News_Beat{Beat: beat.Raw}})
			if after := p.Layers().Feeds.Stats(); after.Gaps != before.Gaps+1 {
				t.Errorf("host %d asked %d times", p.Index(), after.Gaps-before.Gaps)
			}
			asked++
		}
		// The heartbeat of whoever another line has ended in comes to all readers.
		in.World.Run(time.Minute)
		beats := leads.Layers().Feeds.Stats().Beats
		for range 3 {
			leads.Do(func() { leads.Layers().Feeds.BranchMerged(key) })
		}
		if made := leads.Layers().Feeds.Stats().Beats - beats; made != 1 {
			t.Errorf("%d heartbeats of a merge", made)
		}
	}
	if asked < 5 {
		t.Fatalf("only %d follow", asked)
	}
	in.checkAfter()
}
