package tiers

import (
	"tidings/cobra"
	"tidings/internal/env"
)

// reflect hands the articles of a filter to the application, in order. Their bytes count until they are stored, so that
// the filter's credit bounds what the application has to keep.
func (t *Tiers) reflect(i *inbox) {
	for len(i.buffer) > 0 {
		item, life := i.take(), i.life
		h := &handed{position: item.Position, bytes: len(item.Article)}
		i.handed = append(i.handed, h)
		done := func(ok bool) {
			if !ok {
				t.stats.Failed++
			}
			h.stored = true
			t.stored(i, life)
		}
		a, err := cobra.DecodeArticle(item.Article)
		if err != nil {
			t.stats.Garbage++
			done(true)
			continue
		}
		t.stats.Passed++
		t.app.Reflect(a, done)
	}
	name := ""
	if i.bytes >= t.cfg.Buffer/2 { // the application is behind
		name = t.plans.self().Name
	}
	i.waitFor(name)
}

// stored makes the position durable up to which the application has everything, and acknowledges it then.
func (t *Tiers) stored(i *inbox, life uint64) {
	n, bytes := 0, 0
	for n < len(i.handed) && i.handed[n].stored {
		bytes += i.handed[n].bytes
		n++
	}
	if n == 0 || life != i.life {
		return
	}
	position := i.handed[n-1].position
	i.handed = i.handed[n:]
	t.store.Commit([]env.Op{i.cursor(position)}, func(err error) {
		t.failed("positions")(err)
		i.passed(position, bytes, life)
	})
}
