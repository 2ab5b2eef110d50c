package owner

import "slices"

// Bodies lie in the store. The last ones are kept at hand as well: those that are
// not durable yet, and those that several owners and followers are about to ask
// for.
type bodies struct {
	by    map[Hash][]byte // by the hash of the entry
	order []Hash
	bytes int
	// pinned says of a body that it is nowhere else yet.
	pinned func(Hash) bool
}

// maxCached bounds what is kept at hand, in bytes. It covers some seconds of
// entries even of a busy node; what fell out is read from the store.
const maxCached = 8 << 20

func (b *bodies) put(h Hash, body []byte) {
	if _, known := b.by[h]; known {
		return
	}
	b.by[h] = body
	b.order = append(b.order, h)
	b.bytes += len(body)
	for b.bytes > maxCached && len(b.order) > 1 && !b.pinned(b.order[0]) {
		b.drop(b.order[0])
		b.order = b.order[1:]
	}
	if len(b.order) > 2*len(b.by)+64 { // most were dropped out of turn
		b.order = slices.DeleteFunc(b.order, func(h Hash) bool { _, kept := b.by[h]; return !kept })
	}
}

// drop forgets a body. Its place in the order is passed over when its time comes.
func (b *bodies) drop(h Hash) {
	b.bytes -= len(b.by[h])
	delete(b.by, h)
}

// Body gets the body of an entry of a log that is kept here and hands it to then;
// nil if it is lost.
func (o *Owners) Body(e *Entry, then func(body []byte)) {
	o.Bodies([]*Entry{e}, func(bodies [][]byte) { then(bodies[0]) })
}

// Bodies gets the bodies of several entries, nil for those that are lost. Who is
// content with what is at hand is called back at once.
func (o *Owners) Bodies(of []*Entry, then func(bodies [][]byte)) {
	got := make([][]byte, len(of))
	var missing []int
	for i, e := range of {
		if body, ok := o.cache.by[e.Hash]; ok {
			got[i] = body
		} else {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		then(got)
		return
	}
	store, lost := o.store, 0
	o.worker.Do(func() {
		for _, i := range missing {
			body, err := store.Get(bodyKey(of[i]))
			if err != nil || HashOf(body) != of[i].Body {
				lost++
				continue
			}
			got[i] = body
		}
	}, func() {
		o.stats.Lost += uint64(lost)
		then(got)
	})
}
