package news

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sort"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
)

// seen holds the entries that were recorded, by the start of each one's identity.
type (
	seen     map[itemID]sighting
	itemID   [16]byte
	version  [8]byte // the start of a hash of the version
	sighting struct {
		version version
		gone    uint32 // when the document was first without the entry, Unix time in minutes; 0: it has the entry
	}
)

const sightingSize = len(itemID{}) + len(version{}) + 4

// expired reports whether an entry has been gone for goneTime, so that it is not known any more.
func (e sighting) expired(now time.Time) bool {
	return e.gone != 0 && uint32(now.Unix()/60)-e.gone >= uint32(goneTime/time.Minute)
}

// recorded is what the journal knows of a source.
type recorded struct {
	all        []byte // sightings in the order of their identities, encoded; nil: the source was never recorded
	recent     seen   // later ones
	checkpoint []byte // see Journal.Checkpoint
}

// find returns what is known of an entry.
func (r recorded) find(id itemID, now time.Time) (s sighting, ok bool) {
	if s, ok = r.recent[id]; ok {
		return s, true
	}
	n := len(r.all) / sightingSize
	i := sort.Search(n, func(i int) bool { return bytes.Compare(r.all[i*sightingSize:][:len(id)], id[:]) >= 0 })
	if i == n {
		return s, false
	}
	found, s := decodeSighting(r.all[i*sightingSize:])
	return s, found == id && !s.expired(now)
}

// merged returns all that is known.
func (r recorded) merged() seen {
	all := seen{}
	for b := r.all; len(b) >= sightingSize; b = b[sightingSize:] {
		id, s := decodeSighting(b)
		all[id] = s
	}
	maps.Copy(all, r.recent)
	return all
}

// update returns the changes of the store after entries were seen: in a part of the document, or in all of it.
func (r recorded) update(s Source, entries seen, part bool, now time.Time) []env.Op {
	if part {
		recent := maps.Clone(r.recent)
		maps.Copy(recent, entries)
		switch {
		case maps.Equal(recent, r.recent):
			return nil
		case len(recent) <= maxRecent:
			return []env.Op{{Key: recentKey(s), Value: recent.encode()}}
		}
		return replaceAll(s, merge(r.all, recent.encode()))
	}
	known := r.merged()
	next := known.without(now)
	maps.Copy(next, entries)
	if r.all != nil && maps.Equal(known, next) {
		return nil
	}
	return replaceAll(s, next.encode())
}

// replaceAll returns the changes of the store that make all the only record of a source.
func replaceAll(s Source, all []byte) []env.Op {
	return []env.Op{{Key: seenKey(s), Value: all}, {Key: recentKey(s)}}
}

// merge merges encoded sightings. Of an entry that both have, the later sighting counts.
func merge(earlier, later []byte) []byte {
	all := make([]byte, 0, len(earlier)+len(later))
	for len(earlier) >= sightingSize && len(later) >= sightingSize {
		order := bytes.Compare(earlier[:len(itemID{})], later[:len(itemID{})])
		from := &earlier
		if order >= 0 {
			from = &later
		}
		all = append(all, (*from)[:sightingSize]...)
		*from = (*from)[sightingSize:]
		if order == 0 {
			earlier = earlier[sightingSize:]
		}
	}
	return append(append(all, earlier...), later...)
}

func decodeSighting(b []byte) (itemID, sighting) {
	rest := b[len(itemID{}):]
	return itemID(b), sighting{version(rest), binary.BigEndian.Uint32(rest[len(version{}):])}
}

// without returns what is known if the document has nothing any more. Expired entries are left out.
func (s seen) without(now time.Time) seen {
	next := seen{}
	for id, e := range s {
		if e.gone == 0 {
			e.gone = uint32(now.Unix() / 60)
		}
		if !e.expired(now) {
			next[id] = e
		}
	}
	return next
}

func (id itemID) String() string { return hex.EncodeToString(id[:]) }

// identify returns the identity of an entry within its document, and its version.
func identify(e *feed.Entry) (id itemID, v version) {
	if e.Meaning == nil {
		return itemID(e.Item.ID[:]), version(e.Item.Hash[:])
	}
	h := sha256.Sum256([]byte(e.Meaning.GUID)) // entries of searches are never edited
	return itemID(h[:]), v
}

// recorded reads what the journal knows of a source.
func (j *Journal) recorded(s Source) (r recorded, err error) {
	r.recent = seen{}
	b, err := j.store.Get(seenKey(s))
	if b == nil || errors.Is(err, env.ErrDamaged) { // what is damaged counts as never recorded: rather a gap than everything again
		return r, nil
	}
	r.all = b
	b, err = j.store.Get(recentKey(s))
	if errors.Is(err, env.ErrDamaged) {
		return recorded{recent: seen{}}, nil
	}
	for ; len(b) >= sightingSize; b = b[sightingSize:] {
		id, of := decodeSighting(b)
		r.recent[id] = of
	}
	if err != nil {
		return r, err
	}
	if r.checkpoint, err = j.store.Get(checkpointKey(s)); errors.Is(err, env.ErrDamaged) {
		r.checkpoint, err = nil, nil
	}
	return r, err
}

func (s seen) encode() []byte {
	b := []byte{} // not nil, which would delete the record
	for _, id := range slices.SortedFunc(maps.Keys(s), func(a, b itemID) int { return bytes.Compare(a[:], b[:]) }) {
		e := s[id]
		b = binary.BigEndian.AppendUint32(append(append(b, id[:]...), e.version[:]...), e.gone)
	}
	return b
}
