package sim

import (
	"fmt"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
)

// An outage is a network of three members with clients, all of which read two feeds, just before
// something fails.
type outage struct {
	*Swarm
	members, clients []*Peer
	urls             []string
	originsDown      bool // no origin can be reached
}

// outageInterval is the network's polling interval.
const outageInterval = 5 * time.Minute

func newOutage(t *testing.T, seed uint64, clients int) *outage {
	t.Helper()
	o := &outage{}
	o.Swarm = feedSwarm(seed, Config{Origin: func(at time.Time, r env.Request) env.Answer {
		if o.originsDown {
			return env.Answer{Err: env.ErrDial, Message: "no route to host"}
		}
		return o.serve(at, r)
	}})
	o.config.Network.PollInterval = outageInterval
	o.Grow(3, 100*time.Millisecond)
	o.World.Run(20 * time.Second)
	o.members = o.Peers()[:3]
	for range clients {
		c := o.Add(false, o.members[0])
		c.Start()
		o.clients = append(o.clients, c)
	}
	o.World.Run(time.Minute)
	o.urls = o.serveFeeds(2, 7*time.Minute, 8)
	for _, c := range o.Peers() {
		for _, url := range o.urls {
			c.SubscribeFeed(url)
		}
	}
	o.World.Run(15 * time.Minute)
	for _, c := range o.clients {
		if cut, ok := c.Layers().Feeds.CutOff(); ok || c.Layers().Corona.Stats().Lone > 0 {
			t.Fatalf("there is no fault, but a client reports that it is cut off: %+v", cut)
		}
	}
	return o
}

func (o *outage) kill(hint bool) {
	for _, m := range o.members {
		m.Kill(hint)
	}
}

// checkCutOff checks whether nodes report that they are cut off.
func (o *outage) checkCutOff(t *testing.T, want bool, of ...*Peer) {
	t.Helper()
	for _, p := range of {
		if cut, ok := p.Layers().Feeds.CutOff(); ok != want {
			t.Errorf("host %d reports that it is cut off: %v, %+v", p.Index(), ok, cut)
		}
	}
}

// checkFresh runs the world and checks all the while that readers have every item that the origins
// have shown for two intervals.
func (o *outage) checkFresh(t *testing.T, d time.Duration, of ...*Peer) {
	t.Helper()
	for end := o.Now().Add(d); o.Now().Before(end); {
		o.World.Run(30 * time.Second)
		for _, url := range o.urls {
			items := o.document(o.feeds.byURL[url], o.Now().Add(-2*outageInterval)).Items
			for _, p := range of {
				for i, it := range items {
					if p.subscriptions[url].firstShown[it.ID].IsZero() {
						t.Fatalf("host %d has not seen item %d of %s, which has been there for two intervals", p.Index(), i, url)
					}
				}
			}
		}
	}
}

// checkRecovered lets the network settle and checks that no client is cut off, no item was shown
// twice, and the logs have what readers were shown.
func (o *outage) checkRecovered(t *testing.T) {
	t.Helper()
	o.World.Run(20 * time.Minute)
	o.checkCutOff(t, false, o.clients...)
	lone := func() (n uint64) {
		for _, c := range o.clients {
			n += c.Layers().Corona.Stats().Lone
		}
		return n
	}
	polls := lone()
	if o.World.Run(2 * outageInterval); polls == 0 || lone() != polls {
		t.Errorf("%d polls while cut off, and %d more since the network is back", polls, lone()-polls)
	}
	late := o.Add(true, o.members...) // a new reader has only what is in the logs
	late.Start()
	o.World.Run(time.Minute)
	for _, url := range o.urls {
		late.SubscribeFeed(url)
	}
	o.World.Run(2 * outageInterval)
	o.CheckReaders()
	report(t, o.Swarm)
}

// All members of a network die, so that connections are refused, or so that packets vanish. Its
// clients report it within two minutes, and poll for themselves after one missed interval.
func TestClientsWhoseMembersDiedPollForThemselves(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{true, false} {
		t.Run(fmt.Sprintf("refused=%v", refused), func(t *testing.T) {
			o := newOutage(t, 7, 2)
			o.kill(refused)
			o.World.Run(2 * time.Minute)
			o.checkCutOff(t, true, o.clients...)
			o.checkFresh(t, 40*time.Minute, o.clients...)
			o.checkCutOff(t, true, o.clients...)
			for _, m := range o.members {
				m.Start()
			}
			o.checkRecovered(t)
		})
	}
}

// A client whose bootstrap address and remembered members are dead when it starts polls its
// subscriptions itself.
func TestAClientThatStartsWithoutANetworkPollsForItself(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 8, 2)
	for _, c := range o.clients {
		c.Kill(true)
	}
	o.kill(false)
	o.World.Run(time.Minute)
	for _, c := range o.clients {
		c.Start()
	}
	o.World.Run(2 * time.Minute)
	o.checkCutOff(t, true, o.clients...)
	o.World.Run(2*outageInterval - 2*time.Minute + 30*time.Second)
	o.checkFresh(t, 20*time.Minute, o.clients...)
	for _, m := range o.members {
		m.Start()
	}
	o.checkRecovered(t)
}

// A partition isolates one node: a client, or a member that follows a feed of other owners.
func TestAPartitionOfOnePollsForItself(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 9, 2)
	var alone []*Peer
	for _, m := range o.members {
		if m.Layers().Feeds.Stats().Led < len(o.urls) {
			alone = []*Peer{m, o.clients[0]}
		}
	}
	o.Partition(hostsOf(alone[:1]), hostsOf(alone[1:]))
	o.World.Run(2 * time.Minute)
	o.checkCutOff(t, true, alone[1])
	o.checkFresh(t, 30*time.Minute, o.clients[1], alone[0], alone[1])
	o.checkCutOff(t, false, o.clients[1])
	o.Heal()
	o.checkRecovered(t)
}

func hostsOf(of []*Peer) (hosts []*Host) {
	for _, p := range of {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// A client's own internet connection is down: it reaches neither peers nor origins. It reports
// both, drops no items, and shows new items within an interval after the connection is back,
// whether the network is there again or not.
func TestAClientWithoutInternetReportsIt(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 10, 2)
	o.kill(false)
	o.originsDown = true
	o.World.Run(40 * time.Minute)
	o.checkCutOff(t, true, o.clients...)
	for _, c := range o.clients {
		for _, url := range o.urls {
			if s, ok := c.Layers().Corona.Alone(o.Key(url)); !ok || s.Kind != coronapb.State_UNREACHABLE || s.Detail == "" || s.Next.IsZero() {
				t.Errorf("without internet the state of %s is %v: %q, next %v", url, s.Kind, s.Detail, s.Next)
			}
		}
	}
	o.originsDown = false
	o.World.Run(outageInterval + 30*time.Second)
	o.checkFresh(t, 10*time.Minute, o.clients...)
	for _, m := range o.members {
		m.Start()
	}
	o.checkRecovered(t)
}

// Many clients that lose their network at one moment do not all poll an origin at one moment.
func TestACutOffCrowdIsSpread(t *testing.T) {
	t.Parallel()
	const crowd = 40
	o := newOutage(t, 11, crowd)
	o.kill(true)
	f := o.feeds.byURL[o.urls[0]]
	most, total, before := 0, 0, f.Polls
	for range 30 * 6 {
		o.World.Run(10 * time.Second)
		most = max(most, f.Polls-before)
		total += f.Polls - before
		before = f.Polls
	}
	// Each client starts about one interval after it last heard of the feed, which is a little before
	// the members died, and polls once per interval.
	if want := crowd * 5; total < want*8/10 || total > want*21/20 {
		t.Errorf("%d requests in six intervals, want about %d", total, want)
	}
	if fair := crowd * 10 * int(time.Second) / int(outageInterval); most > 6*max(fair, 1) {
		t.Errorf("%d requests in ten seconds; evenly spread they would be %d", most, fair)
	}
}

// An isolated member sees items that come and go at the origin before the others are back. It hands
// them over, and later readers find each of them once in the log.
func TestItemsFoundByAnIsolatedMemberReachTheLog(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 12, 1)
	const url = "http://short.example/"
	o.Serve(url, script.NewLively(script.Config{Seed: 12, Every: 2 * time.Minute, Window: 2, Limit: 16}))
	for _, p := range o.Peers() {
		p.SubscribeFeed(url)
	}
	o.World.Run(6 * time.Minute)
	var alone *Peer
	for _, m := range o.members {
		if v, _ := m.Layers().Owners.View(o.Key(url)); !v.Leads && alone == nil {
			alone = m
			continue
		}
		m.Kill(false)
	}
	o.clients[0].Kill(false)
	died := o.Now()
	o.World.Run(9 * time.Minute) // less than a lease, after which it would found a branch
	var found []feed.ID
	for id, at := range alone.subscriptions[url].firstShown {
		if at.After(died) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		t.Fatal("the member has found nothing alone")
	}
	o.World.Run(5*time.Minute - o.Now().Sub(died)%time.Minute)
	for _, p := range o.Peers() {
		if p != alone {
			p.Start()
		}
	}
	o.World.Run(45 * time.Minute)
	late := o.Add(true, o.members...)
	late.Start()
	o.World.Run(time.Minute)
	late.SubscribeFeed(url)
	o.World.Run(10 * time.Minute)
	logged := map[feed.ID]int{}
	late.Do(func() {
		late.Layers().Feeds.Read(o.Key(url), func(d feedtree.Document) {
			for _, e := range d.Entries {
				logged[e.Item.ID]++
			}
		})
	})
	o.World.Run(time.Second)
	for _, id := range found {
		if logged[id] != 1 {
			t.Errorf("an item that was found alone is %d times in the log", logged[id])
		}
	}
	t.Logf("%d items found alone; %d handed over", len(found), alone.Layers().Feeds.Stats().Handed)
	report(t, o.Swarm)
}

// A member that restarts is not cut off, even if its feeds have no new items. An owner at the root
// of a feed's tree has no parent to ask, and the sequencer is silent while there are no items; such
// an owner used to report that it was cut off.
func TestAMemberThatRestartsIsNotCutOff(t *testing.T) {
	t.Parallel()
	s := feedSwarm(13, Config{})
	s.config.Network.PollInterval = 10 * time.Second
	s.Grow(3, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	var urls []string
	for i := range 6 {
		url := fmt.Sprintf("http://quiet%d.example/", i)
		s.Serve(url, script.NewLively(script.Config{Seed: uint64(i), Every: 48 * time.Hour, Limit: 4}))
		urls = append(urls, url)
		for _, p := range s.Peers() {
			p.SubscribeFeed(url)
		}
	}
	s.World.Run(2 * time.Minute)
	for _, p := range s.Peers() {
		p.Kill(false)
		s.World.Run(time.Minute) // by now others lead its feeds
		p.Start()
		for range 150 {
			s.World.Run(2 * time.Second)
			for _, url := range urls {
				if sub, ok := p.Layers().Feeds.Subscription(s.Key(url)); !ok || sub.Alone {
					t.Fatalf("host %d has restarted, and is cut off from %s: heard at %v, now %v", p.Index(), url, sub.Heard, s.Now())
				}
			}
		}
	}
	report(t, s)
}
