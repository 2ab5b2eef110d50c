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

// The stewards of a domain are the owners of its key. Their sequencer, the budget leader, divides
// the domain's budget. Each other steward keeps its own ledger of the grants that it has signed,
// and signs nothing beyond the budget. So a grant with a quorum of signatures is within the budget,
// and counts until it expires even if the budget leader dies.

const (
	// issuePause is the delay between a grant request and the division of the budget, so that
	// further requests are included.
	issuePause = time.Second
	// signRetry is the delay before signatures or ledgers are requested again.
	signRetry = 3 * time.Second
	// maxSignTries is the number of such requests.
	maxSignTries = 3
	// maxPendingGrants bounds the grants of one domain that wait for signatures. Further ones are
	// made when they are requested again.
	maxPendingGrants = 1024
	// maxLedger bounds the entries of one ledger message.
	maxLedger = 512
	// maxStewardStates bounds the domains of one steward, as overlay/owner bounds its keys.
	maxStewardStates = 200_000
)

// StewardKeyInUse says whether this node, as the root of a domain's key, has recently got a grant
// request. Such a key is in use although nobody subscribes to its log.
func (c *Corona) StewardKeyInUse(key overlay.ID) bool {
	return c.politeness != nil && c.clock.Now().Sub(c.politeness.rootAskedAt[key]) < 6*c.cfg.MaintenanceInterval
}

// stewardOf returns the steward state of a domain, making one if this node owns the domain's key;
// nil if it does not.
func (c *Corona) stewardOf(domain string) (*stewardState, owner.View) {
	key := overlay.StewardKey(c.cfg.Network, domain)
	v, ok := c.politeness.owners.View(key)
	if !ok || v.Epoch == nil || !v.Owns {
		return nil, v
	}
	o := c.politeness.stewardStates[key]
	if o == nil {
		if len(c.politeness.stewardStates) >= maxStewardStates {
			return nil, v
		}
		o = &stewardState{domain: domain, key: key}
		c.politeness.stewardStates[key] = o
	}
	return o, v
}

// grantRequest is a sequencer's claim for one channel.
type grantRequest struct {
	claim
	key    overlay.ID
	bytes  int       // size of the channel's content; 0: not known
	number uint64    // of the grant that the sequencer has; 0: none
	at     time.Time // time of the claim, by the sender's clock
}

// openClaims verifies and decodes claims; nil if the signature is wrong or old.
func (c *Corona) openClaims(by *overlay.Contact, raw []byte, now time.Time) *coronapb.Claims {
	s, err := c.verifier.Open(wire.DomainRequest, raw)
	m := new(coronapb.Claims)
	if err != nil || wire.PeerIDOf(s.Key) != by.Peer.ID || proto.Unmarshal(s.Payload, m) != nil || len(m.Claims) > maxClaims || m.AtMs > maxMillis {
		c.stats.Garbage++
		return nil
	}
	for _, k := range m.Claims {
		if len(k.GetUrl()) > maxURL || k.GetIntervalMs() == 0 || k.GetIntervalMs() > uint64(maxPublicInterval.Milliseconds()) || k.GetPollers() > maxPollers || k.GetSize() > 1<<30 {
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

// openGrantRequest decodes a grant request and drops claims that its sender may not make.
func (c *Corona) openGrantRequest(domain string, m *coronapb.GrantRequest, now time.Time) (sender *overlay.Contact, requests []grantRequest) {
	sender, err := c.node.OpenRecord(m.Record)
	if err != nil {
		c.stats.Garbage++
		return nil, nil
	}
	claims := c.openClaims(sender, m.Claims, now)
	if claims == nil {
		return nil, nil
	}
	for _, k := range claims.Claims {
		key := overlay.Key(c.cfg.Network, k.Url)
		if spelled, err := feed.Canonical(k.Url); err != nil || spelled != k.Url || domainOf(k.Url) != domain || !c.mayLead(sender.ID, key) {
			c.stats.Misclaimed++
			continue
		}
		requests = append(requests, grantRequest{
			claim: claim{
				readers:  c.plausibleReaders(k.Readers),
				interval: max(min(time.Duration(k.IntervalMs)*time.Millisecond, maxPublicInterval), c.cfg.PollInterval),
				pollers:  min(max(int(k.Pollers), 1), c.members()),
				tieBreak: tieBreak(key),
			},
			key: key, bytes: int(k.Size), number: k.Number, at: timeOf(claims.AtMs),
		})
	}
	return sender, requests
}

// onGrantRequest takes a grant request of a sequencer.
func (c *Corona) onGrantRequest(domain string, sender *overlay.Contact, requests []grantRequest, now time.Time) {
	o, v := c.stewardOf(domain)
	if o == nil || !v.Leads {
		c.stats.Astray++
		return
	}
	c.startEpoch(o, v.Epoch, now)
	claimed := 0
	for _, a := range o.accounts {
		if a.claimedBy == sender.Peer.ID && !a.claimedAt.IsZero() {
			claimed++
		}
	}
	most := max(fairShareFactor*maxAccounts/c.members(), minAccountsPerMember)
	for _, b := range requests {
		a := o.account(b.key)
		if a == nil && claimed < most {
			a = c.openAccount(o, b.key)
			claimed++
		}
		if a == nil {
			c.stats.Crowded++
			continue
		}
		if a.claimedBy == sender.Peer.ID && !b.at.After(a.claimTime) {
			c.stats.Replayed++
			continue
		}
		a.setClaim(b, sender.Peer.ID, now, c.cfg.MaintenanceInterval)
		a.addRequester(requester{sender.Peer, b.number})
	}
	if o.issueAt.IsZero() {
		o.issueAt = now.Add(issuePause)
		c.politeness.stewardCalendar.Add(o.issueAt, o.key)
	}
}

// setClaim notes a claim. If two nodes claim to lead a channel, as just after a change of
// sequencer, both claims count for a while, so that neither reduces the other.
func (a *budgetAccount) setClaim(b grantRequest, by env.PeerID, now time.Time, maintenance time.Duration) {
	if !a.claimedAt.IsZero() && a.claimedBy != by && now.Sub(a.claimedAt) < maintenance*3/2 {
		k := &a.claim
		k.readers, k.pollers, k.interval = max(k.readers, b.readers), max(k.pollers, b.pollers), min(k.interval, b.interval)
		return
	}
	a.claim, a.contentBytes, a.claimedBy, a.claimTime, a.claimedAt = b.claim, b.bytes, by, b.at, now
}

// addRequester notes a node that is to get the channel's grant.
func (a *budgetAccount) addRequester(p requester) {
	a.requesters = slices.DeleteFunc(a.requesters, func(w requester) bool { return w.ID == p.ID })
	if len(a.requesters) < maxRequesters {
		a.requesters = append(a.requesters, p)
	}
}

// maxRequesters bounds the nodes that claim to lead one channel at the same time.
const maxRequesters = 4

// plausibleReaders bounds a claimed number of readers by what all members could have.
func (c *Corona) plausibleReaders(readers uint32) float64 {
	return min(float64(readers), maxReaders*float64(c.members()))
}

// members is the size of the network.
func (c *Corona) members() int { return max(c.node.Count(0), 1) }

// mayLead says whether a member is near enough to a key to be one of its owners in a network of
// this size, by the rule of overlay/owner for quorums.
func (c *Corona) mayLead(id, key overlay.ID) bool { return c.couldBeNearest(id, key, maxSigners) }

// couldBeNearest says whether a member can be one of the n nearest to a key in a network of this
// size. It allows 64 times as many candidates, because ids are not evenly spread.
func (c *Corona) couldBeNearest(id, key overlay.ID, n int) bool {
	want := -6
	for parts := c.members() / max(n, 1); parts > 1; parts /= 2 {
		want++
	}
	return id.Common(key) >= want
}

// dueForRenewal says whether half of a grant's lifetime is over. A grant is renewed then, so that
// one lost request does not let it expire.
func (c *Corona) dueForRenewal(e entry, now time.Time) bool {
	return e.expiry.Sub(now) <= c.grantLifetime()/2
}

// issueDue issues grants if this node is still the budget leader and has all ledgers.
func (c *Corona) issueDue(o *stewardState, now time.Time) {
	o.issueAt = time.Time{}
	if v, ok := c.politeness.owners.View(o.key); ok && v.Leads && o.leads(v.Epoch) && o.ledgerNonce == 0 {
		c.issueGrants(o, v.Epoch, now)
	}
}

// leads says whether the state belongs to this epoch.
func (o *stewardState) leads(e *owner.Epoch) bool { return o.epoch != nil && o.epoch.Hash == e.Hash }

// issueGrants makes grants for the sequencers that wait for one.
func (c *Corona) issueGrants(o *stewardState, e *owner.Epoch, now time.Time) {
	c.dropExpired(o, now)
	claims, accounts := o.claims()
	limit := budgetOf(claims, c.cfg.Compression)
	shares := shareOut(claims, allocatable(claims, limit))
	rates := o.grantedRates()
	var unchanged grantBatches
	var made []*pendingGrant
	for i, a := range accounts {
		if len(a.requesters) == 0 {
			continue
		}
		want := shares[i]
		last, granted := a.last()
		if now.Before(o.raiseAfter) {
			want.pollers = min(want.pollers, max(last.pollers, 1))
		}
		if granted && a.grantBytes != nil && a.epoch == e.Hash && !c.dueForRenewal(last, now) && similar(last.portion, want) {
			for _, p := range a.requesters {
				if p.number != last.number {
					unchanged.add(p.Peer, a.grantBytes)
				}
			}
			a.requesters = nil
			continue
		}
		if len(o.pendingGrants)+len(made) >= maxPendingGrants {
			continue
		}
		others := rates.rate - a.rate()
		got, ok := want.within(limit-others, limit*(1-reservePart)-others)
		if again, may := want.reduced(last.portion, limit*(1-reservePart)/rates.last); granted && may && (!ok || again.rate() > got.rate()) {
			got, ok = again, true
		}
		if !ok {
			c.stats.Short++
			a.requesters = nil
			continue
		}
		g := (&grant{
			domain: o.domain, key: a.key, portion: got, expiry: now.Add(c.grantLifetime()).Truncate(time.Millisecond),
			number: max(uint64(now.UnixMilli()), last.number+1), epoch: e.Hash,
		}).state()
		rates.add(a, -1)
		added := a.add(entry{g.portion, g.expiry, g.number, claims[i].readers})
		if rates.add(a, 1); !added {
			c.stats.Short++
			a.requesters = nil
			continue
		}
		made = append(made, &pendingGrant{grant: g, epoch: e, readers: claims[i].readers, requesters: a.requesters})
		a.requesters = nil
	}
	self := slices.Index(e.Owners, c.node.Self().Peer.ID)
	for _, s := range made {
		s.grant.signatures = []countersignature{{self, c.signer.Signature(wire.DomainGrant, s.grant.statement)}}
	}
	c.sendGrants(o.domain, unchanged)
	o.pendingGrants = append(o.pendingGrants, made...)
	c.requestSignatures(o, e, made, readersRate(claims))
	if c.sendSignedGrants(o); len(o.pendingGrants) > 0 {
		c.scheduleRetry(o, now)
	}
}

// allocatable is the part of a budget that is divided: all except the reserve. The reserve is used,
// too, if one poller for each channel needs it.
func allocatable(of []claim, budget float64) float64 {
	once := 0.
	for _, c := range of {
		once += c.onePollerRate()
	}
	return max(budget*(1-reservePart), min(budget, once*(1+1e-6)))
}

// similar says whether a changed portion is too close to the old one for a new grant, which would
// have to be told to all pollers.
func similar(was, want portion) bool {
	d := want.pollers - was.pollers
	return was.interval == want.interval && d*8 <= was.pollers && -d*8 <= was.pollers
}

// within fits a portion into the rest of a budget: one is the rest for a single poller, more for
// several. A single poller may get a longer interval.
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

// reduced is what a channel may keep when a budget has shrunk below the grants in force: a part of
// its pollers, and no shorter interval. So all channels give up some pollers, instead of the
// channels that ask last losing theirs.
func (s portion) reduced(last portion, part float64) (portion, bool) {
	n := int(float64(last.pollers)*min(part, 1) + 1e-9)
	return portion{min(s.pollers, n), max(s.interval, last.interval)}, n > 0
}

// retryRequests requests missing signatures or ledgers again. It stops waiting for a steward's
// ledger once a quorum has answered, because every grant was signed by a quorum.
func (c *Corona) retryRequests(o *stewardState, now time.Time) {
	v, ok := c.politeness.owners.View(o.key)
	if !ok || !v.Leads || v.Epoch == nil || !o.leads(v.Epoch) {
		o.pendingGrants = nil
		return
	}
	if o.ledgerNonce != 0 {
		switch o.ledgerTries++; {
		case len(o.ledgersFrom) >= v.Epoch.Quorum():
			o.ledgerNonce = 0
			c.issueGrants(o, v.Epoch, now)
		case o.ledgerTries < maxSignTries:
			c.requestLedgers(o, v.Epoch, now)
		default:
			o.epoch = nil // the next grant request starts the epoch again
		}
		return
	}
	o.pendingGrants = slices.DeleteFunc(o.pendingGrants, func(s *pendingGrant) bool {
		s.tries++
		return s.tries > maxSignTries
	})
	claims, _ := o.claims()
	c.requestSignatures(o, v.Epoch, o.pendingGrants, readersRate(claims))
	if len(o.pendingGrants) > 0 {
		c.scheduleRetry(o, now)
	}
}

// scheduleRetry plans retryRequests.
func (c *Corona) scheduleRetry(o *stewardState, now time.Time) {
	o.retryAt = now.Add(signRetry)
	c.politeness.stewardCalendar.Add(o.retryAt, o.key)
}
