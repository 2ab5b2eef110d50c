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

// An office is what an owner of a domain's key knows of the grants that are out, and, at the
// key's sequencer, of the channels that want some.
type office struct {
	domain   string
	key      overlay.ID // the domain's
	accounts []*account // by the keys of channels

	// At the sequencer:
	epoch   *owner.Epoch // in which it has begun to share out; nil: not yet
	settled time.Time    // from when on channels get more than they have, or than one poller
	nonce   uint64       // of the question what others have signed; 0: it is known
	heard   []env.PeerID // who have answered, or need not be asked
	urged   int          // how often it was asked again
	dealAt  time.Time    // when those who wait for grants get them; zero: nobody waits
	signing []*signing   // grants that lack signatures
	urgeAt  time.Time    // when answers that are missing are asked for again
}

// An account is that of one channel.
type account struct {
	key     overlay.ID
	entries []entry // of grants that are out, by rising numbers

	claim   claim
	claimed time.Time  // when it was made last; zero: never
	asker   env.PeerID // by whom,
	at      time.Time  // and when by that one's clock
	bytes   int        // the size of the channel's content; 0: not known
	waits   []asking   // who are to be told
	grant   []byte     // the last one, as it was told; nil: it is another sequencer's
	epoch   owner.Hash // of that
}

// An asking is somebody who asked for a grant, and the number of the one that it has.
type asking struct {
	env.Peer
	number uint64
}

// An entry is a grant that was signed, and not expired.
type entry struct {
	portion
	expiry  time.Time
	number  uint64
	readers float64 // of the channel, as its claim had them
}

const (
	// maxAccounts bounds the channels of one domain, those of the largest hosts of feeds
	// several times, and maxAllAccounts those of all domains at one owner; further ones get no grant.
	maxAccounts    = 16_384
	maxAllAccounts = 131_072
	// fairAccounts is how many times as many of a domain's accounts one member may claim as it
	// would if all had as many, and fewAccounts what it may in any case.
	fairAccounts = 8
	fewAccounts  = 64
	// grantRounds is how many maintenance intervals a grant lasts.
	grantRounds = 3
	// claimHalves is how long a claim counts that is not made again, in halves of them.
	claimHalves = 5
	// clockSlack is by how much clocks may differ: so much longer than it says a grant counts,
	// and so much longer than it is to last owners let it.
	clockSlack = 5 * time.Minute
	// maxEntries bounds the grants of one channel that are out.
	maxEntries = 16
)

// life is how long a grant lasts.
func (c *Corona) life() time.Duration { return grantRounds * c.cfg.MaintenanceInterval }

// account returns that of a channel, nil if it has none.
func (o *office) account(key overlay.ID) *account {
	if i, ok := o.find(key); ok {
		return o.accounts[i]
	}
	return nil
}

func (o *office) find(key overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(o.accounts, key, func(a *account, k overlay.ID) int { return bytes.Compare(a.key[:], k[:]) })
}

// open returns the account of a channel, making it if there is room; nil if there is none.
func (c *Corona) open(o *office, key overlay.ID) *account {
	i, ok := o.find(key)
	if !ok {
		if len(o.accounts) >= maxAccounts || c.manners.held >= maxAllAccounts {
			return nil
		}
		c.manners.held++
		o.accounts = slices.Insert(o.accounts, i, &account{key: key})
	}
	return o.accounts[i]
}

// tidy forgets what is over: grants, and claims that were not made again.
func (c *Corona) tidy(o *office, now time.Time) {
	had := len(o.accounts)
	o.accounts = slices.DeleteFunc(o.accounts, func(a *account) bool {
		a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return !e.expiry.Add(clockSlack).After(now) })
		if !a.claimed.IsZero() && now.Sub(a.claimed) > c.cfg.MaintenanceInterval*claimHalves/2 {
			a.claimed, a.waits, a.grant = time.Time{}, nil, nil
		}
		return len(a.entries) == 0 && a.claimed.IsZero()
	})
	c.manners.held -= had - len(o.accounts)
}

// rate is how often the grants that are out for a channel let it be asked, in requests a
// second: whoever plays them off against one another has the pollers of the largest, at the
// shortest interval.
func (a *account) rate() float64 {
	if len(a.entries) == 0 {
		return 0
	}
	s := a.entries[0].portion
	for _, e := range a.entries[1:] {
		s = portion{max(s.pollers, e.pollers), min(s.interval, e.interval)}
	}
	return s.rate()
}

// last is the latest grant that is out for a channel.
func (a *account) last() (entry, bool) {
	if len(a.entries) == 0 {
		return entry{}, false
	}
	return a.entries[len(a.entries)-1], true
}

// add notes a grant. It returns false if there is no room, or another one of its number.
func (a *account) add(e entry) bool {
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

// An issue is how often the grants that are out let a domain be asked, in requests a second.
type issue struct {
	rate float64 // all of them
	last float64 // the latest of each channel, which are left when the others have expired
	once float64 // one poller for each channel
}

// out returns what is out.
func (o *office) out() (sum issue) {
	for _, a := range o.accounts {
		sum.add(a, 1)
	}
	return sum
}

// add adds what is out for one channel, or takes it away.
func (i *issue) add(a *account, sign float64) {
	if e, ok := a.last(); ok {
		i.rate += sign * a.rate()
		i.last += sign * e.rate()
		i.once += sign / e.interval.Seconds()
	}
}

// claims returns the claims that count, and whose they are. Of a channel that has made none
// to this sequencer yet, its grant is one.
func (o *office) claims() (of []claim, whose []*account) {
	total, n := 0, 0
	for _, a := range o.accounts {
		if !a.claimed.IsZero() && a.bytes > 0 {
			total += a.bytes
			n++
		}
	}
	for _, a := range o.accounts {
		k := a.claim
		if a.claimed.IsZero() {
			last, ok := a.last()
			if !ok {
				continue
			}
			k = claim{readers: last.readers, interval: last.interval, pollers: last.pollers, tie: tie(a.key)}
		} else if a.bytes > 0 {
			k.size = float64(a.bytes) * float64(n) / float64(total)
		}
		of, whose = append(of, k), append(whose, a)
	}
	return of, whose
}

// readersRate is how often the readers of channels would ask, in requests a second.
func readersRate(of []claim) (rate float64) {
	for _, c := range of {
		rate += c.readers * c.once()
	}
	return rate
}
