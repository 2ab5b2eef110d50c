package owner

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// An Application is what the layers above make of a log.
type Application interface {
	// Lead tells that this node has become the sequencer of a key, with all
	// that was held in hand, or that it is so no longer.
	Lead(key overlay.ID, on bool)

	// Grew tells that what Shown returns of a key is another.
	Grew(key overlay.ID)

	// Held tells the sequencer that a quorum holds an entry: it may go down
	// the tree. After a change of sequencer, entries come again.
	Held(key overlay.ID, e *Entry, body []byte)

	// Absorb hands the sequencer a body of another lineage, to be appended as
	// far as it brings anything new.
	Absorb(key overlay.ID, body []byte)

	// Absorbing says whether something of what Absorb took is still to be
	// appended.
	Absorbing(key overlay.ID) bool
	// Merged says that another lineage has ended in that of the sequencer, this node: who
	// followed it may not know yet.
	Merged(key overlay.ID)

	// Weight returns the clients of a key's tree as its root counts them; ok is
	// false where this node is not the root.
	Weight(key overlay.ID) (weight int, ok bool)

	// Siblings are followers of a key that this node knows.
	Siblings(key overlay.ID) []*overlay.Contact
}

// Config is what an Owners is told. A zero field means its default.
type Config struct {
	// Owners is n, the number of owners of a key. Default 5.
	Owners int
	// Lease is how long a quorum may stay silent before the others go on
	// without it. Default 10 min.
	Lease time.Duration
	// BeatInterval is the time between two comparisons of sequencer and owner.
	// Default 1 min.
	BeatInterval time.Duration
	// Epochs remembers the epochs that others send. Nil: nobody does; nodes of one
	// goroutine may share one.
	Epochs *Epochs
}

func (c Config) filled() Config {
	if c.Owners == 0 {
		c.Owners = 5
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Minute
	}
	if c.BeatInterval == 0 {
		c.BeatInterval = time.Minute
	}
	return c
}

const (
	// answerTime is how long an owner may take before it is asked again.
	answerTime = time.Second
	// settleTime is waited after a change of the leaf: members come and go in
	// groups, and each change of owners costs three rounds.
	settleTime = 2 * time.Second
	// rankTime is how much later the next owner tries to take over than the one
	// before it.
	rankTime = 3 * time.Second
	// maxSeats bounds the keys one node has to do with. At the bound a Want is
	// dropped: its sender tries again, when others may be nearer.
	maxSeats = 200_000
)

// Owners is one node's part in all logs. It is not safe for concurrent use.
type Owners struct {
	cfg    Config
	clock  env.Clock
	net    env.Network
	store  env.Store
	worker env.Worker
	rand   *rand.Rand
	log    *slog.Logger
	node   *overlay.Node
	signer *wire.Signer
	verify wire.Verifier
	app    Application
	self   env.PeerID
	stats  Stats

	seats   map[overlay.ID]*seat
	order   roster                // the same
	ledBy   map[env.PeerID]roster // those this node owns, by their sequencers
	retired map[overlay.ID]*seat  // the locks of keys this node has to do with no longer
	cache   bodies
	// volatile entries are in a log and not durable yet.
	volatile map[Hash]bool
	cal      env.Calendar[task]
	upkeep   time.Time                // when all seats are to be looked at; zero: not
	beats    map[env.PeerID]time.Time // sequencers by their last beat that matched
	lists    map[env.PeerID]map[overlay.ID]bool
	nonce    uint64
	pulling  int // bytes that the pulls under way have brought, or are about to
	asking   map[overlay.ID]*asking
	bids     int          // that hold a place
	line     []overlay.ID // keys that wait for one
	started  bool
	leaving  *handOver // it gives away what it leads, and owns nothing new; nil: it stays
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskBid      taskKind = iota // try to make an epoch
	taskBidder                   // answers to a bid may be missing
	taskLine                     // there is room for another bid
	taskHold                     // acknowledgements of an entry may be missing
	taskPull                     // an answer to a Pull may be missing
	taskBeat                     // compare with the owners
	taskMeet                     // tell another lineage
	taskLook                     // who lives near a key of another leaf may be looked up again
	taskAsk                      // an answer to a Where may be missing
	taskUpkeep                   // the leaf has changed
	taskKeep                     // the owners of a key may have changed while it got others
	taskHandOver                 // what is not handed over by now stays so
)

// New returns the Owners of a node, with what an earlier life left in the store,
// and registers it. It acts when the node is active.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*Owners, error) {
	o := &Owners{
		cfg:     cfg.filled(),
		clock:   e.Clock,
		net:     e.Network,
		store:   e.Store,
		worker:  e.Worker,
		rand:    e.Rand,
		log:     e.Log,
		node:    node,
		signer:  signer,
		verify:  verify,
		app:     app,
		self:    signer.PeerID(),
		seats:   map[overlay.ID]*seat{},
		ledBy:   map[env.PeerID]roster{},
		retired: map[overlay.ID]*seat{},
		cache:   bodies{by: map[Hash][]byte{}},

		volatile: map[Hash]bool{},
		beats:    map[env.PeerID]time.Time{},
		lists:    map[env.PeerID]map[overlay.ID]bool{},
		asking:   map[overlay.ID]*asking{},
	}
	o.cache.pinned = func(h Hash) bool { return o.volatile[h] }
	if err := o.load(); err != nil {
		return nil, err
	}
	node.Handle(wire.Owner, o)
	o.after(o.spread(o.cfg.BeatInterval), task{kind: taskBeat})
	return o, nil
}

func (o *Owners) after(d time.Duration, t task) { o.cal.Add(o.clock.Now().Add(d), t) }

// spread returns d give or take a quarter.
func (o *Owners) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(o.rand.Int64N(int64(d)/2+1))
}

// Run does what is due and returns when it wants to be run next.
func (o *Owners) Run(now time.Time) time.Time {
	if !o.started && o.node.State() == overlay.Active {
		o.started = true
		o.resume()
	}
	for {
		t, _, ok := o.cal.Pop(now)
		if !ok {
			return o.cal.Next()
		}
		s := o.seats[t.key]
		switch t.kind {
		case taskBid:
			if s != nil && !s.bidAt.IsZero() && !s.bidAt.After(now) {
				s.bidAt = time.Time{}
				o.tryBid(s)
			}
		case taskBidder:
			if s != nil && s.bid != nil {
				o.urge(s, now)
			}
		case taskLine:
			o.nextInLine()
		case taskHold:
			if s != nil && s.lead != nil {
				o.urgeHold(s, now)
			}
		case taskPull:
			if s != nil && s.pull != nil {
				o.urgePull(s, now)
			}
		case taskMeet:
			if s != nil {
				s.meeting = false
				o.meetAgain(s, now)
			}
		case taskLook:
			if s != nil {
				o.lookNow(s)
			}
		case taskAsk:
			o.askAgain(t.key, now)
		case taskBeat:
			o.beat(now)
			o.after(o.spread(o.cfg.BeatInterval), t)
		case taskUpkeep:
			if !o.upkeep.IsZero() && !o.upkeep.After(now) {
				o.upkeep = time.Time{}
				o.keepUp()
			}
		case taskKeep:
			if s != nil && o.owns(s) {
				o.keepOwners(s)
			}
		case taskHandOver:
			o.handOverLate(now)
		}
	}
}

// resume takes up the keys of an earlier life: the node leads those it led.
func (o *Owners) resume() {
	for _, s := range o.sorted() {
		s.heard = o.clock.Now()
		if o.leads(s) {
			o.takeLead(s)
		}
	}
	o.LeafChanged()
}

// Want makes the key of a URL owned, if it is not yet. If this node keeps a log of
// the key whose owners have all gone, the new ones go on with that. done is called
// when the root has heard of it, or with false when it could not be reached.
func (o *Owners) Want(key overlay.ID, url string, done func(ok bool)) {
	want := &ownerpb.Want{Url: url}
	if s := o.seats[key]; s != nil && len(s.log) > 0 && o.node.State() == overlay.Active {
		want.Record = o.node.Self().Raw
	}
	o.node.Route(wire.Owner, key, encode(&ownerpb.Message{Body: &ownerpb.Message_Want{Want: want}}),
		func(_ overlay.Receipt, ok bool) { done(ok) })
}

// Follow keeps the log of a key here from now on.
func (o *Owners) Follow(key overlay.ID, url string) {
	s := o.seat(key, url)
	if !s.follow {
		s.follow = true
		o.save(s, nil)
	}
}

// Unfollow ends a Follow.
func (o *Owners) Unfollow(key overlay.ID) {
	s := o.seats[key]
	if s == nil || !s.follow {
		return
	}
	s.follow = false
	o.Release(key, Hash{})
	if !o.owns(s) {
		o.forget(s)
		return
	}
	o.save(s, nil)
}

func (o *Owners) seat(key overlay.ID, url string) *seat {
	s := o.seats[key]
	if s == nil {
		s = &seat{key: key, url: url}
		if locks := o.retired[key]; locks != nil {
			s.promised, s.signed = locks.promised, locks.signed
			delete(o.retired, key)
		}
		s.heard = o.clock.Now()
		o.enter(s)
	}
	return s
}

// PeerGone is not needed: owners are members of one leaf, whose changes tell.
func (o *Owners) PeerGone(env.PeerID) {}

// LeafChanged looks, a little later, who should own what this node owns.
func (o *Owners) LeafChanged() {
	if o.upkeep.IsZero() {
		o.upkeep = o.clock.Now().Add(settleTime)
		o.cal.Add(o.upkeep, task{kind: taskUpkeep})
	}
}
