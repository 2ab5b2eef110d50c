package sim

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra/firehose"
	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/longtest"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
)

// firehoseSwarm is a swarm some of whose members are filters, with readers of some feeds.
func firehoseSwarm(t *testing.T, seed uint64, c Config, members, filters, channels int) *Swarm {
	t.Helper()
	s := feedSwarm(seed, c)
	tune := s.config.Tune
	s.config.Tune = func(c *node.Config) {
		if tune != nil {
			tune(c)
		}
		c.Firehose.Shards = firehose.DefaultShards
	}
	s.Grow(members, 100*time.Millisecond)
	for i := range filters {
		s.Peers()[i*members/filters].MakeFilter()
	}
	s.World.Run(30 * time.Second)
	rng := rand.New(rand.NewPCG(seed, 5))
	for _, url := range s.serveFeeds(channels, 5*time.Minute, 12) {
		for range 1 + rng.IntN(4) {
			s.Peers()[rng.IntN(members)].SubscribeFeed(url)
		}
	}
	s.World.Run(2 * time.Minute)
	return s
}

func checkFilters(t *testing.T, s *Swarm, since, until time.Time, limit time.Duration) FilterStats {
	t.Helper()
	st := s.CheckFilters(since, until)
	slices.Sort(st.Delays)
	for i, v := range s.Violations() {
		if i < 20 {
			t.Error(v)
		}
	}
	if st.Filters == 0 || st.Expected == 0 || st.Delivered < st.Expected {
		t.Errorf("%d filters got %d of %d", st.Filters, st.Delivered, st.Expected)
	}
	if n := len(st.Delays); n > 0 {
		t.Logf("%d filters, %d of %d, %d again; p50 %v, p99 %v, most %v", st.Filters, st.Delivered, st.Expected, st.Repeated, st.Delays[n/2], st.Delays[n*99/100], st.Delays[n-1])
		if st.Delays[n-1] > limit {
			t.Errorf("the slowest entry took %v, want at most %v", st.Delays[n-1], limit)
		}
	}
	t.Logf("%+v", st.Firehose)
	return st
}

// "Each new article must reach every filter": in a healthy network, by the topic alone.
func TestFiltersGetEveryEntry(t *testing.T) {
	seeds(t, 1, 1, func(t *testing.T, seed uint64) {
		s := firehoseSwarm(t, seed, Config{}, longtest.Pick(24, 48), 6, longtest.Pick(15, 40))
		since := s.Now()
		s.World.Run(20 * time.Minute)
		until := s.Now()
		s.World.Run(2 * time.Minute)
		checkFilters(t, s, since, until, 5*time.Second)
	})
}

// The same in the world of TestFeedsWithCrashes: 1 % loss and a crash every minute, silent or not.
func TestFiltersWithFaults(t *testing.T) {
	seeds(t, 1, 1, func(t *testing.T, seed uint64) {
		const filters = 6
		members := longtest.Pick(24, 64)
		s := firehoseSwarm(t, seed, Config{NetworkFaults: NetworkFaults{Loss: 0.01}}, members, filters, longtest.Pick(15, 60))
		rng := rand.New(rand.NewPCG(seed, 6))
		since := s.Now()
		for range longtest.Pick(15, 25) {
			p := s.Peers()[rng.IntN(members)]
			if p.Up() && p.filterState == nil {
				p.Kill(rng.IntN(2) == 0)
				s.After(time.Duration(rng.IntN(120))*time.Second, p.Start)
			}
			s.World.Run(time.Minute)
		}
		until := s.Now()
		s.World.Run(3 * time.Minute)
		checkFilters(t, s, since, until, time.Minute)
	})
}

// A filter that was away for a while gets what it missed through the owners' digests.
func TestAFilterThatWasAway(t *testing.T) {
	seeds(t, 1, 1, func(t *testing.T, seed uint64) {
		const filters = 4
		members := longtest.Pick(24, 48)
		s := firehoseSwarm(t, seed, Config{}, members, filters, longtest.Pick(15, 40))
		since := s.Now()
		s.World.Run(time.Minute)
		away := s.Peers()[members/filters] // not the founder
		s.Partition([]*Host{away.Host})
		s.World.Run(20 * time.Minute)
		s.Heal()
		until := s.Now()
		s.World.Run(12 * time.Minute)
		st := checkFilters(t, s, since, until, 25*time.Minute)
		// The isolated filter has given up the shards that it owned there.
		if want := firehose.DefaultShards * 5; st.Firehose.Served != want {
			t.Errorf("shards have %d owners in all, want %d", st.Firehose.Served, want)
		}
	})
}

// A filter misses nothing after the first answer of an owner, even if it is killed before a digest
// reaches it. Filters used to lose the articles of the seconds before a restart.
func TestAYoungFilterThatIsKilledMissesNothing(t *testing.T) {
	t.Parallel()
	s := firehoseSwarm(t, 1, Config{}, 24, 2, 40)
	s.World.Run(70 * time.Second) // the owners have just sent digests
	young := s.Add(true, s.Peers()[0])
	young.MakeFilter()
	young.Start()
	s.World.Run(15 * time.Second) // it listens; the next digests come ten seconds later
	since := s.Now()
	young.Kill(true)
	s.World.Run(3 * time.Minute)
	young.Start()
	young.startedAt = since // it must also get what came while it was dead
	s.World.Run(2 * time.Minute)
	until := s.Now()
	s.World.Run(3 * time.Minute)
	checkFilters(t, s, since, until, 5*time.Minute)
}

// "Only current shard owners are believed": a broadcast that another node signs is ignored, even if
// that node is a member of the topic. Owners do not pass on reports from nodes that are not the
// channel's sequencer.
func TestOnlyOwnersOfAShardAreBelieved(t *testing.T) {
	t.Parallel()
	s := firehoseSwarm(t, 1, Config{}, 48, 4, 10)
	s.World.Run(6 * time.Minute)
	liar := s.Peers()[24] // also a filter
	late := s.Add(true, s.Peers()[0])
	late.MakeFilter()
	late.Start()
	s.World.Run(3 * time.Minute)

	e, owner := s.entryBefore(late)
	if e == nil {
		t.Fatal("there is no entry that the late filter lacks")
	}
	v, _ := owner.node.Owners.View(e.Key)
	var body []byte
	owner.Do(func() { owner.node.Owners.Body(e, func(b []byte) { body = b }) })
	s.World.Run(time.Second)
	dispatch := wire.Encode(&firehosepb.Dispatch{Url: v.URL, Entry: e.Raw(), Body: body})
	shard := int(e.Key[0]) * firehose.DefaultShards / 256
	payload := wire.Encode(&firehosepb.Broadcast{Shard: uint32(shard), TimeMs: uint64(s.Now().UnixMilli()), Dispatch: dispatch})
	before := late.node.Firehose.Stats()
	liar.sendTopicFrame(fmt.Sprintf("shard/%d", shard), wire.NewSigner(liar.Key(), s.hash).Sign(wire.DomainShard, payload).Raw, []*Host{late.Host})
	s.World.Run(10 * time.Second)
	if after := late.node.Firehose.Stats(); after.Strange == before.Strange {
		t.Error("the liar's broadcast was not refused")
	}

	// The liar makes up an entry of a channel that it does not lead, with the epoch of another
	// channel.
	const url = "http://made.up.example/"
	key, content := s.Key(url), []byte("made up")
	hash := sha256.Sum256(content)
	statement := wire.Encode(&ownerpb.EntryStatement{
		Key: key[:], Position: &ownerpb.Position{Branch: 1, Epoch: 1, Seq: 1}, TimeMs: uint64(s.Now().UnixMilli()),
		Body: hash[:], Size: uint32(len(content)), Items: 1, Set: hash[:],
	})
	raw := wire.NewSigner(liar.Key(), s.hash).Sign(wire.DomainEntry, statement).Raw
	dispatch = wire.Encode(&firehosepb.Dispatch{Url: url, Entry: raw, Body: content})
	report := wire.Encode(&firehosepb.Report{Dispatch: dispatch, Epoch: v.Epoch.Bytes()})
	shard = int(key[0]) * firehose.DefaultShards / 256
	sum := sha256.Sum256(report)
	part := wire.AppendFrame(nil, wire.Cobra, &firehosepb.Message{Body: &firehosepb.Message_Part{Part: &firehosepb.Part{
		Shard: uint32(shard), Report: sum[:], Size: uint32(len(report)), Bytes: report,
	}}})
	forged := uint64(0)
	for _, p := range s.Live() {
		if sv, ok := p.node.Owners.View(overlay.Key("sim", overlay.ShardURL(shard))); !ok || !sv.Owns || p == liar {
			continue
		}
		was := p.node.Firehose.Stats()
		kept := was.Kept
		p.Do(func() { _ = p.node.Receive(liar.ID(), part) })
		now := p.node.Firehose.Stats()
		if forged += now.Forged - was.Forged; now.Kept > kept {
			t.Error("an owner accepted the liar's report")
		}
	}
	s.World.Run(10 * time.Second)
	if late.filterState.entries[e.Hash] {
		t.Error("the filter has the liar's entry")
	}
	if forged == 0 {
		t.Error("no owner counted a forged report")
	}
}

// entryBefore returns an entry of a member's log that a filter does not have.
func (s *Swarm) entryBefore(f *Peer) (*owner.Entry, *Peer) {
	for _, p := range s.Live() {
		for _, url := range s.feeds.urls {
			for _, e := range p.node.Owners.Log(s.Key(url)) {
				if v, ok := p.node.Owners.View(e.Key); ok && v.Owns && !f.filterState.entries[e.Hash] {
					return e, p
				}
			}
		}
	}
	return nil, nil
}

// An entry that is too large for a topic is announced there, and fetched in pieces.
func TestLargeEntriesAreAskedFor(t *testing.T) {
	t.Parallel()
	s := firehoseSwarm(t, 2, Config{NetworkFaults: NetworkFaults{Loss: 0.01}}, 24, 3, 1)
	rng := rand.New(rand.NewPCG(1, 7))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 !#$%()*+,-./:;=?@[]^_{|}~"
	noise := make([]byte, 250<<10) // barely compressible
	for i := range noise {
		noise[i] = letters[rng.IntN(len(letters))]
	}
	document := func(items ...string) script.Snapshot {
		return script.Snapshot{
			Body: []byte(`<rss version="2.0"><channel><title>Large</title><link>http://large.example/</link><description>-</description>` +
				strings.Join(items, "") + `</channel></rss>`),
			ContentType: "application/rss+xml", Hold: 4 * time.Minute,
		}
	}
	small := `<item><guid>small</guid><title>Small</title><description>A few words.</description></item>`
	large := `<item><guid>large</guid><title>Large</title><description>` + string(noise) + `</description></item>`
	const url = "http://large.example/feed"
	s.Serve(url, script.NewReplay([]script.Snapshot{document(small), document(large, small)}))
	s.Peers()[5].SubscribeFeed(url)
	since := s.Now()
	s.World.Run(7 * time.Minute)
	st := checkFilters(t, s, since, s.Now().Add(-time.Minute), time.Minute)
	if st.Firehose.Lacked < 3 {
		t.Errorf("filters asked %d times, so the large entry was sent on a topic", st.Firehose.Lacked)
	}
	for _, p := range s.Peers() {
		if p.filterState != nil && len(p.filterState.items) == 0 {
			t.Error("a filter got nothing")
		}
	}
}
