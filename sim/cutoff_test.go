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

// An outage is a network of three members and two clients below them. All read two feeds. Something is
// about to go wrong.
type outage struct {
	*Swarm
	members, clients []*Peer
	urls             []string
	dark             bool // no origin can be reached
}

// outageInterval is the network's polling interval.
const outageInterval = 5 * time.Minute

func newOutage(t *testing.T, seed uint64, clients int) *outage {
	t.Helper()
	o := &outage{}
	o.Swarm = feedSwarm(seed, Config{Origin: func(at time.Time, r env.Request) env.Answer {
		if o.dark {
			return env.Answer{Err: env.ErrDial, Words: "no route to host"}
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
	o.urls = o.lively(2, 7*time.Minute, 8)
	for _, c := range o.Peers() {
		for _, url := range o.urls {
			c.Read(url)
		}
	}
	o.World.Run(15 * time.Minute)
	for _, c := range o.clients {
		if cut, ok := c.Layers().Feeds.CutOff(); ok || c.Layers().Corona.Stats().Lone > 0 {
			t.Fatalf("all is well, and a client says it is cut off: %+v", cut)
		}
	}
	return o
}

func (o *outage) kill(hint bool) {
	for _, m := range o.members {
		m.Kill(hint)
	}
}

// saysCutOff says whether nodes say that they hear of nobody.
func (o *outage) saysCutOff(t *testing.T, want bool, of ...*Peer) {
	t.Helper()
	for _, p := range of {
		if cut, ok := p.Layers().Feeds.CutOff(); ok != want {
			t.Errorf("host %d says that it is cut off: %v, %+v", p.Index(), ok, cut)
		}
	}
}

// fresh runs the world on, and looks all the while whether readers have all that the origins have shown for two
// intervals.
func (o *outage) fresh(t *testing.T, d time.Duration, of ...*Peer) {
	t.Helper()
	for end := o.Now().Add(d); o.Now().Before(end); {
		o.World.Run(30 * time.Second)
		for _, url := range o.urls {
			items := o.document(o.feeds.by[url], o.Now().Add(-2*outageInterval)).Items
			for _, p := range of {
				for i, it := range items {
					if p.reads[url].at[it.ID].IsZero() {
						t.Fatalf("host %d has not seen item %d of %s, which is there for two intervals", p.Index(), i, url)
					}
				}
			}
		}
	}
}

// back lets the network come to rest: nobody says that it is cut off, nothing was shown twice, and the logs have
// what readers were shown.
func (o *outage) back(t *testing.T) {
	t.Helper()
	o.World.Run(20 * time.Minute)
	o.saysCutOff(t, false, o.clients...)
	lone := func() (n uint64) {
		for _, c := range o.clients {
			n += c.Layers().Corona.Stats().Lone
		}
		return n
	}
	polls := lone()
	if o.World.Run(2 * outageInterval); polls == 0 || lone() != polls {
		t.Errorf("%d polls for readers alone, and %d more since the network is back", polls, lone()-polls)
	}
	late := o.Add(true, o.members...) // what it reads it has from the logs
	late.Start()
	o.World.Run(time.Minute)
	for _, url := range o.urls {
		late.Read(url)
	}
	o.World.Run(2 * outageInterval)
	o.CheckReaders()
	report(t, o.Swarm)
}

// All members of a network die, so that connections are refused, or so that packets vanish. Its clients say so
// within two minutes, and poll for themselves from one missed interval on.
func TestClientsWhoseMembersDiedPollForThemselves(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{true, false} {
		t.Run(fmt.Sprintf("refused=%v", refused), func(t *testing.T) {
			o := newOutage(t, 7, 2)
			o.kill(refused)
			o.World.Run(2 * time.Minute)
			o.saysCutOff(t, true, o.clients...)
			o.fresh(t, 40*time.Minute, o.clients...)
			o.saysCutOff(t, true, o.clients...)
			for _, m := range o.members {
				m.Start()
			}
			o.back(t)
		})
	}
}

// A client that starts where its bootstrap address and the members it knew lead nowhere polls its
// subscriptions all the same.
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
	o.saysCutOff(t, true, o.clients...)
	o.World.Run(2*outageInterval - 2*time.Minute + 30*time.Second)
	o.fresh(t, 20*time.Minute, o.clients...)
	for _, m := range o.members {
		m.Start()
	}
	o.back(t)
}

// A partition of one: a client, and a member that follows a feed which the others lead.
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
	o.saysCutOff(t, true, alone[1])
	o.fresh(t, 30*time.Minute, o.clients[1], alone[0], alone[1])
	o.saysCutOff(t, false, o.clients[1])
	o.Heal()
	o.back(t)
}

func hostsOf(of []*Peer) (hosts []*Host) {
	for _, p := range of {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// A client's own line is down: it hears of nobody and reaches no origin. It says both, takes nothing for gone, and
// shows what is new within an interval of the line's return, whether the network is there again or not.
func TestAClientWithoutALineSaysSo(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 10, 2)
	o.kill(false)
	o.dark = true
	o.World.Run(40 * time.Minute)
	o.saysCutOff(t, true, o.clients...)
	for _, c := range o.clients {
		for _, url := range o.urls {
			if s, ok := c.Layers().Corona.Alone(o.Key(url)); !ok || s.Kind != coronapb.State_UNREACHABLE || s.Detail == "" || s.Next.IsZero() {
				t.Errorf("without a line %s is said to be %v: %q, next %v", url, s.Kind, s.Detail, s.Next)
			}
		}
	}
	o.dark = false
	o.World.Run(outageInterval + 30*time.Second)
	o.fresh(t, 10*time.Minute, o.clients...)
	for _, m := range o.members {
		m.Start()
	}
	o.back(t)
}

// Many clients that lose their network at one moment do not come to an origin at one moment.
func TestACutOffCrowdIsSpread(t *testing.T) {
	t.Parallel()
	const crowd = 40
	o := newOutage(t, 11, crowd)
	o.kill(true)
	f := o.feeds.by[o.urls[0]]
	most, total, before := 0, 0, f.Polls
	for range 30 * 6 {
		o.World.Run(10 * time.Second)
		most = max(most, f.Polls-before)
		total += f.Polls - before
		before = f.Polls
	}
	// Each client begins about one interval after it last heard of the feed, which is a little before the members died, and
	// asks once in each interval that follows.
	if want := crowd * 5; total < want*8/10 || total > want*21/20 {
		t.Errorf("%d requests in six intervals, not about %d", total, want)
	}
	if fair := crowd * 10 * int(time.Second) / int(outageInterval); most > 6*max(fair, 1) {
		t.Errorf("%d requests in ten seconds where %d would be even", most, fair)
	}
}

// A member that is left alone sees items that come and go at the origin before the others are back. It hands them
// over: they are in the log, once, for those who come later.
func TestWhatAMemberFoundAloneComesIntoTheLog(t *testing.T) {
	t.Parallel()
	o := newOutage(t, 12, 1)
	const url = "http://short.example/"
	o.Serve(url, script.NewLively(script.Config{Seed: 12, Every: 2 * time.Minute, Window: 2, Limit: 16}))
	for _, p := range o.Peers() {
		p.Read(url)
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
	o.World.Run(9 * time.Minute) // less than a lease: then it would make a log of its own
	var found []feed.ID
	for id, at := range alone.reads[url].at {
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
	late.Read(url)
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

// A member that restarts is not cut off, however quiet its feeds are. An owner at the root of a feed's tree has no
// parent to ask, and the sequencer is silent as long as there are no items: such an owner said that it was cut off.
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
			p.Read(url)
		}
	}
	s.World.Run(2 * time.Minute)
	for _, p := range s.Peers() {
		p.Kill(false)
		s.World.Run(time.Minute) // others lead its feeds by now
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
