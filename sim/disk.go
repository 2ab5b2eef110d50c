package sim

import (
	"slices"
	"strings"

	"tidings/internal/env"
)

// A disk keeps records across crashes of its host. Batches become durable one
// after the other, each a modelled delay after its commit or with the one
// before it. A body is a record like any other.
type disk struct {
	host    *Host
	records map[string][]byte
	pending []batch
	last    int64 // when the last of them becomes durable
}

type batch struct {
	ops  []env.Op
	done func(error)
}

func (d *disk) commit(ops []env.Op, done func(error)) {
	w := d.host.world
	d.host.stats.Commits++
	d.last = max(d.last, w.now+between(&d.host.doorDice, syncLeast, syncMost))
	d.pending = append(d.pending, batch{ops, done})
	w.push(d.last, d.host, durable, 0)
}

// sync makes the oldest batch durable and says so.
func (d *disk) sync() {
	b := d.pending[0]
	d.pending = slices.Delete(d.pending, 0, 1)
	d.write(b.ops)
	b.done(nil)
}

// crash makes some of the oldest batches durable, as the dice will, and forgets
// the others.
func (d *disk) crash() {
	kept := int(throw(&d.host.doorDice) * float64(len(d.pending)+1))
	for _, b := range d.pending[:kept] {
		d.write(b.ops)
	}
	d.pending, d.last = nil, 0
}

func (d *disk) write(ops []env.Op) {
	for _, op := range ops {
		if op.Value == nil {
			delete(d.records, string(op.Key))
		} else {
			d.records[string(op.Key)] = op.Value
		}
	}
}

func (d *disk) scan(prefix string, each func(key, value []byte) bool) {
	var keys []string
	for k := range d.records {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if !each([]byte(k), d.records[k]) {
			return
		}
	}
}
