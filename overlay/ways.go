package overlay

import (
	"slices"
	"time"

	"tidings/internal/plant"
)

// ways holds the messages that pass or passed.
type ways struct {
	on   map[uint64]*passage
	old  []way // in the order of their end
	head int   // of old; what stands before it is forgotten
	load int   // bytes of the payloads kept
}

type way struct {
	id  uint64
	end time.Time
}

// expire forgets what passed long ago.
func (w *ways) expire(now time.Time) {
	for w.head < len(w.old) && !w.old[w.head].end.After(now) {
		id := w.old[w.head].id
		if passed := w.on[id]; passed != nil {
			w.unload(passed)
			if !plant.Hoard {
				delete(w.on, id)
			}
		}
		w.head++
	}
	if w.head > len(w.old)/2 {
		w.old = slices.Delete(w.old, 0, w.head)
		w.head = 0
	}
}

// carry gives a passage the payload to carry, unload takes it away when nothing
// is left to do with it.
func (w *ways) carry(p *passage, payload []byte) {
	w.unload(p)
	p.msg.Payload = payload
	w.load += len(payload)
}

func (w *ways) unload(p *passage) {
	w.load -= len(p.msg.Payload)
	p.msg.Payload = nil
}
