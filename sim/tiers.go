package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/env"
)

// A tier is what a peer does in a hosting centre, and what it keeps across its lives.
type tier struct {
	config  tiers.Config
	feeds   []string // the list of a crawler
	queries []string // what the users of a reflector ask for

	numbers   []cobra.SubscriptionID // of queries, once they are subscribed
	reflector *cobra.Reflector       // of the present life
	store     env.Store
	stalled   bool
	waiting   []func() // what a stalled reflector has to do
	pace      time.Duration
	free      time.Time // when a reflector with a pace has handled what it has got
}

// MakeTiers gives the first peers the roles of a plan with every crawler linked to every filter, and filters linked to the
// reflectors whose queries they share, as provision.Plan links them.
func (s *Swarm) MakeTiers(crawlers, filters, reflectors int, config func(role string, i int) tiers.Config, feeds []string) (made map[string][]*Peer) {
	plan := tiers.Plan{Digest: "first", OutFilters: filters}
	made = map[string][]*Peer{}
	names := func(role string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s-%d", role, i+1))
		}
		return all
	}
	next := 0
	add := func(role string, n int, links func(i int) []string) {
		for i, name := range names(role, n) {
			p := s.members[next]
			next++
			made[role] = append(made[role], p)
			plan.Nodes = append(plan.Nodes, tiers.Node{Name: name, Role: role, Peer: p.Peer(), Links: links(i)})
		}
	}
	add(provision.Crawler, crawlers, func(int) []string { return names(provision.Filter, filters) })
	add(provision.Filter, filters, func(i int) (to []string) {
		for j, name := range names(provision.Reflector, reflectors) {
			if i*reflectors < (j+1)*filters && j*filters < (i+1)*reflectors {
				to = append(to, name)
			}
		}
		return to
	})
	add(provision.Reflector, reflectors, func(int) []string { return nil })
	for role, peers := range made {
		for i, p := range peers {
			p.tier = &tier{config: config(role, i), feeds: feeds}
			p.tier.config.Plan = plan
		}
	}
	return made
}

// MeshPlan returns a plan in which the peers of each tier send to all of the next. Filters are outs out-replicas of each
// in-replica.
func MeshPlan(digest string, outs int, crawlers, filters, reflectors []*Peer) tiers.Plan {
	plan := tiers.Plan{Digest: digest, OutFilters: outs}
	var below []string
	for _, t := range []struct {
		role  string
		peers []*Peer
	}{{provision.Reflector, reflectors}, {provision.Filter, filters}, {provision.Crawler, crawlers}} {
		var names []string
		for _, p := range t.peers {
			name := fmt.Sprintf("%s-%d", t.role, p.Index())
			plan.Nodes = append(plan.Nodes, tiers.Node{Name: name, Role: t.role, Peer: p.Peer(), Links: below})
			names = append(names, name)
		}
		below = names
	}
	return plan
}

// Replan gives all nodes of a hosting centre another topology file. Each looks at it at a time of its own.
func (s *Swarm) Replan(plan tiers.Plan, rng *rand.Rand) {
	for _, p := range s.members {
		if p.tier != nil {
			p.tier.config.Plan = plan
			s.World.After(time.Duration(rng.IntN(20_000))*time.Millisecond, func() { p.lookAtPlan(plan.Digest) })
		}
	}
}

// lookAtPlan takes the plan of the topology file, and tries again while the node cannot, as the daemon does.
func (p *Peer) lookAtPlan(digest string) {
	if p.tier.config.Plan.Digest != digest {
		return
	}
	var err error
	taken := p.Do(func() {
		if err = p.node.Tiers.SetPlan(p.tier.config.Plan); err == nil {
			p.node.Tiers.SetFeeds(p.tier.feeds)
		}
	})
	switch {
	case err != nil && !errors.Is(err, tiers.ErrUnsettled):
		panic("sim: change the plan: " + err.Error())
	case err != nil || !taken:
		p.swarm.World.After(2*time.Second, func() { p.lookAtPlan(digest) })
	}
}

// open opens the reflector of a new life.
func (r *tier) open(e env.Env) {
	r.stalled, r.waiting, r.free = false, nil, time.Time{}
	e.Store = prefixedStore{e.Store, "reflector/"}
	r.store = e.Store
	var err error
	if r.reflector, err = cobra.Open(e, cobra.Config{ArticlesPerFeed: cobra.MaxArticlesPerFeed}); err != nil {
		panic("sim: open a reflector: " + err.Error())
	}
}

// start gives the node what the operator's files and the reflector's users say.
func (r *tier) start(t *tiers.Tiers) {
	t.SetFeeds(r.feeds)
	for _, text := range r.queries {
		t.AddQuery(text)
	}
}

// Ask lets a user of a reflector subscribe to a query.
func (p *Peer) Ask(text string) {
	r := p.tier
	r.queries = append(r.queries, text)
	p.Do(func() {
		r.reflector.Subscribe(0, text, nil, func(n cobra.SubscriptionID, err error) {
			if err != nil {
				panic("sim: subscribe: " + err.Error())
			}
			r.numbers = append(r.numbers, n)
		})
		p.node.Tiers.AddQuery(text)
	})
}

// Stall lets a reflector's application do nothing for a while.
func (p *Peer) Stall(on bool) {
	p.Do(func() {
		p.tier.stalled = on
		for !on && len(p.tier.waiting) > 0 {
			p.tier.waiting[0]()
			p.tier.waiting = p.tier.waiting[1:]
		}
	})
}

// Pace lets a reflector's application take a time for each article, one after the other.
func (p *Peer) Pace(each time.Duration) { p.tier.pace = each }

// Reflect keeps an article as the daemon does: it is acknowledged when a later commit is durable.
func (a application) Reflect(article *cobra.Article, done func(ok bool)) {
	r := a.p.tier
	keep := func() {
		failed := false
		r.reflector.Receive(article, func() { failed = true })
		r.store.Commit([]env.Op{{Key: []byte("last"), Value: []byte(article.Title)}}, func(err error) { done(err == nil && !failed) })
		if reflected := a.p.swarm.feeds.hooks.Reflected; reflected != nil {
			reflected(a.p, article)
		}
	}
	switch now, life := a.p.swarm.Now(), a.p.lives; {
	case r.stalled:
		r.waiting = append(r.waiting, keep)
	case r.pace > 0:
		if r.free.Before(now) {
			r.free = now
		}
		r.free = r.free.Add(r.pace)
		a.p.swarm.After(r.free.Sub(now), func() {
			if a.p.Up() && a.p.lives == life {
				a.p.Do(keep)
			}
		})
	default:
		keep()
	}
}

// Shown returns the articles of each query of a reflector, the newest first.
func (p *Peer) Shown() (feeds [][]cobra.StoredArticle) {
	for _, n := range p.tier.numbers {
		f, _ := p.tier.reflector.Feed(n)
		articles, err := f.Read(p.tier.store)
		if err != nil {
			panic("sim: read a feed: " + err.Error())
		}
		feeds = append(feeds, articles)
	}
	return feeds
}

// prefixedStore is a part of a store whose keys begin with a prefix.
type prefixedStore struct {
	env.Store
	prefix string
}

func (s prefixedStore) key(key []byte) []byte { return append([]byte(s.prefix), key...) }

func (s prefixedStore) Commit(ops []env.Op, done func(error)) {
	own := make([]env.Op, len(ops))
	for i, op := range ops {
		own[i] = op
		own[i].Key = s.key(op.Key)
	}
	s.Store.Commit(own, done)
}

func (s prefixedStore) Get(key []byte) ([]byte, error) { return s.Store.Get(s.key(key)) }

func (s prefixedStore) Range(prefix []byte, each func(key, value []byte) bool) error {
	return s.Store.Range(s.key(prefix), func(key, value []byte) bool { return each(key[len(s.prefix):], value) })
}
