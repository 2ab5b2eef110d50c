package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
)

// A SwarmConfig describes a swarm. The zero value of Network means the default
// parameters.
type SwarmConfig struct {
	World   Config
	Network wire.Network
	// Tune may change the configuration of each node before it boots.
	Tune func(*node.Config)
}

// A Swarm is a world whose hosts run the nodes of tidings, with checkers that are
// always on: they look at every delivery, and every ten seconds at all trees.
// What they find wrong stands in Wrong.
type Swarm struct {
	*World
	config  SwarmConfig
	verify  wire.Verifier
	records *overlay.Records // of all nodes
	hash    wire.Hash
	members []*Peer
	byID    map[overlay.ID]*Peer
	order   []*Peer // by id

	wrong []Violation
	// tolerant: troubles are under way, look-ups may fail. prompt: all is well, they are quick.
	tolerant, prompt bool

	groups map[overlay.ID]bool
	mail   mail
	routes RouteStats
	tally  tally
	feeds  feeds
}

// A Peer is a host of a swarm and its node.
type Peer struct {
	*Host
	swarm *Swarm
	id    overlay.ID
	node  *node.Node
	lives int
	wants map[overlay.ID]int // groups it subscribes to, and its weight there
	reads map[string]*reading
	via   []*Peer   // whom it is told of when it boots
	up    time.Time // of this life
	spoke uint64    // frames sent and received before it
	down  time.Time // of the last crash
	wiped bool      // its disk is lost

	filters *filtering // nil: it is no filter
}

// A Violation is something that must never happen, and did.
type Violation struct {
	At    time.Time
	What  string // the invariant's name
	Facts string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.What, v.Facts)
}

// NewSwarm returns a swarm without hosts.
func NewSwarm(c SwarmConfig) *Swarm {
	if c.Network.Name == "" {
		c.Network = wire.DefaultNetwork("sim")
	}
	if err := c.Network.Check(); err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	hash := wire.HashOf(c.Network.Descriptor())
	s := &Swarm{
		config: c,
		hash:   hash,
		verify: wire.NewCachingVerifier(wire.NewVerifier(hash), 1<<20),
		byID:   map[overlay.ID]*Peer{},
		groups: map[overlay.ID]bool{},
	}
	s.records = overlay.NewRecords(c.Network.Name, s.verify, 1<<20)
	if c.World.Origin == nil {
		c.World.Origin = s.serve
	}
	s.World = New(c.World)
	s.feeds.by, s.feeds.logs, s.feeds.past = map[string]*Feed{}, map[overlay.ID]*history{}, map[feed.ID]bool{}
	s.feeds.amiss = map[string]time.Time{}
	s.mail.since = map[*Peer]map[overlay.ID]time.Time{}
	s.every(checkPause, s.checkTrees)
	s.every(checkPause, s.checkLogs)
	s.every(checkPause, s.checkSubscriptions)
	return s
}

// every calls do again and again.
func (s *Swarm) every(d time.Duration, do func()) {
	s.After(d, func() {
		do()
		s.every(d, do)
	})
}

// Add adds a host, open or behind a NAT, that is told of the peers via when it
// boots. Without any it founds the network. It is down until Boot.
func (s *Swarm) Add(open bool, via ...*Peer) *Peer {
	p := &Peer{Host: s.World.Host(HostConfig{Open: open}), swarm: s, wants: map[overlay.ID]int{}, reads: map[string]*reading{}, via: via}
	p.id = overlay.NodeID(s.config.Network.Name, p.Host.ID())
	s.members = append(s.members, p)
	s.byID[p.id] = p
	s.place(p)
	return p
}

// Peers are all peers, up or down, in the order in which they were added.
func (s *Swarm) Peers() []*Peer { return s.members }

// Grow adds and boots open hosts, one every pause, until there are n. They are
// told of the founder only. The caller lets the time pass.
func (s *Swarm) Grow(n int, pause time.Duration) {
	for i := len(s.members); i < n; i++ {
		var p *Peer
		if i == 0 {
			p = s.Add(true)
		} else {
			p = s.Add(true, s.members[0])
		}
		s.After(time.Duration(i)*pause, p.Start)
	}
}

// Start boots a peer, after a crash too, and renews its subscriptions.
func (p *Peer) Start() {
	p.lives++
	p.up = p.swarm.Now()
	p.swarm.tally.came(p)
	if came := p.swarm.feeds.watch.Came; came != nil {
		came(p)
	}
	p.Boot(func(e env.Env) env.Node {
		cfg := node.DefaultConfig(p.swarm.config.Network)
		cfg.Overlay.Founder = len(p.via) == 0
		cfg.Overlay.Records = p.swarm.records
		cfg.Corona.ExemptPrivate = true // as its origins are
		if p.filters != nil {
			p.filters.anew()
			cfg.Firehose.Filter = true
		}
		if p.swarm.config.Tune != nil {
			p.swarm.config.Tune(&cfg)
		}
		signer := wire.NewSigner(p.Key(), p.swarm.hash)
		var err error
		if p.node, err = node.New(e, signer, p.swarm.verify, cfg, reader{p}); err != nil {
			panic(fmt.Sprintf("sim: host %d: %v", p.Index(), err))
		}
		p.node.Overlay.Handle(probeLayer, rootChecker{p})
		return p.node
	})
	p.Do(func() {
		for _, g := range sortedIDs(p.wants) {
			p.node.Scribe.Join(g, p.wants[g])
		}
	})
	for _, url := range slices.Sorted(maps.Keys(p.reads)) {
		if r := p.reads[url]; !r.acked {
			p.ask(r)
		}
	}
	for _, v := range p.via {
		p.Found(v.Host)
	}
}

// Kill crashes a peer: silently, or so that its links are seen to close.
func (p *Peer) Kill(hint bool) {
	p.down = p.swarm.Now()
	if p.Up() {
		p.swarm.tally.went(p)
		if went := p.swarm.feeds.watch.Went; went != nil {
			went(p)
		}
	}
	p.Crash(hint)
	p.node = nil
	p.swarm.mail.died(p)
	p.swarm.feeds.died(p)
}

// OverlayID is the peer's id in the overlay.
func (p *Peer) OverlayID() overlay.ID { return p.id }

// Layers is the peer's node, nil while it is down.
func (p *Peer) Layers() *node.Node { return p.node }

// Since is when the peer was started last.
func (p *Peer) Since() time.Time { return p.up }

// Active says whether the peer is a member in full: up, joined and acknowledged
// by its leaf.
func (p *Peer) Active() bool { return p.Up() && p.node.Overlay.State() == overlay.Active }

// Subscribe joins a group.
func (p *Peer) Subscribe(g overlay.ID, weight int) {
	p.wants[g] = weight
	p.swarm.groups[g] = true
	p.Do(func() { p.node.Scribe.Join(g, weight) })
	p.swarm.mail.joined(p, g)
}

// Unsubscribe leaves a group.
func (p *Peer) Unsubscribe(g overlay.ID) {
	delete(p.wants, g)
	p.Do(func() { p.node.Scribe.Leave(g) })
	p.swarm.mail.left(p, g)
}

// Live returns the members that are Active.
func (s *Swarm) Live() []*Peer {
	var of []*Peer
	for _, p := range s.members {
		if p.Active() {
			of = append(of, p)
		}
	}
	return of
}

// Root returns the live member nearest to a key, nil if there is none.
func (s *Swarm) Root(key overlay.ID) *Peer {
	for p := range s.nearest(key) {
		if p.Active() {
			return p
		}
	}
	return nil
}

// Key returns the key of a URL in the swarm's network.
func (s *Swarm) Key(url string) overlay.ID { return overlay.Key(s.config.Network.Name, url) }

// Wrong returns what the checkers found.
func (s *Swarm) Wrong() []Violation { return s.wrong }

// maxWrong bounds what is kept of a run that has gone wrong: the first findings
// tell most.
const maxWrong = 1000

func (s *Swarm) violated(what, facts string, args ...any) {
	if len(s.wrong) < maxWrong {
		s.wrong = append(s.wrong, Violation{s.Now(), what, fmt.Sprintf(facts, args...)})
	}
}

func sortedIDs[V any](m map[overlay.ID]V) []overlay.ID {
	of := make([]overlay.ID, 0, len(m))
	for id := range m {
		of = append(of, id)
	}
	slices.SortFunc(of, func(a, b overlay.ID) int { return slices.Compare(a[:], b[:]) })
	return of
}

// RouteStats counts the messages of Route, MailStats those of Publish.
func (s *Swarm) RouteStats() RouteStats { return s.routes }

// MailStats counts the messages of Publish.
func (s *Swarm) MailStats() MailStats { return s.mail.stats }
