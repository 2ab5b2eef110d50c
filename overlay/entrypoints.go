package overlay

import (
	"math"
	"slices"
	"time"

	"tidings/internal/env"
)

const (
	// A node checks its entry points for the first time about entrySoon after it has joined, and
	// then every entryLater, or every entryAgain as long as something is wrong. It says what two
	// consecutive checks have found, because members that joined or died a moment ago are not known
	// to everybody yet. With three entry points that answer, a check costs about 300 messages in a
	// network of 200 members.
	entrySoon  = time.Minute
	entryAgain = 5 * time.Minute
	entryLater = 6 * time.Hour
	// entryWait is the time in which entry points have to answer a probe.
	entryWait = 3 * time.Second
	// entrySample bounds the bootstrap nodes, the remembered members and the members of the
	// present network that one check asks. Each costs a lookup.
	entrySample = 3
	// An entry point does not know the members that the others find if it misses more than one in
	// missedShare of those nearest to a key. Losses of messages hide one or two of eight.
	missedShare = 3
	// If none of at least minRemembered remembered members is in the network, and the node saw
	// them less than rememberedFor ago, it is another network. Fewer may all have been switched
	// off, and so may members of long ago.
	minRemembered = 8
	rememberedFor = 30 * 24 * time.Hour
)

// EntryPoints says what a node has found out about its entry points: the nodes through which it
// could join without having heard of them from its network. These are the bootstrap nodes and the
// members that it remembers from an earlier run.
type EntryPoints struct {
	Known     int       // bootstrap nodes and remembered members
	Answering int       // of those asked in the last check, the members that answered
	CheckedAt time.Time // time of the last check; zero: there was none

	// The following fields say why the network may be false, once two checks have found it.

	Apart     int  // entry points that do not find the members near a key that others find
	Bootstrap bool // one of these is a bootstrap node
	Network   bool // members of the present network do not find the members that entry points find
	Forgotten bool // no remembered member is in the network
	NoPlace   bool // members answer, but none of them leads to the node's place
	Claimed   int  // members that the network claims to have, if those found are too few for that
	Likely    int  // members that it has, judging by those found; zero if Claimed is
}

// Doubtful reports whether the network may be a false one. If only a few remembered members do not
// find what all others find, the network is the right one, and they are liars in it.
func (e EntryPoints) Doubtful() bool {
	return e.Bootstrap || e.Apart > 0 && 2*e.Apart >= e.Answering || e.Network || e.Forgotten || e.NoPlace || e.Claimed > 0
}

// and keeps those doubts that another check had, too.
func (e EntryPoints) and(other EntryPoints) EntryPoints {
	e.Apart = min(e.Apart, other.Apart)
	e.Bootstrap = e.Bootstrap && other.Bootstrap
	e.Network = e.Network && other.Network
	e.Forgotten = e.Forgotten && other.Forgotten
	e.NoPlace = e.NoPlace && other.NoPlace
	if other.Claimed == 0 {
		e.Claimed, e.Likely = 0, 0
	}
	return e
}

// entryPoints checks whether the network that the node has joined is the one that others know.
// A newcomer that meets only liars sees a network of the liars' choice, and no member of it will
// say so. Three things give them away:
//
//   - Entry points that are not in league with one another lead to different members. The node
//     looks up the members nearest to a random key, once through each entry point alone and once
//     through members of its present network, and compares the results.
//   - Members of an earlier run should be in the network still.
//   - A network that claims many members must have some near every key.
//
// Members found by any of these lookups get their places as usual. So a node that knows an honest
// entry point besides a lying one ends up in the union of both networks.
type entryPoints struct {
	*neighbours
	pool     *pool
	counts   *counts
	liveness *liveness
	lookups  *lookups
	memory   *memory

	nextAt   time.Time   // of the next step
	check    *entryCheck // nil: none is in progress
	recalled bool        // a remembered member was in the network since the start
	found    EntryPoints // what the last check found
	stated   EntryPoints // what the last two checks found
	sample   []*Contact  // entry points that the last check asked
}

// An entryCheck is a check in progress.
type entryCheck struct {
	key     ID
	asked   []*Contact // entry points that were probed
	members []*Contact // those that have answered as members
	views   []*entryView
	pending int // lookups
	result  EntryPoints
	done    bool // all lookups are queued
}

// An entryView is what lookups of a key find that start at given members only.
type entryView struct {
	present bool       // the members belong to the present network and are no entry points
	named   bool       // the member is a bootstrap node
	member  bool       // one of them named members, so it is in a network
	nearest []*Contact // live members
}

// EntryPoints returns what is known about the node's entry points.
func (e *entryPoints) EntryPoints() EntryPoints {
	s := e.stated
	s.Known = len(e.all())
	return s
}

// all returns the entry points: the bootstrap nodes and then the other remembered members.
func (e *entryPoints) all() []*Contact {
	points := slices.Clone(e.pool.bootstraps)
	for _, c := range e.memory.remembered {
		if !hasContact(points, c) {
			points = append(points, c)
		}
	}
	return points
}

// hasContact reports whether contacts have one of a node. They are compared by their keys, since the id of an entry point may
// not be known before it has answered.
func hasContact(contacts []*Contact, c *Contact) bool {
	return slices.ContainsFunc(contacts, func(o *Contact) bool { return o.Peer.ID == c.Peer.ID })
}

// begin starts the checks of a node that has got its place. Entry points that the node has not
// asked on its way are probed, so that it joins through them, too.
func (e *entryPoints) begin(found []env.Peer) {
	e.keepBootstraps(found...)
	for _, c := range e.pool.bootstraps {
		if p := e.peers.get(c.Peer.ID); p == nil || p.lastHeard == env.Never {
			e.liveness.probeOnce(c)
		}
	}
	e.check = nil
	e.schedule(env.Jitter(e.rand, entrySoon))
}

// keepBootstraps keeps nodes that were found outside the network. Those that the node remembers
// are no bootstrap nodes, because the host reports the addresses of both.
func (e *entryPoints) keepBootstraps(found ...env.Peer) {
	e.pool.keepBootstraps(e.cfg.Network.Name, slices.DeleteFunc(slices.Clone(found), func(p env.Peer) bool {
		return slices.ContainsFunc(e.memory.remembered, func(c *Contact) bool { return c.Peer.ID == p.ID })
	}))
}

func (e *entryPoints) schedule(in time.Duration) {
	e.nextAt = e.clock.Now().Add(in)
	e.at(e.nextAt, task{kind: taskEntryPoints})
}

// step starts a check, or continues it when the entry points have had time to answer.
func (e *entryPoints) step() {
	switch {
	case e.state == Alone || e.state == Joining:
		e.conclude(EntryPoints{NoPlace: len(e.pool.members) > 0})
	case e.state == Left:
	case e.check == nil:
		e.askEntryPoints()
	default:
		e.lookUpThroughAll()
	}
}

// askEntryPoints begins a check by probing a random choice of entry points. While there are doubts, the
// choice stays the same.
func (e *entryPoints) askEntryPoints() {
	if !e.found.Doubtful() || len(e.sample) == 0 {
		e.sample = append(e.choose(e.pool.bootstraps), e.choose(slices.DeleteFunc(e.all(), func(c *Contact) bool {
			return hasContact(e.pool.bootstraps, c)
		}))...)
	}
	e.check = &entryCheck{key: e.randomID(), asked: e.sample}
	for _, c := range e.check.asked {
		e.liveness.probeOnce(c)
	}
	e.schedule(entryWait)
}

// choose returns at most entrySample random contacts.
func (e *entryPoints) choose(from []*Contact) []*Contact {
	from = slices.Clone(from)
	e.rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return from[:min(len(from), entrySample)]
}

// heard takes the news that a peer has spoken.
func (e *entryPoints) heard(p *peer) {
	if p.contact == nil || len(p.contact.Raw) == 0 {
		return
	}
	e.pool.metBootstrap(p.contact)
	if e.check != nil && p.contact.Member && hasContact(e.check.asked, p.contact) && !hasContact(e.check.members, p.contact) {
		e.check.members = append(e.check.members, p.contact)
	}
}

// lookUpThroughAll continues a check: it looks up the key through each entry point that has answered.
func (e *entryPoints) lookUpThroughAll() {
	c := e.check
	for _, point := range c.members {
		e.lookUpThrough(c, false, point)
	}
	if len(c.views) > 0 && len(e.all()) > 1 { // a single entry point has nothing to be compared with
		present := slices.DeleteFunc(slices.Concat(e.leaf.Members(), e.Contacts(), e.Hosts()), func(o *Contact) bool {
			return o.ID == e.self.ID || hasContact(c.asked, o)
		})
		if present = e.choose(present); len(present) > 0 {
			e.lookUpThrough(c, true, present...)
		}
	}
	e.measure(c, c.key)
	opposite := c.key
	opposite[0] ^= 1 << 7
	e.measure(c, opposite) // liars that have made ids for one place are far from one of the two keys
	e.recall(c)
	c.done = true
	e.judge(c)
}

// await returns a callback for a lookup of a check.
func (e *entryPoints) await(c *entryCheck, take func(found []*lookupMember)) func([]*lookupMember) {
	c.pending++
	return func(found []*lookupMember) {
		c.pending--
		take(found)
		e.judge(c)
	}
}

// lookUpThrough looks up the check's key through each of the given members alone.
func (e *entryPoints) lookUpThrough(c *entryCheck, present bool, from ...*Contact) {
	v := &entryView{present: present, named: !present && hasContact(e.pool.bootstraps, from[0])}
	c.views = append(c.views, v)
	for _, start := range from {
		var l *lookup
		l = e.lookups.queue(c.key, joinWant, false, e.await(c, func(found []*lookupMember) {
			v.member = v.member || slices.ContainsFunc(l.members, func(m *lookupMember) bool { return len(m.answer) > 0 })
			for _, m := range found {
				if !hasContact(v.nearest, m.contact) {
					v.nearest = append(v.nearest, m.contact)
				}
			}
		}))
		l.only = start
	}
}

// measure looks up a key in the network, and compares how close the members are with the
// number of members that the network claims. A member that says that its leaf has a depth claims
// that there are enough members to fill leaves of that depth.
func (e *entryPoints) measure(c *entryCheck, key ID) {
	e.lookups.queue(key, joinWant, false, e.await(c, func(found []*lookupMember) {
		claimed := 0.
		if e.state == Active {
			claimed = e.counts.estimateSize()
		}
		if most := majorityDepth(found); most != nil && most.depth > 0 {
			claimed = max(claimed, math.Ldexp(float64(e.cfg.Network.LeafMerge), most.depth))
		}
		likely := float64(len(found))
		if len(found) == joinWant {
			likely /= idSpaceShare(key, found[joinWant-1].contact.ID)
		}
		if len(found) > 0 && sparse(key, contactsOf(found), joinWant, claimed) {
			c.result.Claimed, c.result.Likely = int(min(claimed, math.MaxInt32)), int(likely)
		}
	}))
}

// recall finds out whether remembered members are in the network: a member in leaf or table is,
// and so is one that a lookup finds.
func (e *entryPoints) recall(c *entryCheck) {
	var newest uint64
	for _, r := range e.memory.remembered {
		newest = max(newest, r.Issued)
		p := e.peers.get(r.Peer.ID)
		e.recalled = e.recalled || p != nil && p.lastHeard != env.Never
	}
	if e.recalled || len(e.memory.remembered) < minRemembered || e.clock.Now().Sub(time.UnixMilli(int64(newest))) > rememberedFor {
		return
	}
	for _, r := range e.choose(e.memory.remembered) {
		e.lookups.queue(r.ID, 1, false, e.await(c, func(found []*lookupMember) {
			e.recalled = e.recalled || len(found) > 0 && found[0].contact.ID == r.ID
		}))
	}
	c.result.Forgotten = true // unless a lookup finds one
}

// judge ends a check whose lookups have all ended.
func (e *entryPoints) judge(c *entryCheck) {
	if !c.done || c.pending > 0 || e.check != c {
		return
	}
	e.check = nil
	if e.state != Active && e.state != Attached {
		e.schedule(entryAgain)
		return
	}
	c.result.Forgotten = c.result.Forgotten && !e.recalled
	c.compare()
	if e.state == Active && e.leaf.Len() == 1 {
		c.result = EntryPoints{} // it is in no network
	}
	for _, v := range c.views {
		if e.state == Attached {
			e.pool.add(e.self.ID, e.self.ID, v.nearest)
			continue
		}
		for _, o := range v.nearest {
			e.liveness.considerMember(o)
		}
	}
	e.conclude(c.result)
}

// conclude takes the result of a check and schedules the next one.
func (e *entryPoints) conclude(result EntryPoints) {
	was := e.stated.Doubtful()
	result.CheckedAt = e.clock.Now()
	e.found, e.stated = result, result.and(e.found)
	e.memory.trusted = !result.Doubtful()
	switch is := e.stated.Doubtful(); {
	case is && !was:
		e.log.Warn("the network that this node meets may be a false one", "apart", e.stated.Apart, "of", e.stated.Answering,
			"network", e.stated.Network, "forgotten", e.stated.Forgotten, "noplace", e.stated.NoPlace, "claimed", e.stated.Claimed, "likely", e.stated.Likely)
	case was && !is:
		e.log.Info("the network that this node meets agrees with its entry points")
	}
	if e.found.Doubtful() || e.state == Alone {
		e.schedule(env.Jitter(e.rand, entryAgain))
	} else {
		e.schedule(env.Jitter(e.rand, entryLater))
	}
}

// compare compares what was found through each entry point with what all have found together.
func (c *entryCheck) compare() {
	c.views = slices.DeleteFunc(c.views, func(v *entryView) bool { return !v.member })
	var union []*Contact
	for _, v := range c.views {
		for _, o := range v.nearest {
			if !hasContact(union, o) {
				union = append(union, o)
			}
		}
	}
	union = nearestN(union, c.key, joinWant)
	for _, v := range c.views {
		missed := 0
		for _, o := range union {
			if !hasContact(v.nearest, o) {
				missed++
			}
		}
		apart := missed*missedShare > len(union)
		switch {
		case v.present:
			c.result.Network = apart
		default:
			c.result.Answering++
			if apart {
				c.result.Apart++
				c.result.Bootstrap = c.result.Bootstrap || v.named
			}
		}
	}
}
