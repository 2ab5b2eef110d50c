package tiers

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/provision"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
)

const (
	// probeInterval paces the probes of a crawler: 720 requests an hour, whatever the length of its list.
	probeInterval = 5 * time.Second
	// probeAge is how old the latency of a host may be before it is measured again: a host gets one request a day from
	// each crawler that polls none of its feeds.
	probeAge = 24 * time.Hour
	// smoothing is the weight of a new measurement, as in TCP.
	smoothing = 0.125

	// unreachable stands for the latency of a host that has never answered a crawler, in milliseconds.
	unreachable = 60_000

	tableInterval = 2 * time.Minute // between two messages with all latencies
	roundInterval = 10 * time.Minute
	// silence is the time after which a crawler that has said nothing is not given feeds.
	silence = 3 * tableInterval
	// maxMoves bounds the feeds that a crawler is handing over or has recalled at a time: none is polled meanwhile.
	maxMoves = 64
	// maxLatencies bounds the hosts of a frame, 13 bytes each.
	maxLatencies = maxBatch / 13
)

// locality is what a crawler of a plan, or one that has left it, knows of the latencies of all crawlers to the hosts of its list, and the moves of feeds.
type locality struct {
	crawlers []Node // of the plan, in order
	self     int    // -1: it has left
	hosts    []*host
	byHash   map[uint64]*host
	due      env.Calendar[*host] // probes
	probes   map[env.Handle]*host
	tables   []map[uint64]uint32 // by crawler: milliseconds to hosts
	heard    []time.Time         // by crawler
	moving   []*crawled          // feeds in a stage that has to end
	wanted   []place             // moves that have not begun
	busy     bool                // an assignment is being computed

	probeAt, tableAt, roundAt time.Time
}

// A host is a web server.
type host struct {
	hash     uint64
	url      string // of one of its feeds
	millis   float64
	measured time.Time
	gone     bool // no feed of the list is there
}

func newLocality(p Plan, n neighbours, now time.Time) *locality {
	l := &locality{self: -1, byHash: map[uint64]*host{}, probes: map[env.Handle]*host{}, tableAt: now.Add(probeInterval), roundAt: now.Add(roundInterval)}
	for _, node := range p.Nodes {
		if node.Role == provision.Crawler {
			if node.Peer.ID == n.self.Peer.ID {
				l.self = len(l.crawlers)
			}
			l.crawlers = append(l.crawlers, node)
			l.tables = append(l.tables, map[uint64]uint32{})
		}
	}
	l.heard = make([]time.Time, len(l.crawlers))
	return l
}

// inherit takes over what is known of hosts and crawlers in an earlier plan.
func (l *locality) inherit(from *locality) {
	l.hosts, l.byHash, l.due, l.probes = from.hosts, from.byHash, from.due, from.probes
	for i, n := range l.crawlers {
		if was := from.index(n.Peer.ID); was >= 0 {
			l.tables[i], l.heard[i] = from.tables[was], from.heard[was]
		}
	}
	for _, h := range l.hosts {
		if l.self >= 0 && h.millis > 0 { // the node may come back
			l.tables[l.self][h.hash] = uint32(h.millis)
		}
	}
}

// home returns the crawler that decides who polls a feed, and that polls it until it decides otherwise.
func (l *locality) home(url string) int { return share(url, len(l.crawlers)) }

// index returns the number of a crawler, -1 if the plan does not have it.
func (l *locality) index(id env.PeerID) int {
	return slices.IndexFunc(l.crawlers, func(n Node) bool { return n.Peer.ID == id })
}

// hostOf returns the hash of the scheme, host and port of a canonical URL.
func hostOf(url string) uint64 {
	if at := strings.Index(url, "://"); at >= 0 {
		if end := strings.IndexAny(url[at+3:], "/?#"); end >= 0 {
			url = url[:at+3+end]
		}
	}
	return hashOf(url)
}

// setHosts takes the hosts of a list. The first probes of new hosts are spread over the time that probing all takes, so
// that crawlers with the same list do not probe a host at the same time.
func (c *crawler) setHosts(urls []string) {
	l := c.near
	if len(l.crawlers) < 2 {
		return
	}
	old := l.byHash
	l.hosts, l.byHash = nil, map[uint64]*host{}
	var fresh []*host
	for _, url := range urls {
		hash := hostOf(url)
		if l.byHash[hash] != nil {
			continue
		}
		h := old[hash]
		if h == nil {
			h = &host{hash: hash, url: url}
			fresh = append(fresh, h)
		}
		l.byHash[hash] = h
		l.hosts = append(l.hosts, h)
	}
	for hash, h := range old {
		h.gone = l.byHash[hash] == nil
	}
	now := c.clock.Now()
	for _, h := range fresh {
		l.due.Add(now.Add(time.Duration(c.rand.Int64N(int64(len(l.hosts)))*int64(probeInterval))), h)
	}
}

// measured notes the latency of an answer. That a host does not answer counts only if it never has: one that is down is as
// far from all.
func (c *crawler) measured(h *host, a env.Answer) {
	if c.near.self < 0 {
		return
	}
	if h != nil && h.millis == 0 && a.Err != "" && a.Err != env.ErrBusy {
		c.near.tables[c.near.self][h.hash] = unreachable // a later answer counts
		return
	}
	if h == nil || a.Latency <= 0 {
		return
	}
	millis := max(1, float64(a.Latency)/float64(time.Millisecond))
	if h.millis == 0 {
		h.millis = millis
	}
	h.millis += smoothing * (millis - h.millis)
	h.measured = c.clock.Now()
	c.near.tables[c.near.self][h.hash] = uint32(h.millis)
}

// probe asks a host that this crawler has not polled lately. The request is conditional on a change since now, so that
// most hosts answer without a document, and whatever they answer is not read.
func (c *crawler) probe(now time.Time) (next time.Time) {
	l := c.near
	for !l.probeAt.After(now) {
		h, _, ok := l.due.Pop(now)
		if !ok {
			return l.due.Next()
		}
		if h.gone {
			continue
		}
		if again := h.measured.Add(probeAge); !h.measured.IsZero() && again.After(now) {
			l.due.Add(again, h)
			continue
		}
		l.due.Add(now.Add(probeAge), h)
		c.last++
		l.probes[c.last|Handles] = h
		l.probeAt = now.Add(probeInterval)
		c.stats.Probes++
		c.fetcher.Fetch(c.last|Handles, env.Request{URL: h.url, LastModified: now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")})
	}
	return later(l.due.Next(), l.probeAt)
}

// tell sends all latencies to the other crawlers.
func (c *crawler) tell() {
	l := c.near
	all := []*tierspb.Latencies{{}}
	for _, h := range l.hosts {
		millis := l.tables[l.self][h.hash]
		if millis == 0 {
			continue
		}
		m := all[len(all)-1]
		if len(m.Hosts) == maxLatencies {
			m = &tierspb.Latencies{}
			all = append(all, m)
		}
		m.Hosts, m.Millis = append(m.Hosts, h.hash), append(m.Millis, millis)
	}
	for i, to := range l.crawlers {
		for _, m := range all {
			if i != l.self {
				c.send(to.Peer, env.Bulk, &tierspb.Message{Body: &tierspb.Message_Latencies{Latencies: m}})
			}
		}
	}
}

func (c *crawler) onLatencies(from int, m *tierspb.Latencies) {
	for i, hash := range m.Hosts[:min(len(m.Hosts), len(m.Millis))] {
		if c.near.byHash[hash] != nil {
			c.near.tables[from][hash] = m.Millis[i]
		}
	}
}

// up returns which crawlers can take feeds.
func (l *locality) up(now time.Time) []bool {
	up := make([]bool, len(l.crawlers))
	for i := range up {
		up[i] = i == l.self || !l.heard[i].IsZero() && now.Sub(l.heard[i]) < silence
	}
	return up
}

// assign computes anew who should poll the feeds of this crawler's share.
func (c *crawler) assign(now time.Time) {
	l := c.near
	up := l.up(now)
	var all []place
	latencies := map[uint64][]uint32{} // by host
	for url, f := range c.feeds {
		if l.home(url) != l.self {
			continue
		}
		hash := hostOf(url)
		millis := latencies[hash]
		if millis == nil {
			for _, table := range l.tables {
				millis = append(millis, table[hash])
			}
			latencies[hash] = millis
		}
		p := place{url: url, millis: millis, holder: l.self, fixed: f.stage != here && f.stage != away}
		switch to := env.PeerID(f.record.To); f.stage {
		case leaving, recalled:
			p.holder = l.index(f.to)
		case handing, away:
			p.holder = l.index(to)
		}
		all = append(all, p)
	}
	l.busy = true
	c.worker.Do(func() {
		assign(all, up)
		all = slices.DeleteFunc(all, func(p place) bool { return p.to == p.holder })
	}, func() {
		l.busy, l.wanted = false, all
		c.wake()
	})
}

// begin begins moves that are wanted, a few at a time.
func (c *crawler) begin(now time.Time) {
	l := c.near
	up := l.up(now)
	under := 0
	for _, f := range l.moving {
		if to := l.index(env.PeerID(f.record.To)); to < 0 || up[to] { // otherwise it waits for one that is down
			under++
		}
	}
	for ; len(l.wanted) > 0 && under < maxMoves; under++ {
		p := l.wanted[0]
		l.wanted = l.wanted[1:]
		f := c.feeds[p.url]
		if f == nil || !up[p.to] || !up[p.holder] {
			continue
		}
		if f.stage == away {
			c.recall(f, l.crawlers[p.to].Peer.ID)
		} else if f.stage == here && proto.Size(f.record)+len(f.url) < maxBatch {
			c.leave(f, l.crawlers[p.to].Peer.ID)
		}
	}
}

// keepNear measures, tells and moves.
func (c *crawler) keepNear(now time.Time) (next time.Time) {
	l := c.near
	if len(l.crawlers) < 2 || l.self < 0 {
		return time.Time{}
	}
	if !l.tableAt.After(now) {
		l.tableAt = now.Add(tableInterval)
		c.tell()
	}
	if !l.roundAt.After(now) && !l.busy {
		l.roundAt = now.Add(roundInterval)
		c.assign(now)
	}
	next = env.Sooner(l.tableAt, l.roundAt)
	c.begin(now)
	next = env.Sooner(next, c.move(now))
	return env.Sooner(next, c.probe(now))
}
