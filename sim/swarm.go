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

// A SwarmConfig describes a swarm. If Network has no name, the default parameters are used.
type SwarmConfig struct {
	World   Config
	Network wire.Network
	// Authority admits the members of a network of certificates; see Authority.
	Authority *Authority
	// Tune, if set, may change the configuration of each node before it boots.
	Tune func(*node.Config)
}

// A Swarm is a world whose hosts run tidings nodes. Its checkers always run: on every delivery, and
// every ten seconds on all trees, logs and subscriptions. Violations returns what they found.
type Swarm struct {
	*World
	config     SwarmConfig
	verify     wire.Verifier
	records    *overlay.Records // shared by all nodes
	hash       wire.Hash
	members    []*Peer
	byID       map[overlay.ID]*Peer
	sortedByID []*Peer // sorted by id

	violations []Violation
	// While faults are injected, lookups may fail; in a healthy network they must be fast.
	lookupsMayFail, lookupsMustBeFast bool

	groups     map[overlay.ID]bool
	multicasts multicastLog
	routes     RouteStats
	joins      joinTracker
	feeds      feeds
}

// A Peer is a host of a swarm and its node.
type Peer struct {
	*Host
	swarm         *Swarm
	id            overlay.ID
	node          *node.Node
	lives         int
	groups        map[overlay.ID]int // groups that it has joined, with its weight in each
	subscriptions map[string]*subscription
	bootstrap     []*Peer   // peers that it is told of when it boots
	startedAt     time.Time // start of the present life
	framesBefore  uint64    // frames sent and received before the present life
	diedAt        time.Time // time of the last crash
	diskLost      bool      // the disk is lost, so the host does not come back

	hubsCall    bool         // hubs reach it at the host of callbackBase
	filterState *filterState // nil: the peer is not a filter
	tier        *tier        // nil: the peer has no role in a hosting centre
}

// A Violation says that an invariant did not hold.
type Violation struct {
	At        time.Time
	Invariant string // its name
	Details   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Invariant, v.Details)
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
	if c.Authority != nil {
		c.Authority.signer = wire.NewSigner(c.Authority.key, hash)
	}
	s.records = overlay.NewRecords(c.Network, s.verify, 1<<20)
	if c.World.Origin == nil {
		c.World.Origin = s.serve
	}
	s.World = New(c.World)
	s.feeds.byURL, s.feeds.histories, s.feeds.outsideLog = map[string]*Feed{}, map[overlay.ID]*logHistory{}, map[feed.ID]bool{}
	s.feeds.failingSince = map[string]time.Time{}
	s.multicasts.since = map[*Peer]map[overlay.ID]time.Time{}
	s.every(checkInterval, s.checkTrees)
	s.every(checkInterval, s.checkLogs)
	s.every(checkInterval, s.checkSubscriptions)
	return s
}

// every calls do every d, for ever.
func (s *Swarm) every(d time.Duration, do func()) {
	s.After(d, func() {
		do()
		s.every(d, do)
	})
}

// Add adds a host, open or behind a NAT, that is told of the peers via when it boots. Without any
// it founds the network. It is down until Start.
func (s *Swarm) Add(open bool, via ...*Peer) *Peer { return s.AddHost(HostConfig{Open: open}, via...) }

// AddHost does the same for a host that the caller describes.
func (s *Swarm) AddHost(c HostConfig, via ...*Peer) *Peer {
	p := &Peer{Host: s.World.Host(c), swarm: s, groups: map[overlay.ID]int{}, subscriptions: map[string]*subscription{}, bootstrap: via}
	p.id = s.idOf(p)
	s.members = append(s.members, p)
	s.byID[p.id] = p
	s.byID[overlay.NodeID(s.config.Network.Name, p.Host.ID())] = p // its id if it is a client
	s.insertByID(p)
	return p
}

// idOf returns the id that a peer gets if its place is free. In a network of certificates it is drawn by the network's
// authority.
func (s *Swarm) idOf(p *Peer) overlay.ID {
	name, peer := s.config.Network.Name, p.Host.ID()
	switch {
	case !p.open || s.config.Network.IDs == wire.KeyIDs:
	case s.config.Network.IDs == wire.AddressIDs:
		return overlay.AddressID(name, overlay.BlockOf(p.IP()), overlay.FirstSlot(peer), peer)
	case s.config.Authority != nil:
		return s.config.Authority.ID(peer)
	}
	return overlay.NodeID(name, peer)
}

// Peers returns all peers, up or down, in the order in which they were added.
func (s *Swarm) Peers() []*Peer { return s.members }

// Grow adds open hosts until there are n, and starts one per pause. They are told of the founder
// only. The caller must let the time pass.
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

// callbackBase is the address at which hubs reach a peer, if they do.
func (p *Peer) callbackBase() string { return fmt.Sprintf("http://host%d.example/websub/", p.Index()) }

// Start boots a peer and renews its subscriptions.
func (p *Peer) Start() {
	p.lives++
	p.startedAt = p.swarm.Now()
	p.swarm.joins.started(p)
	if came := p.swarm.feeds.hooks.Started; came != nil {
		came(p)
	}
	p.Boot(func(e env.Env) env.Node {
		cfg := node.DefaultConfig(p.swarm.config.Network)
		cfg.Overlay.Founder = len(p.bootstrap) == 0
		cfg.Overlay.Records = p.swarm.records
		if a := p.swarm.config.Authority; a != nil && p.Index() == 0 {
			cfg.Overlay.Authority = a
		}
		cfg.Corona.ExemptPrivate = true // because the simulated origins are at private addresses
		if p.filterState != nil {
			p.filterState.reset()
			cfg.Firehose.Filter = true
		}
		if p.tier != nil {
			cfg.Tiers = p.tier.config
			p.tier.open(e)
		}
		if p.hubsCall {
			cfg.Corona.Callbacks = p.callbackBase()
		}
		if p.swarm.config.Tune != nil {
			p.swarm.config.Tune(&cfg)
		}
		signer := wire.NewSigner(p.Key(), p.swarm.hash)
		var err error
		if p.node, err = node.New(e, signer, p.swarm.verify, cfg, application{p}); err != nil {
			panic(fmt.Sprintf("sim: host %d: %v", p.Index(), err))
		}
		if p.tier != nil {
			p.tier.start(p.node.Tiers)
		}
		p.node.Overlay.Handle(probeLayer, rootChecker{p})
		return p.node
	})
	p.Do(func() {
		for _, g := range sortedIDs(p.groups) {
			p.node.Scribe.Join(g, p.groups[g])
		}
	})
	for _, url := range slices.Sorted(maps.Keys(p.subscriptions)) {
		if r := p.subscriptions[url]; !r.acknowledged {
			p.subscribe(r)
		}
	}
	for _, v := range p.bootstrap {
		p.Found(v.Host)
	}
}

// Kill crashes a peer, silently or with a hint to its peers; see Host.Crash.
func (p *Peer) Kill(hint bool) {
	p.diedAt = p.swarm.Now()
	if p.Up() {
		p.swarm.joins.ended(p)
		if went := p.swarm.feeds.hooks.Stopped; went != nil {
			went(p)
		}
	}
	p.Crash(hint)
	p.node = nil
	p.swarm.multicasts.died(p)
	p.swarm.feeds.peerDied(p)
}

// OverlayID returns the peer's id in the overlay.
func (p *Peer) OverlayID() overlay.ID { return p.id }

// Layers returns the peer's node, nil while it is down.
func (p *Peer) Layers() *node.Node { return p.node }

// Since returns the time of the peer's last start.
func (p *Peer) Since() time.Time { return p.startedAt }

// Active reports whether the peer is a full member: up, joined and acknowledged by its leaf.
func (p *Peer) Active() bool { return p.Up() && p.node.Overlay.State() == overlay.Active }

// JoinGroup subscribes the peer to a group.
func (p *Peer) JoinGroup(g overlay.ID, weight int) {
	p.groups[g] = weight
	p.swarm.groups[g] = true
	p.Do(func() { p.node.Scribe.Join(g, weight) })
	p.swarm.multicasts.joined(p, g)
}

// LeaveGroup ends the subscription.
func (p *Peer) LeaveGroup(g overlay.ID) {
	delete(p.groups, g)
	p.Do(func() { p.node.Scribe.Leave(g) })
	p.swarm.multicasts.left(p, g)
}

// Live returns the active members.
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

// Violations returns what the checkers have found.
func (s *Swarm) Violations() []Violation { return s.violations }

// maxViolations bounds the violations that are kept: the first ones tell most.
const maxViolations = 1000

func (s *Swarm) reportViolation(what, facts string, args ...any) {
	if len(s.violations) < maxViolations {
		s.violations = append(s.violations, Violation{s.Now(), what, fmt.Sprintf(facts, args...)})
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

// RouteStats returns the counters of the messages sent by Route.
func (s *Swarm) RouteStats() RouteStats { return s.routes }

// MulticastStats returns the counters of the messages sent by Publish.
func (s *Swarm) MulticastStats() MulticastStats { return s.multicasts.stats }
