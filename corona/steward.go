package corona

import (
	"maps"
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

// A steward divides the budgets of the domains whose keys this node owns, or signs what their
// budget leaders divide.
type steward struct {
	*base
	permits *permits // for grants that this node makes for itself
	owners  Owners   // nil: domains have no budgets
	store   env.Store
	trees   Trees                // nil: claims of readers are not audited
	hint    func(key overlay.ID) // tells the sequencer of a channel that its document may have changed

	startedAt    time.Time                    // when this node started
	ledgerLost   bool                         // the grants that it had signed before could not be read
	states       map[overlay.ID]*stewardState // by domain key
	accountCount int                          // accounts of all states; at most maxAllAccounts
	rootAskedAt  map[overlay.ID]time.Time     // by domain key: the last grant request that this node got as the key's root
	calendar     env.Calendar[overlay.ID]     // domain keys with grants to issue or requests to repeat
	sweepAt      time.Time                    // when expired state is removed next
	audits       map[uint64]*audit            // questions about readers that have no answer yet, by nonce; at most maxAudits
}

// enable makes this node a steward of the keys that it owns.
func (st *steward) enable(owners Owners) {
	st.owners, st.startedAt = owners, st.clock.Now()
	st.states, st.rootAskedAt = map[overlay.ID]*stewardState{}, map[overlay.ID]time.Time{}
	st.sweepAt = st.startedAt.Add(st.cfg.MaintenanceInterval)
	st.loadGrants()
}

// run does what is due.
func (st *steward) run(now time.Time) {
	if st.owners == nil {
		return
	}
	for key, at, ok := st.calendar.Pop(now); ok; key, at, ok = st.calendar.Pop(now) {
		if o := st.states[key]; o != nil && o.issueAt.Equal(at) {
			st.issueDue(o, now)
		} else if o != nil && o.retryAt.Equal(at) {
			st.retryRequests(o, now)
		}
	}
	if !now.Before(st.sweepAt) {
		st.sweep(now)
	}
}

// next returns the time of the next run.
func (st *steward) next() time.Time { return env.Sooner(st.sweepAt, st.calendar.Next()) }

// sweep removes expired state.
func (st *steward) sweep(now time.Time) {
	st.sweepAt = now.Add(st.cfg.MaintenanceInterval)
	for key, o := range st.states {
		if st.dropExpired(o, now); len(o.accounts) == 0 && len(o.pendingGrants) == 0 {
			delete(st.states, key)
		}
	}
	st.endAudits(now)
	maps.DeleteFunc(st.rootAskedAt, func(key overlay.ID, _ time.Time) bool { return !st.StewardKeyInUse(key) })
}

// deliver takes a message that was routed to a domain's key, or to that of a channel's second tree. This node is the key's
// root or its sequencer. The first grant request for a domain makes the root claim ownership of the key.
func (st *steward) deliver(key overlay.ID, m *coronapb.Politeness) {
	if q := m.GetReadersRequest(); q != nil {
		st.onReadersRequest(key, m.Domain, q)
		return
	}
	if st.owners == nil || overlay.StewardKey(st.cfg.Network, m.Domain) != key || m.GetGrantRequest() == nil && m.GetSiteHint() == nil {
		st.stats.Garbage++
		return
	}
	if m.GetSiteHint() != nil {
		st.onSiteHint(m.Domain, true)
		return
	}
	now := st.clock.Now()
	sender, requests := st.openGrantRequest(m.Domain, m.GetGrantRequest(), now)
	if len(requests) == 0 {
		return
	}
	if len(st.rootAskedAt) < maxStewardStates {
		st.rootAskedAt[key] = now
	}
	switch v, _ := st.owners.View(key); {
	case v.Epoch == nil:
		st.owners.RequestOwners(key, overlay.StewardURL(m.Domain), func(bool) {}) // the sender repeats its request
	case v.Leads:
		st.onGrantRequest(m.Domain, sender, requests, now)
	case v.Epoch.Sequencer != st.node.Self().Peer.ID:
		st.sendPoliteness(st.peer(v.Epoch.Sequencer), m.Domain, m)
	}
}

// receive takes a message that was sent to this node directly.
func (st *steward) receive(from env.PeerID, m *coronapb.Politeness) {
	if st.owners == nil {
		st.stats.Astray++
		return
	}
	now := st.clock.Now()
	switch b := m.Body.(type) {
	case *coronapb.Politeness_GrantRequest:
		if sender, requests := st.openGrantRequest(m.Domain, b.GrantRequest, now); len(requests) > 0 {
			st.onGrantRequest(m.Domain, sender, requests, now)
		}
	case *coronapb.Politeness_SiteHint:
		st.onSiteHint(m.Domain, false)
	case *coronapb.Politeness_GrantResponse:
		st.permits.onGrantResponse(m.Domain, b.GrantResponse)
	case *coronapb.Politeness_Countersign:
		st.onCountersign(from, m.Domain, b.Countersign, now)
	case *coronapb.Politeness_Countersigned:
		st.onCountersigned(from, m.Domain, b.Countersigned)
	case *coronapb.Politeness_ReadersResponse:
		st.onReadersResponse(from, b.ReadersResponse, now)
	case *coronapb.Politeness_LedgerRequest:
		st.onLedgerRequest(from, m.Domain, b.LedgerRequest)
	case *coronapb.Politeness_Ledger:
		st.onLedger(from, m.Domain, b.Ledger, now)
	}
}

// StewardKeyInUse says whether this node, as the root of a domain's key, has recently got a grant
// request. Such a key is in use although nobody subscribes to its log.
func (st *steward) StewardKeyInUse(key overlay.ID) bool {
	return st.owners != nil && st.clock.Now().Sub(st.rootAskedAt[key]) < 6*st.cfg.MaintenanceInterval
}

// stewardOf returns the steward state of a domain, making one if this node owns the domain's key;
// nil if it does not.
func (st *steward) stewardOf(domain string) (*stewardState, owner.View) {
	key := overlay.StewardKey(st.cfg.Network, domain)
	v, ok := st.owners.View(key)
	if !ok || v.Epoch == nil || !v.Owns {
		return nil, v
	}
	o := st.states[key]
	if o == nil {
		if len(st.states) >= maxStewardStates {
			return nil, v
		}
		o = &stewardState{domain: domain, key: key}
		st.states[key] = o
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
func (st *steward) openClaims(by *overlay.Contact, raw []byte, now time.Time) *coronapb.Claims {
	s, err := st.verifier.Open(wire.DomainRequest, raw)
	m := new(coronapb.Claims)
	if err != nil || wire.PeerIDOf(s.Key) != by.Peer.ID || proto.Unmarshal(s.Payload, m) != nil || len(m.Claims) > maxClaims || m.AtMs > wire.MaxMillis {
		st.stats.Garbage++
		return nil
	}
	for _, k := range m.Claims {
		if len(k.GetUrl()) > maxURL || k.GetIntervalMs() == 0 || k.GetIntervalMs() > uint64(maxPublicInterval.Milliseconds()) || k.GetPollers() > maxPollers || k.GetSize() > 1<<30 {
			st.stats.Garbage++
			return nil
		}
	}
	if at := timeOf(m.AtMs); at.After(now.Add(clockSlack)) || now.Sub(at) > clockSlack+st.cfg.MaintenanceInterval*claimHalves/2 {
		st.stats.Replayed++
		return nil
	}
	return m
}

// openGrantRequest decodes a grant request and drops claims that its sender may not make.
func (st *steward) openGrantRequest(domain string, m *coronapb.GrantRequest, now time.Time) (sender *overlay.Contact, requests []grantRequest) {
	sender, err := st.node.OpenMember(m.Record)
	if err != nil {
		st.stats.Garbage++
		return nil, nil
	}
	claims := st.openClaims(sender, m.Claims, now)
	if claims == nil {
		return nil, nil
	}
	for _, k := range claims.Claims {
		key := overlay.Key(st.cfg.Network, k.Url)
		at, _ := Origin(k.Url)
		if spelled, err := feed.Canonical(k.Url); err != nil || spelled != k.Url || at != domain || !st.mayLead(sender.ID, key) {
			st.stats.Misclaimed++
			continue
		}
		requests = append(requests, grantRequest{
			claim: claim{
				readers:  st.plausibleReaders(k.Readers),
				interval: max(min(time.Duration(k.IntervalMs)*time.Millisecond, maxPublicInterval), st.cfg.PollInterval),
				pollers:  min(max(int(k.Pollers), 1), st.members()),
				tieBreak: tieBreak(key),
			},
			key: key, bytes: int(k.Size), number: k.Number, at: timeOf(claims.AtMs),
		})
	}
	return sender, requests
}

// onGrantRequest takes a grant request of a sequencer.
func (st *steward) onGrantRequest(domain string, sender *overlay.Contact, requests []grantRequest, now time.Time) {
	o, v := st.stewardOf(domain)
	if o == nil || !v.Leads {
		st.stats.Astray++
		return
	}
	st.startEpoch(o, v.Epoch, now)
	claimed := 0
	for _, a := range o.accounts {
		if a.claimedBy == sender.Peer.ID && !a.claimedAt.IsZero() {
			claimed++
		}
	}
	most := max(fairShareFactor*maxAccounts/st.members(), minAccountsPerMember)
	for _, b := range requests {
		a := o.account(b.key)
		if a == nil && claimed < most {
			a = st.openAccount(o, b.key)
			claimed++
		}
		if a == nil {
			st.stats.Crowded++
			continue
		}
		if a.claimedBy == sender.Peer.ID && !b.at.After(a.claimTime) {
			st.stats.Replayed++
			continue
		}
		a.setClaim(b, sender.Peer.ID, now, st.cfg.MaintenanceInterval)
		a.addRequester(requester{sender.Peer, b.number})
		st.auditClaim(o, a, sender.ID, now)
	}
	st.issueBy(o, now.Add(issuePause))
}

// issueBy plans to issue grants, unless that is planned already.
func (st *steward) issueBy(o *stewardState, at time.Time) {
	if o.issueAt.IsZero() {
		o.issueAt = at
		st.calendar.Add(at, o.key)
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
func (st *steward) plausibleReaders(readers uint32) float64 {
	return min(float64(readers), maxReaders*float64(st.members()))
}

// dueForRenewal says whether half of a grant's lifetime is over. A grant is renewed then, so that
// one lost request does not let it expire.
func (st *steward) dueForRenewal(e entry, now time.Time) bool {
	return e.expiry.Sub(now) <= st.grantLifetime()/2
}

// issueDue issues grants if this node is still the budget leader and has all ledgers.
func (st *steward) issueDue(o *stewardState, now time.Time) {
	o.issueAt = time.Time{}
	if v, ok := st.owners.View(o.key); ok && v.Leads && o.leads(v.Epoch) && o.ledgerNonce == 0 {
		st.issueGrants(o, v.Epoch, now)
	}
}

// leads says whether the state belongs to this epoch.
func (o *stewardState) leads(e *owner.Epoch) bool { return o.epoch != nil && o.epoch.Hash == e.Hash }

// issueGrants makes grants for the sequencers that wait for one.
func (st *steward) issueGrants(o *stewardState, e *owner.Epoch, now time.Time) {
	st.dropExpired(o, now)
	claims, accounts := o.claims(now)
	limit := budgetOf(claims, st.cfg.Compression)
	shares := shareOut(claims, allocatable(claims, limit))
	rates := o.grantedRates()
	var unchanged grantBatches
	var made []*pendingGrant
	for i, a := range accounts {
		if len(a.requesters) == 0 {
			continue
		}
		if a.nonce != 0 && now.Before(a.waitUntil) {
			st.issueBy(o, a.waitUntil)
			continue
		}
		want := shares[i]
		last, granted := a.last()
		if now.Before(o.raiseAfter) {
			want.pollers = min(want.pollers, max(last.pollers, 1))
		}
		if granted && a.grantBytes != nil && a.epoch == e.Hash && !st.dueForRenewal(last, now) && similar(last.portion, want) {
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
			st.stats.Short++
			a.requesters = nil
			continue
		}
		g := (&grant{
			domain: o.domain, key: a.key, portion: got, expiry: now.Add(st.grantLifetime()).Truncate(time.Millisecond),
			number: max(uint64(now.UnixMilli()), last.number+1), epoch: e.Hash,
		}).state()
		rates.add(a, -1)
		added := a.add(entry{g.portion, g.expiry, g.number, claims[i].readers})
		if rates.add(a, 1); !added {
			st.stats.Short++
			a.requesters = nil
			continue
		}
		made = append(made, &pendingGrant{grant: g, epoch: e, readers: claims[i].readers, requesters: a.requesters})
		a.requesters = nil
	}
	st.sendGrants(o.domain, unchanged)
	if len(made) == 0 {
		return
	}
	o.pendingGrants = append(o.pendingGrants, made...)
	channels := make([]overlay.ID, len(made))
	for i, s := range made {
		channels[i] = s.grant.key
	}
	st.saveGrants(o, channels, func() { st.signGrants(o, e, made, readersRate(claims)) })
}

// signGrants signs grants that are durable, and asks the other stewards to sign them.
func (st *steward) signGrants(o *stewardState, e *owner.Epoch, made []*pendingGrant, readers float64) {
	if !o.leads(e) {
		return // the budget has another leader since
	}
	self := slices.Index(e.Owners, st.node.Self().Peer.ID)
	for _, s := range made {
		s.grant.signatures = append(s.grant.signatures, countersignature{self, st.signer.Signature(wire.DomainGrant, s.grant.statement)})
	}
	st.requestSignatures(o, e, made, readers)
	if st.sendSignedGrants(o); len(o.pendingGrants) > 0 {
		st.scheduleRetry(o, st.clock.Now())
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
func (st *steward) retryRequests(o *stewardState, now time.Time) {
	v, ok := st.owners.View(o.key)
	if !ok || !v.Leads || v.Epoch == nil || !o.leads(v.Epoch) {
		o.pendingGrants = nil
		return
	}
	if o.ledgerNonce != 0 {
		switch o.ledgerTries++; {
		case len(o.ledgersFrom) >= v.Epoch.Quorum():
			o.ledgerNonce = 0
			st.issueGrants(o, v.Epoch, now)
		case o.ledgerTries < maxSignTries:
			st.requestLedgers(o, v.Epoch, now)
		default:
			o.epoch = nil // the next grant request starts the epoch again
		}
		return
	}
	o.pendingGrants = slices.DeleteFunc(o.pendingGrants, func(s *pendingGrant) bool {
		s.tries++
		return s.tries > maxSignTries
	})
	claims, _ := o.claims(now)
	st.requestSignatures(o, v.Epoch, o.pendingGrants, readersRate(claims))
	if len(o.pendingGrants) > 0 {
		st.scheduleRetry(o, now)
	}
}

// scheduleRetry plans retryRequests.
func (st *steward) scheduleRetry(o *stewardState, now time.Time) {
	o.retryAt = now.Add(signRetry)
	st.calendar.Add(o.retryAt, o.key)
}
