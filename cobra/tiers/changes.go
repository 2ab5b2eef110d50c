package tiers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/provision"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	plansKey = "tiers/plans"
	// goneAfter is how long a node that is not in the plan any more may be silent until nobody waits for it: longer than a
	// restart takes.
	goneAfter = 10 * time.Minute
)

// ErrUnsettled is returned by SetPlan while the change to the present plan is not complete.
var ErrUnsettled = errors.New("the last change of the topology is not complete")

// plans are the plan that a node runs, and the one before it, by which articles may still be under way.
type plans struct {
	plan, before      Plan       // before has no nodes if there is none
	current, previous neighbours // current has no self if the node has left the plan
	since             uint64     // position in the node's log after which articles are sent by plan
	ready             bool       // a filter has had all queries of plan
	changed           time.Time  // when the node took the plan, or started
}

// self returns the node's entry in the plan, or in the one before if it has left.
func (p *plans) self() Node {
	if p.current.self.Name == "" {
		return p.previous.self
	}
	return p.current.self
}

// union returns the neighbours of two plans, each once.
func union(current, previous []neighbour) []neighbour {
	all := slices.Clone(current)
	for _, n := range previous {
		if !has(current, n.Peer.ID) {
			all = append(all, n)
		}
	}
	return all
}

func has(list []neighbour, id env.PeerID) bool {
	return slices.ContainsFunc(list, func(n neighbour) bool { return n.Peer.ID == id })
}

func (p *plans) down() []neighbour { return union(p.current.down, p.previous.down) }
func (p *plans) up() []neighbour   { return union(p.current.up, p.previous.up) }

// What another node's plan is to that of this node.
const (
	behind = iota // it is an earlier one, or not known
	same
	ahead // it is a later one: so the change to the present one is complete there
)

// is compares the plan of another node, by its digest. One of the same revision, from another file, is not waited for.
func (p *plans) is(digest string) int {
	switch {
	case digest == p.plan.Digest:
		return same
	case digest == "", digest == p.before.Digest, provision.RevisionOf(digest) < provision.RevisionOf(p.plan.Digest):
		return behind
	}
	return ahead
}

// refuses returns an error about a plan that is not later than the one that the node runs. Neighbours could not tell a node that
// went back from one that has not changed yet.
func (p *plans) refuses(next Plan) error {
	revision, running := provision.RevisionOf(next.Digest), provision.RevisionOf(p.plan.Digest)
	if len(p.plan.Nodes) == 0 || revision > running {
		return nil
	}
	return fmt.Errorf("topology: its revision %d is not later than the %d of the one that this node runs: write it with tidings provision apply, which numbers it", revision, running)
}

// change returns the plans of a node that takes the next plan.
func (p *plans) change(next Plan, self env.PeerID, now time.Time) (plans, error) {
	n, err := next.find(self)
	if err != nil && (p.current.self.Name == "" || !errors.Is(err, errNotInPlan)) {
		return plans{}, err
	}
	if was := p.self().Role; was != "" && n.self.Role != "" && n.self.Role != was {
		return plans{}, fmt.Errorf("topology: this node was a %s, and is to be a %s: give it a new data directory, and its new address to the topology", was, n.self.Role)
	}
	return plans{plan: next, before: p.plan, current: n, previous: p.current, changed: now}, nil
}

// loadPlans reads which plan the node ran last. fresh reports whether the plan of its configuration is a later one.
func loadPlans(b *base, plan Plan, self env.PeerID) (p plans, fresh bool, err error) {
	now := b.clock.Now()
	value, err := b.store.Get([]byte(plansKey))
	if err != nil {
		return p, false, err
	}
	var m tierspb.Plans
	if err := proto.Unmarshal(value, &m); err != nil {
		return p, false, err
	}
	p = plans{plan: planOf(m.Current), before: planOf(m.Previous), since: m.Since, ready: m.Ready, changed: now}
	for _, of := range []struct {
		plan Plan
		n    *neighbours
	}{{p.plan, &p.current}, {p.before, &p.previous}} {
		if *of.n, err = of.plan.find(self); err != nil && !errors.Is(err, errNotInPlan) {
			return p, false, err
		}
	}
	if p.plan.Digest == plan.Digest && len(p.plan.Nodes) > 0 {
		return p, false, nil
	}
	if p.refuses(plan) != nil { // SetPlan says so when it gets the plan of the file
		return p, false, nil
	}
	if p.before.Nodes != nil && p.plan.Nodes != nil {
		b.log.Warn("the topology changed while the node was down; what filters had not sent to reflectors by the plan before the last one may be lost")
	}
	since := p.since
	p, err = p.change(plan, self, now)
	p.since = since
	return p, true, err
}

func planOf(m *tierspb.Plan) (p Plan) {
	if m == nil {
		return p
	}
	p.Digest, p.OutFilters = m.Digest, int(m.OutFilters)
	for _, n := range m.Nodes {
		node := Node{Name: n.Name, Role: n.Role, Links: n.Links, Peer: env.Peer{ID: env.PeerID(n.Peer)}}
		for _, a := range n.Addresses {
			node.Peer.Addrs = append(node.Peer.Addrs, string(a))
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p
}

func (p Plan) record() *tierspb.Plan {
	if len(p.Nodes) == 0 {
		return nil
	}
	m := &tierspb.Plan{Digest: p.Digest, OutFilters: uint32(p.OutFilters)}
	for _, n := range p.Nodes {
		node := &tierspb.PlanNode{Name: n.Name, Role: n.Role, Links: n.Links, Peer: []byte(n.Peer.ID)}
		for _, a := range n.Peer.Addrs {
			node.Addresses = append(node.Addresses, []byte(a))
		}
		m.Nodes = append(m.Nodes, node)
	}
	return m
}

// record returns the operation that makes the plans durable.
func (p *plans) record() env.Op {
	return env.Op{Key: []byte(plansKey), Value: wire.Encode(&tierspb.Plans{
		Current: p.plan.record(), Previous: p.before.record(), Since: p.since, Ready: p.ready,
	})}
}

// begin makes the plan that was just taken durable, with the position in the log at which it begins. ops are written with
// it.
func (t *Tiers) begin(ops []env.Op) {
	q := t.out.mark()
	t.plans.since = q.position
	t.store.Commit(append(ops, t.plans.record()), func(err error) { t.out.written([]*queued{q}, err) })
}

// SetPlan gives a running node another plan. Articles that were sent by the plan before it arrive, and queries stay at
// the filters that match them, until nothing is under way by that plan; until then SetPlan returns ErrUnsettled for the
// next one.
func (t *Tiers) SetPlan(next Plan) error {
	switch {
	case t.out == nil:
		return errors.New("the node has started without a topology; restart it")
	case next.Digest == t.plans.plan.Digest:
		return nil
	case t.plans.refuses(next) != nil:
		return t.plans.refuses(next)
	case !t.settled(t.clock.Now()):
		return ErrUnsettled
	}
	p, err := t.plans.change(next, t.selfID, t.clock.Now())
	if errors.Is(err, errNotInPlan) {
		return nil // it has left with an earlier change, and nobody waits for it any more
	}
	if err != nil {
		return err
	}
	t.plans = p
	t.out.relink(p.down())
	var ops []env.Op
	kept := t.in
	t.in = nil
	for _, n := range p.up() {
		if at := slices.IndexFunc(kept, func(i *inbox) bool { return i.from.Peer.ID == n.Peer.ID }); at >= 0 {
			kept[at].from = n
			t.in = append(t.in, kept[at])
			kept = slices.Delete(kept, at, at+1)
			continue
		}
		t.in = append(t.in, &inbox{base: t.base, from: n})
	}
	for _, i := range kept {
		ops = append(ops, env.Op{Key: []byte(cursorPrefix + string(i.from.Peer.ID))})
	}
	switch {
	case t.crawler != nil:
		t.crawler.replan()
	case t.filter != nil:
		ops = append(ops, t.filter.replan()...)
	case t.queries != nil:
		t.queries.replan()
	}
	t.begin(ops)
	t.wake()
	return nil
}

// settled reports whether nothing is under way by the plan before the present one, so that the node may take another.
func (t *Tiers) settled(now time.Time) bool {
	switch p := &t.plans; {
	case t.crawler != nil:
		for _, l := range t.out.links {
			if len(l.pending) > 0 && l.pending[0].position <= p.since && !t.out.gone(p, l, now) {
				return false
			}
			if is := p.is(l.plan); has(p.current.down, l.to.Peer.ID) && is != ahead && !(is == same && l.settled) {
				return false
			}
		}
		return true
	case t.filter != nil:
		for _, l := range t.out.links {
			if len(l.pending) > 0 && !has(p.current.down, l.to.Peer.ID) && !t.out.gone(p, l, now) {
				return false
			}
		}
		return p.ready && t.filter.settled(now)
	case t.queries != nil:
		return t.queries.settled(now)
	}
	return true
}

// gone reports whether the node does not wait for a receiver, because it has left the plan and is silent.
func (o *outbox) gone(p *plans, l *outLink, now time.Time) bool {
	return !has(p.current.down, l.to.Peer.ID) && silent(l.heardAt, p.changed, now)
}

// silent reports whether a node of an earlier plan was not heard for so long that nobody waits for it.
func silent(heard, changed, now time.Time) bool { return now.Sub(later(heard, changed)) > goneAfter }

// mayTake reports whether a filter may match an article of a crawler: one that was sent by a plan whose queries it has.
func (f *filter) mayTake(i *inbox, position uint64) bool {
	switch {
	case position <= i.since: // the node has had the queries of the plan before
		return true
	case i.plan == f.plans.plan.Digest:
		return f.plans.ready
	}
	return i.plan == f.plans.before.Digest
}

// settled reports whether the crawlers send by the plan that the filter runs, and the filter has matched everything before.
func (f *filter) settled(now time.Time) bool {
	for _, i := range f.tiers.in {
		is := f.plans.is(i.plan)
		if is != ahead && !(is == same && i.done >= i.since) && (has(f.plans.current.up, i.from.Peer.ID) || !silent(i.heardAt, f.plans.changed, now)) {
			return false
		}
	}
	return true
}

// prepare notes when all reflectors of the plan have placed their queries, so that the filter is ready.
func (f *filter) prepare() {
	if !f.plans.ready && f.unready() == "" {
		f.plans.ready = true
		f.store.Commit([]env.Op{f.plans.record()}, f.failed("plans"))
	}
}

// unready returns the name of a reflector whose queries a filter waits for; "": none.
func (f *filter) unready() string {
	for _, p := range f.reflectors {
		if !p.confirmed && has(f.plans.current.down, p.link.to.Peer.ID) {
			return p.link.to.Name
		}
	}
	return ""
}

// retired reports whether the node has left the plan.
func (t *Tiers) retired() bool {
	return t.plans.current.self.Name == "" && t.plans.previous.self.Role != ""
}

// linksTo returns the links to the filters that get the articles of a feed: all out-replicas of one in-replica.
func (p *plans) linksTo(o *outbox, url string) (links []*outLink) {
	n := &p.current
	if n.self.Role != provision.Crawler || len(n.ins) == 0 {
		return nil
	}
	in := n.ins[share("in "+url, len(n.ins))]
	for _, to := range n.down {
		if to.in == in {
			links = append(links, o.link(to.Peer.ID))
		}
	}
	return links
}
