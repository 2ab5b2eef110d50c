package corona

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// The stewards of a domain are the owners of its key. Their sequencer shares out the domain's
// budget; each of the others keeps its own ledger of what it has signed, and signs nothing
// beyond the budget. So whoever has a quorum's word keeps to it, and what was granted
// counts until it expires, though the sequencer dies.

const (
	// dealPause is waited for more who ask, before a budget is shared out.
	dealPause = time.Second
	// signAgain is waited for signatures, and for ledgers.
	signAgain = 3 * time.Second
	// signTries is how often they are asked for.
	signTries = 3
	// maxSigning bounds the grants of one domain that wait for signatures; the others are
	// made when they are asked for again.
	maxSigning = 1024
	// maxLedger bounds the entries of one message.
	maxLedger = 512
	// maxOffices bounds the domains of one node, by as much as overlay/owner's keys.
	maxOffices = 200_000
)

// Stewards says whether this node, as the root of a domain's key, was asked for it of late:
// then the key is in use, though nobody reads its log.
func (c *Corona) Stewards(key overlay.ID) bool {
	return c.manners != nil && c.clock.Now().Sub(c.manners.calls[key]) < 6*c.cfg.MaintenanceInterval
}

// office returns that of a domain, making it if the node owns its key; nil if it does not.
func (c *Corona) office(domain string) (*office, owner.View) {
	key := overlay.StewardKey(c.cfg.Network, domain)
	v, ok := c.manners.owners.View(key)
	if !ok || v.Epoch == nil || !v.Owns {
		return nil, v
	}
	o := c.manners.offices[key]
	if o == nil {
		if len(c.manners.offices) >= maxOffices {
			return nil, v
		}
		o = &office{domain: domain, key: key}
		c.manners.offices[key] = o
	}
	return o, v
}

// A bid is a sequencer's claim for a channel.
type bid struct {
	claim
	key    overlay.ID
	bytes  int       // the size of the channel's content; 0: not known
	number uint64    // of the grant that it has
	at     time.Time // when it was made, by the asker's clock
}

// openClaims returns what an asker has signed; nil if it has not, or long ago.
func (c *Corona) openClaims(by *overlay.Contact, raw []byte, now time.Time) *coronapb.Claims {
	s, err := c.verifier.Open(wire.DomainAsk, raw)
	m := new(coronapb.Claims)
	if err != nil || wire.PeerIDOf(s.Key) != by.Peer.ID || proto.Unmarshal(s.Payload, m) != nil || len(m.Claims) > maxClaims || m.AtMs > maxMillis {
		c.stats.Garbage++
		return nil
	}
	for _, k := range m.Claims {
		if len(k.GetUrl()) > maxURL || k.GetIntervalMs() == 0 || k.GetIntervalMs() > uint64(ceiling.Milliseconds()) || k.GetPollers() > maxPollers || k.GetSize() > 1<<30 {
			c.stats.Garbage++
			return nil
		}
	}
	if at := timeOf(m.AtMs); at.After(now.Add(clockSlack)) || now.Sub(at) > clockSlack+c.cfg.MaintenanceInterval*claimHalves/2 {
		c.stats.Replayed++
		return nil
	}
	return m
}

// openAsk reads what a sequencer asks for: what it may claim, in bounds.
func (c *Corona) openAsk(domain string, m *coronapb.Ask, now time.Time) (asker *overlay.Contact, bids []bid) {
	asker, err := c.node.OpenRecord(m.Record)
	if err != nil {
		c.stats.Garbage++
		return nil, nil
	}
	claims := c.openClaims(asker, m.Claims, now)
	if claims == nil {
		return nil, nil
	}
	for _, k := range claims.Claims {
		key := overlay.Key(c.cfg.Network, k.Url)
		if spelled, err := feed.Canonical(k.Url); err != nil || spelled != k.Url || domainOf(k.Url) != domain || !c.mayLead(asker.ID, key) {
			c.stats.Misclaimed++
			continue
		}
		bids = append(bids, bid{
			claim: claim{
				readers:  c.believed(k.Readers),
				interval: max(min(time.Duration(k.IntervalMs)*time.Millisecond, ceiling), c.cfg.PollInterval),
				pollers:  min(max(int(k.Pollers), 1), c.members()),
				tie:      tie(key),
			},
			key: key, bytes: int(k.Size), number: k.Number, at: timeOf(claims.AtMs),
		})
	}
	return asker, bids
}

// onAsk takes what a sequencer of channels asks for.
func (c *Corona) onAsk(domain string, asker *overlay.Contact, bids []bid, now time.Time) {
	o, v := c.office(domain)
	if o == nil || !v.Leads {
		c.stats.Astray++
		return
	}
	c.assume(o, v.Epoch, now)
	claimed := 0
	for _, a := range o.accounts {
		if a.asker == asker.Peer.ID && !a.claimed.IsZero() {
			claimed++
		}
	}
	most := max(fairAccounts*maxAccounts/c.members(), fewAccounts)
	for _, b := range bids {
		a := o.account(b.key)
		if a == nil && claimed < most {
			a = c.open(o, b.key)
			claimed++
		}
		if a == nil {
			c.stats.Crowded++
			continue
		}
		if a.asker == asker.Peer.ID && !b.at.After(a.at) {
			c.stats.Replayed++
			continue
		}
		a.take(b, asker.Peer.ID, now, c.cfg.MaintenanceInterval)
		a.wait(asking{asker.Peer, b.number})
	}
	if o.dealAt.IsZero() {
		o.dealAt = now.Add(dealPause)
		c.manners.works.Add(o.dealAt, o.key)
	}
}

// take notes a claim. Of two who claim to lead one channel, as when it has just changed hands,
// both count for a while, so that neither takes anything from it.
func (a *account) take(b bid, by env.PeerID, now time.Time, maintenance time.Duration) {
	if !a.claimed.IsZero() && a.asker != by && now.Sub(a.claimed) < maintenance*3/2 {
		k := &a.claim
		k.readers, k.pollers, k.interval = max(k.readers, b.readers), max(k.pollers, b.pollers), min(k.interval, b.interval)
		return
	}
	a.claim, a.bytes, a.asker, a.at, a.claimed = b.claim, b.bytes, by, b.at, now
}

// wait notes somebody who is to be told of a channel's grant.
func (a *account) wait(p asking) {
	a.waits = slices.DeleteFunc(a.waits, func(w asking) bool { return w.ID == p.ID })
	if len(a.waits) < maxWaits {
		a.waits = append(a.waits, p)
	}
}

// maxWaits bounds who claim to lead one channel at one time.
const maxWaits = 4

// believed is how many readers of a channel count: as many as could be behind all members.
func (c *Corona) believed(readers uint32) float64 {
	return min(float64(readers), maxReaders*float64(c.members()))
}

// members is the size of the network.
func (c *Corona) members() int { return max(c.node.Count(0), 1) }

// mayLead says whether a member stands where owners of a key can stand in a network of this
// size, as overlay/owner has it for a quorum of them.
func (c *Corona) mayLead(id, key overlay.ID) bool { return c.couldStand(id, key, maxSigners) }

// couldStand says whether a member can be one of the n nearest to a key in a network of this size:
// among 64 times as many, of which by chance the nearest may come from one part.
func (c *Corona) couldStand(id, key overlay.ID, n int) bool {
	want := -6
	for parts := c.members() / max(n, 1); parts > 1; parts /= 2 {
		want++
	}
	return id.Common(key) >= want
}

// aging says whether a grant is to be renewed: half of it is over, so that one more who asks comes
// before it ends.
func (c *Corona) aging(e entry, now time.Time) bool {
	return e.expiry.Sub(now) <= c.life()/2
}

// dealDue makes grants, if this node still leads, and knows what is out.
func (c *Corona) dealDue(o *office, now time.Time) {
	o.dealAt = time.Time{}
	if v, ok := c.manners.owners.View(o.key); ok && v.Leads && o.leads(v.Epoch) && o.nonce == 0 {
		c.deal(o, v.Epoch, now)
	}
}

// leads says whether it is in this epoch that the office shares out.
func (o *office) leads(e *owner.Epoch) bool { return o.epoch != nil && o.epoch.Hash == e.Hash }

// deal makes grants for those who wait for one.
func (c *Corona) deal(o *office, e *owner.Epoch, now time.Time) {
	c.tidy(o, now)
	claims, whose := o.claims()
	most := budgetOf(claims, c.cfg.Compression)
	shares := shareOut(claims, sharable(claims, most))
	out := o.out()
	var kept letters
	var made []*signing
	for i, a := range whose {
		if len(a.waits) == 0 {
			continue
		}
		want := shares[i]
		last, granted := a.last()
		if now.Before(o.settled) {
			want.pollers = min(want.pollers, max(last.pollers, 1))
		}
		if granted && a.grant != nil && a.epoch == e.Hash && !c.aging(last, now) && near(last.portion, want) {
			for _, p := range a.waits {
				if p.number != last.number {
					kept.add(p.Peer, a.grant)
				}
			}
			a.waits = nil
			continue
		}
		if len(o.signing)+len(made) >= maxSigning {
			continue
		}
		others := out.rate - a.rate()
		got, ok := want.within(most-others, most*(1-spared)-others)
		if again, may := want.again(last.portion, most*(1-spared)/out.last); granted && may && (!ok || again.rate() > got.rate()) {
			got, ok = again, true
		}
		if !ok {
			c.stats.Short++
			a.waits = nil
			continue
		}
		g := (&grant{
			domain: o.domain, key: a.key, portion: got, expiry: now.Add(c.life()).Truncate(time.Millisecond),
			number: max(uint64(now.UnixMilli()), last.number+1), epoch: e.Hash,
		}).state()
		out.add(a, -1)
		added := a.add(entry{g.portion, g.expiry, g.number, claims[i].readers})
		if out.add(a, 1); !added {
			c.stats.Short++
			a.waits = nil
			continue
		}
		made = append(made, &signing{grant: g, epoch: e, readers: claims[i].readers, to: a.waits})
		a.waits = nil
	}
	self := slices.Index(e.Owners, c.node.Self().Peer.ID)
	for _, s := range made {
		s.grant.signatures = []countersignature{{self, c.signer.Signature(wire.DomainGrant, s.grant.statement)}}
	}
	c.post(o.domain, kept)
	o.signing = append(o.signing, made...)
	c.sendSignings(o, e, made, readersRate(claims))
	if c.grantSigned(o); len(o.signing) > 0 {
		c.urgeSoon(o, now)
	}
}

// sharable is what of a budget is shared out: but for what is spared, unless one poller for
// each channel takes that, too.
func sharable(of []claim, budget float64) float64 {
	once := 0.
	for _, c := range of {
		once += c.once()
	}
	return max(budget*(1-spared), min(budget, once*(1+1e-6)))
}

// near says whether another share is not worth a grant: it would be told to all pollers.
func near(was, want portion) bool {
	d := want.pollers - was.pollers
	return was.interval == want.interval && d*8 <= was.pollers && -d*8 <= was.pollers
}

// within makes a share fit into what is left of a budget: for one poller, and for more. A
// single one may have a longer interval.
func (s portion) within(one, more float64) (portion, bool) {
	tau := s.interval.Seconds()
	if n := int(more * tau * (1 + 1e-12)); n >= 1 {
		s.pollers = min(s.pollers, n)
		return s, true
	}
	s.pollers = 1
	if one*tau >= 1-1e-9 {
		return s, true
	}
	if one <= 0 || 1/one > maxStretch.Seconds() {
		return s, false
	}
	s.interval = time.Duration(1/one*float64(time.Second)) + time.Millisecond
	return s, true
}

// again is what a channel may have once more though a budget has shrunk below what is out: as
// many pollers as it had, less its part of what is too much, and no oftener. So all give up
// some of theirs, and not those all who come first.
func (s portion) again(last portion, part float64) (portion, bool) {
	n := int(float64(last.pollers)*min(part, 1) + 1e-9)
	return portion{min(s.pollers, n), max(s.interval, last.interval)}, n > 0
}

// urge asks again for what is missing. Who does not say what it has signed is not waited for
// any longer, if a quorum has: what was granted a quorum has signed.
func (c *Corona) urge(o *office, now time.Time) {
	v, ok := c.manners.owners.View(o.key)
	if !ok || !v.Leads || v.Epoch == nil || !o.leads(v.Epoch) {
		o.signing = nil
		return
	}
	if o.nonce != 0 {
		switch o.urged++; {
		case len(o.heard) >= v.Epoch.Quorum():
			o.nonce = 0
			c.deal(o, v.Epoch, now)
		case o.urged < signTries:
			c.owed(o, v.Epoch, now)
		default:
			o.epoch = nil // the next who asks begins it anew
		}
		return
	}
	o.signing = slices.DeleteFunc(o.signing, func(s *signing) bool {
		s.tries++
		return s.tries > signTries
	})
	claims, _ := o.claims()
	c.sendSignings(o, v.Epoch, o.signing, readersRate(claims))
	if len(o.signing) > 0 {
		c.urgeSoon(o, now)
	}
}

// urgeSoon plans urge.
func (c *Corona) urgeSoon(o *office, now time.Time) {
	o.urgeAt = now.Add(signAgain)
	c.manners.works.Add(o.urgeAt, o.key)
}
