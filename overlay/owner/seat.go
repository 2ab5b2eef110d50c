package owner

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A seat is a node's place at one key: as owner, as follower, or as both.
type seat struct {
	key    overlay.ID
	url    string
	follow bool

	epoch *Epoch   // in force, as far as this node knows; nil: none yet; see setEpoch
	owned bool     // this node is one of its owners
	open  []*Epoch // signed here, and not known to be certified or never to be

	log   chain // see setLog
	items int   // that its entries hold
	size  int   // of their bodies, in bytes

	settled Hash  // the last entry that a quorum is known to hold
	shown   chain // what readers may see of the log
	gone    chain // what they were shown of logs that this node has left, to be read once more

	// Locks, durable before they are acted on.
	promised votes // no entry of an older epoch is held any more
	signed   votes // the last epoch of each lineage that was signed

	seen uint32 // the highest epoch that somebody else was promised

	note    []byte // the replicated record
	version uint64

	weight   int       // clients, as the root counts them
	weighed  time.Time // when it said so
	read     time.Time // when there were clients, as the sequencer last knew
	reported int       // what this node, as the root, reported last
	heard    time.Time // the sequencer's last sign of life about this key
	left     time.Time // since when this node is no owner

	lead *lead // while this node is the sequencer
	bid  *bid  // while it is a candidate
	pull *pull // while it pulls

	sight  *sighting  // of a key in another leaf: who was found there; nil: nobody has looked
	teller env.PeerID // who told of others, and is asked when it may be looked again; "": nobody

	bidAt   time.Time                // when to try to take over or to change the owners
	inLine  bool                     // to do so when there is room
	stuck   time.Time                // since when no quorum answers
	rival   *Epoch                   // of another lineage that lives; nil: none is known
	met     time.Time                // when it was heard of last
	given   time.Time                // when it gave way last
	meeting bool                     // it was told of this one a moment ago
	void    map[Hash]bool            // own drafts of epochs that came to nothing
	foreign map[env.PeerID]time.Time // who owns the key in another lineage, or gives it up, and said so when
	merge   *merge                   // while another lineage's entries are appended here
}

// A vote is a promise or a signature: for an epoch of this number, to one.
type vote struct {
	lineage uint64
	number  uint32
	to      env.PeerID // the candidate
	hash    Hash       // of the statement, if it was signed
	sure    bool       // of a signature: it is durable, and may be told
}

// votes are the last vote in each lineage. Lineages are few: maxVotes of them are
// remembered, the latest.
type votes []vote

const maxVotes = 8

// in returns the vote in a lineage, the zero vote if there was none.
func (v votes) in(lineage uint64) vote {
	for _, w := range v {
		if w.lineage == lineage {
			return w
		}
	}
	return vote{}
}

// cast notes a vote in place of an earlier one of its lineage.
func (v *votes) cast(w vote) {
	*v = slices.DeleteFunc(*v, func(old vote) bool { return old.lineage == w.lineage })
	*v = append(*v, w)
	if len(*v) > maxVotes {
		*v = slices.Clone((*v)[1:])
	}
}

func (v votes) wire() (of []*ownerpb.Vote) {
	for _, w := range v {
		of = append(of, &ownerpb.Vote{Lineage: w.lineage, Number: w.number, To: []byte(w.to), Hash: w.hash.bytes()})
	}
	return of
}

func votesFrom(of []*ownerpb.Vote) (v votes) {
	for _, m := range of {
		h, _ := hashFrom(m.GetHash())
		v = append(v, vote{m.GetLineage(), m.GetNumber(), env.PeerID(m.GetTo()), h, true})
	}
	return v
}

// owns says whether the node is one of the owners in force.
func (o *Owners) owns(s *seat) bool { return s.owned }

// leads says whether the node is the sequencer in force.
func (o *Owners) leads(s *seat) bool { return s.epoch != nil && s.epoch.Sequencer == o.self }

// Keys of the store: one record for each seat, and each entry and body of its log.
const (
	seatPrefix  = "owner/seat/"
	entryPrefix = "owner/entry/"
	bodyPrefix  = "owner/body/"
)

func seatKey(key overlay.ID) []byte { return append([]byte(seatPrefix), key[:]...) }

// entryKey orders the entries of a log.
func entryKey(e *Entry) []byte {
	k := append([]byte(entryPrefix), e.Key[:]...)
	k = binary.BigEndian.AppendUint64(k, e.At.Seq)
	return append(k, e.Hash[:8]...)
}

func bodyKey(e *Entry) []byte {
	return append(append([]byte(bodyPrefix), e.Key[:]...), e.Hash[:]...)
}

// record is the operation that stores a seat.
func (s *seat) record() env.Op {
	m := &ownerpb.Seat{
		Url:      s.url,
		Follow:   s.follow,
		Epoch:    s.epoch.wire(),
		Open:     epochsPB(s.open),
		Promised: s.promised.wire(),
		Signed:   s.signed.wire(),
		Note:     s.note,
		Version:  s.version,
	}
	return env.Op{Key: seatKey(s.key), Value: marshal(m)}
}

// save makes a seat durable, with what else belongs to the change, and then goes
// on. If the disk refuses, it does not go on: nothing was promised.
func (o *Owners) save(s *seat, then func(), ops ...env.Op) {
	o.store.Commit(append(ops, s.record()), func(err error) {
		if err != nil {
			o.stats.Unsaved++
			o.log.Debug("log of a feed could not be stored", "url", s.url, "err", err)
			return
		}
		if then != nil {
			then()
		}
	})
}

// load reads what an earlier life left. What cannot be read is lost for this node
// and is pulled again.
func (o *Owners) load() error {
	err := o.store.Range([]byte(seatPrefix), func(key, value []byte) bool {
		s, err := o.loadSeat(key, value)
		if err != nil {
			o.stats.Damaged++
			o.log.Warn("log of a feed is unreadable and is pulled from the network again", "err", err)
			return true
		}
		if s.epoch == nil && !s.follow {
			o.retired[s.key] = s
		} else {
			o.enter(s)
		}
		return true
	})
	if err := o.damage(err); err != nil {
		return fmt.Errorf("read seats: %w", err)
	}
	err = o.store.Range([]byte(entryPrefix), func(key, value []byte) bool {
		if err := o.loadEntry(value); err != nil {
			o.stats.Damaged++
			url := ""
			if k := key[len(entryPrefix):]; len(k) > len(overlay.ID{}) {
				if s := o.seats[overlay.ID(k[:len(overlay.ID{})])]; s != nil {
					url = s.url
				}
			}
			o.log.Warn("entry of a log is unreadable and is pulled from the network again", "url", url, "err", err)
		}
		return true
	})
	if err := o.damage(err); err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	for _, s := range o.sorted() {
		if left := s.tidy(o.owns(s)); len(left) > 0 {
			o.store.Commit(o.dropped(left), func(error) {})
		}
		// What a follower keeps a quorum held; of its last entry an owner has to hear that.
		if s.epoch == nil || !o.owns(s) || s.epoch.AfterHash == s.log.headHash() {
			s.settled = s.log.headHash()
		}
		s.shown = s.log[:s.showable(nil)]
	}
	return nil
}

// damage passes over records that the store could not read: they are pulled again.
func (o *Owners) damage(err error) error {
	if errors.Is(err, env.ErrDamaged) {
		o.stats.Damaged++
		o.log.Warn("logs are damaged, and missing entries are pulled from the network again", "err", err)
		return nil
	}
	return err
}

func (o *Owners) loadSeat(key, value []byte) (*seat, error) {
	m := new(ownerpb.Seat)
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, err
	}
	if len(key) != len(seatPrefix)+len(overlay.ID{}) {
		return nil, ErrEpoch
	}
	s := &seat{
		key:      overlay.ID(key[len(seatPrefix):]),
		url:      m.Url,
		follow:   m.Follow,
		promised: votesFrom(m.Promised),
		signed:   votesFrom(m.Signed),
		note:     m.Note,
		version:  m.Version,
		heard:    o.clock.Now(),
	}
	var err error
	if m.Epoch != nil {
		if s.epoch, err = openEpoch(o.verify, m.Epoch); err != nil {
			return nil, err
		}
	}
	for _, raw := range m.Open {
		e, err := openEpoch(o.verify, raw)
		if err != nil {
			return nil, err
		}
		s.open = append(s.open, e)
	}
	return s, nil
}

// loadEntry finds the seat of an entry of an earlier life.
func (o *Owners) loadEntry(value []byte) error {
	e, err := OpenEntry(o.verify, value)
	if err != nil {
		return err
	}
	if s := o.seats[e.Key]; s != nil { // else it was forgotten between two commits
		s.log = append(s.log, e)
	}
	return nil
}

// tidy makes a chain of the entries that were found of a log. Beside them may lie some
// that the disk could not delete, or wrote though it said it had not: they lead nowhere.
// Where a record between was lost, an owner goes on with what came after it, for which
// it may have to answer; a follower pulls all of it again.
func (s *seat) tidy(owns bool) (left []*Entry) {
	if len(s.log) == 0 {
		return nil
	}
	by, followed := map[Hash]*Entry{}, map[Hash]bool{}
	for _, e := range s.log {
		by[e.Hash] = e
		followed[e.Prev] = true
	}
	var tip *Entry
	for _, e := range s.log {
		if !followed[e.Hash] && (tip == nil || s.later(e, tip)) {
			tip = e
		}
	}
	var log chain
	for e := tip; e != nil; e = by[e.Prev] {
		log = append(log, e)
		delete(by, e.Hash)
	}
	slices.Reverse(log)
	hole := false
	for _, e := range s.log {
		if by[e.Hash] != nil {
			left = append(left, e)
			hole = hole || e.At.Seq < log[0].At.Seq
		}
	}
	if hole && !owns {
		left, log = s.log, nil
	}
	s.setLog(log)
	return left
}

// later says which of two ends of a log is the one that went on.
func (s *seat) later(a, b *Entry) bool {
	if s.epoch != nil && a.At.Lineage != b.At.Lineage {
		return a.At.Lineage == s.epoch.Lineage
	}
	return cmp.Or(cmp.Compare(a.At.Epoch, b.At.Epoch), cmp.Compare(a.At.Seq, b.At.Seq)) > 0
}

// forget drops a seat with its log. Its locks stay: they are what must never be
// forgotten.
func (o *Owners) forget(s *seat) {
	ops := append(o.dropped(s.log), o.dropped(s.gone)...)
	o.yield(s.bid)
	s.bid = nil
	o.leave(s)
	if s.pull != nil { // nobody will answer it, nor ask again
		o.endPull(s, false)
	}
	if len(s.promised)+len(s.signed) == 0 {
		o.store.Commit(append(ops, env.Op{Key: seatKey(s.key)}), func(error) {})
		return
	}
	locks := &seat{key: s.key, url: s.url, promised: s.promised, signed: s.signed}
	o.retired[s.key] = locks
	o.save(locks, nil, ops...)
}

// dropped returns the operations that remove entries from the store.
func (o *Owners) dropped(of chain) (ops []env.Op) {
	for _, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e)}, env.Op{Key: bodyKey(e)})
		o.cache.drop(e.Hash)
	}
	return ops
}

// kept returns the operations that store entries.
func kept(of []*Entry, bodies [][]byte) (ops []env.Op) {
	for i, e := range of {
		ops = append(ops, env.Op{Key: entryKey(e), Value: e.Raw}, env.Op{Key: bodyKey(e), Value: bodies[i], Body: true})
	}
	return ops
}

// extend adds entries to a seat's log, or, if anew, puts them in its place. It
// returns the operations that remove what is kept no longer.
func (o *Owners) extend(s *seat, fresh []*Entry, bodies [][]byte, anew bool) (ops []env.Op) {
	old := s.log
	if anew {
		s.setLog(nil)
	}
	for i, e := range fresh {
		s.log = append(s.log, e)
		s.items += e.Items
		s.size += e.Size
		o.cache.put(e.Hash, bodies[i])
	}
	if anew {
		ops = o.depart(s, slices.DeleteFunc(slices.Clone(old), func(e *Entry) bool { return s.log.find(e.Hash) >= 0 }))
	}
	if n := s.kept(s.log.headTime(), 0, 0); n > 0 {
		ops = append(ops, o.dropped(s.log[:n])...)
		for _, e := range s.log[:n] {
			s.items -= e.Items
			s.size -= e.Size
		}
		s.log = slices.Clone(s.log[n:])
	}
	return ops
}

// truncate drops the entries after one that a new epoch goes on from: no quorum
// held them.
func (o *Owners) truncate(s *seat, after Hash) (ops []env.Op) {
	i := s.log.find(after)
	if i == len(s.log)-1 || i < 0 && after != (Hash{}) {
		return nil
	}
	ops = o.depart(s, s.log[i+1:])
	s.setLog(slices.Clone(s.log[:i+1]))
	return ops
}
