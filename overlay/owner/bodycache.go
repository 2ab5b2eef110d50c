package owner

import "slices"

// A bodyCache holds recent bodies in memory: those that are not durable yet, and those that several owners
// and followers will soon ask for. All other bodies are read from the store.
type bodyCache struct {
	byEntry map[Hash][]byte // bodies by the hashes of their entries
	order   []Hash          // entries in the order of insertion; may name dropped bodies
	size    int             // total size of the bodies, in bytes; about maxCachedBytes at most
	// pinned reports whether a body is stored nowhere else yet, and must stay.
	pinned func(Hash) bool
}

// maxCachedBytes bounds the cache: several seconds of entries even at a busy node.
const maxCachedBytes = 8 << 20

func (b *bodyCache) put(h Hash, body []byte) {
	if _, known := b.byEntry[h]; known {
		return
	}
	b.byEntry[h] = body
	b.order = append(b.order, h)
	b.size += len(body)
	for b.size > maxCachedBytes && len(b.order) > 1 && !b.pinned(b.order[0]) {
		b.drop(b.order[0])
		b.order = b.order[1:]
	}
	if len(b.order) > 2*len(b.byEntry)+64 { // most of order names dropped bodies
		b.order = slices.DeleteFunc(b.order, func(h Hash) bool { _, kept := b.byEntry[h]; return !kept })
	}
}

// drop removes a body. Its hash stays in order and is skipped there.
func (b *bodyCache) drop(h Hash) {
	b.size -= len(b.byEntry[h])
	delete(b.byEntry, h)
}

// Body reads the body of an entry and passes it to then; nil if it is lost.
func (d *storage) Body(e *Entry, then func(body []byte)) {
	d.Bodies([]*Entry{e}, func(bodies [][]byte) { then(bodies[0]) })
}

// Bodies reads the bodies of several entries and passes them to then, with nil for those that are lost. If all
// are cached, then is called before Bodies returns.
func (d *storage) Bodies(of []*Entry, then func(bodies [][]byte)) {
	got := make([][]byte, len(of))
	var missing []int
	for i, e := range of {
		if body, ok := d.bodies.byEntry[e.Hash]; ok {
			got[i] = body
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		then(got)
		return
	}
	store, lost := d.store, 0
	d.worker.Do(func() {
		for _, i := range missing {
			body, err := store.Get(bodyKey(of[i]))
			if err != nil || HashOf(body) != of[i].Body {
				lost++
				continue
			}
			got[i] = body
		}
	}, func() {
		d.stats.Lost += uint64(lost)
		then(got)
	})
}
