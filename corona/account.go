package corona

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// stewardState is what a steward knows of the grants in force and, if it is the budget leader, of
// the channels that request some.
type stewardState struct {
	domain   string
	key      overlay.ID       // of the domain
	accounts []*budgetAccount // sorted by channel key

	// Only at the budget leader:
	epoch         *owner.Epoch    // the epoch for which this node has started to divide the budget; nil: none yet
	raiseAfter    time.Time       // until then a channel gets no more pollers than it has, or one
	ledgerNonce   uint64          // of the current ledger requests; 0: all ledgers are known
	ledgersFrom   []env.PeerID    // stewards that have answered or need not be asked
	ledgerTries   int             // how often ledgers were requested again
	issueAt       time.Time       // when grants are issued; zero: no request waits
	pendingGrants []*pendingGrant // grants that lack signatures
	retryAt       time.Time       // when missing answers are requested again
}

// budgetAccount is the account of one channel.
type budgetAccount struct {
	key     overlay.ID
	entries []entry // grants in force, ascending by number

	claim        claim
	claimedAt    time.Time   // when the last claim arrived; zero: none
	claimedBy    env.PeerID  // node that made the last claim,
	claimTime    time.Time   // and its time by that node's clock
	contentBytes int         // size of the channel's content; 0: not known
	requesters   []requester // nodes that wait for a grant
	grantBytes   []byte      // the last grant, encoded; nil: another node issued it
	epoch        owner.Hash  // of grantBytes
	audited
}

// requester is a node that requested a grant, with the number of the grant that it has.
type requester struct {
	env.Peer
	number uint64
}

// entry is a signed grant that has not expired.
type entry struct {
	portion
	expiry  time.Time
	number  uint64
	readers float64 // of the channel, from its claim
}

const (
	// maxAccounts bounds the channels of one domain, at several times those of the largest feed
	// hosts. maxAllAccounts bounds the channels of all domains at one steward. Further channels get
	// no grant.
	maxAccounts    = 16_384
	maxAllAccounts = 131_072
	// fairShareFactor bounds the accounts of a domain that one member may claim, as a multiple of
	// an even share. minAccountsPerMember is allowed in any case.
	fairShareFactor      = 8
	minAccountsPerMember = 64
	// grantIntervals is the lifetime of a grant in maintenance intervals.
	grantIntervals = 3
	// claimHalves is how long a claim counts without being repeated, in halves of a maintenance
	// interval.
	claimHalves = 5
	// clockSlack is the tolerated difference between clocks. Stewards count a grant for so much
	// longer than its expiry, and accept an expiry so much later than the lifetime allows.
	clockSlack = 5 * time.Minute
	// maxEntries bounds the grants in force of one channel.
	maxEntries = 16
)

// account returns the account of a channel; nil if it has none.
func (o *stewardState) account(key overlay.ID) *budgetAccount {
	if i, ok := o.find(key); ok {
		return o.accounts[i]
	}
	return nil
}

func (o *stewardState) find(key overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(o.accounts, key, func(a *budgetAccount, k overlay.ID) int { return bytes.Compare(a.key[:], k[:]) })
}

// openAccount returns the account of a channel, making one if there is room; nil if there is none.
func (st *steward) openAccount(o *stewardState, key overlay.ID) *budgetAccount {
	i, ok := o.find(key)
	if !ok {
		if len(o.accounts) >= maxAccounts || st.accountCount >= maxAllAccounts {
			return nil
		}
		st.accountCount++
		o.accounts = slices.Insert(o.accounts, i, &budgetAccount{key: key})
	}
	return o.accounts[i]
}

// dropExpired removes expired grants, and claims that were not repeated.
func (st *steward) dropExpired(o *stewardState, now time.Time) {
	var closed []overlay.ID
	o.accounts = slices.DeleteFunc(o.accounts, func(a *budgetAccount) bool {
		a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return !e.expiry.Add(clockSlack).After(now) })
		if !a.claimedAt.IsZero() && now.Sub(a.claimedAt) > st.cfg.MaintenanceInterval*claimHalves/2 {
			a.claimedAt, a.requesters, a.grantBytes = time.Time{}, nil, nil
		}
		ends := len(a.entries) == 0 && a.claimedAt.IsZero()
		if ends {
			closed = append(closed, a.key)
		}
		return ends
	})
	st.accountCount -= len(closed)
	st.forgetGrants(o, closed)
}

// rate is the highest rate that the grants in force of a channel allow, in requests per second. A
// cheating sequencer could combine the largest number of pollers with the shortest interval.
func (a *budgetAccount) rate() float64 {
	if len(a.entries) == 0 {
		return 0
	}
	s := a.entries[0].portion
	for _, e := range a.entries[1:] {
		s = portion{max(s.pollers, e.pollers), min(s.interval, e.interval)}
	}
	return s.rate()
}

// last is the latest grant in force of a channel.
func (a *budgetAccount) last() (entry, bool) {
	if len(a.entries) == 0 {
		return entry{}, false
	}
	return a.entries[len(a.entries)-1], true
}

// add notes a grant. It returns false if there is no room, or if another grant has the same number.
func (a *budgetAccount) add(e entry) bool {
	i, known := slices.BinarySearchFunc(a.entries, e.number, func(e entry, n uint64) int { return cmp.Compare(e.number, n) })
	switch {
	case known:
		return a.entries[i].portion == e.portion && a.entries[i].expiry.Equal(e.expiry)
	case len(a.entries) >= maxEntries:
		return false
	}
	a.entries = slices.Insert(a.entries, i, e)
	return true
}

// grantedRates are the rates that the grants in force allow for a domain, in requests per second.
type grantedRates struct {
	rate      float64 // all grants
	last      float64 // only the latest grant of each channel; it remains when the others have expired
	onePoller float64 // one poller for each channel
}

// grantedRates returns the rates of all grants in force.
func (o *stewardState) grantedRates() (sum grantedRates) {
	for _, a := range o.accounts {
		sum.add(a, 1)
	}
	return sum
}

// add adds the grants of one channel with sign 1, and removes them with sign -1.
func (i *grantedRates) add(a *budgetAccount, sign float64) {
	if e, ok := a.last(); ok {
		i.rate += sign * a.rate()
		i.last += sign * e.rate()
		i.onePoller += sign / e.interval.Seconds()
	}
}

// claims returns the claims that count, and their accounts. For a channel without a claim at this
// budget leader, its last grant counts as the claim.
func (o *stewardState) claims(now time.Time) (claims []claim, accounts []*budgetAccount) {
	total, n := 0, 0
	for _, a := range o.accounts {
		if !a.claimedAt.IsZero() && a.contentBytes > 0 {
			total += a.contentBytes
			n++
		}
	}
	for _, a := range o.accounts {
		k := a.claim
		if a.claimedAt.IsZero() {
			last, ok := a.last()
			if !ok {
				continue
			}
			k = claim{readers: last.readers, interval: last.interval, pollers: last.pollers, tieBreak: tieBreak(a.key)}
		} else if k.readers = a.counted(now); a.contentBytes > 0 {
			k.size = float64(a.contentBytes) * float64(n) / float64(total)
		}
		claims, accounts = append(claims, k), append(accounts, a)
	}
	return claims, accounts
}

// readersRate is the rate at which the readers of channels would poll by themselves, in requests
// per second.
func readersRate(of []claim) (rate float64) {
	for _, c := range of {
		rate += c.readers * c.onePollerRate()
	}
	return rate
}
