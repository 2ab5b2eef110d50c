package sim

import (
	"errors"
	"slices"
	"strings"
	"unique"

	"tidings/internal/env"
)

// A DiskFault says what is wrong with a host's disk. Records that are already durable can always be
// read.
type DiskFault uint8

const (
	// DiskOK: no fault.
	DiskOK DiskFault = iota
	// AlmostFull: there is no room for bodies. A batch with a body is refused; small records still
	// fit.
	AlmostFull
	// DiskFull: every batch is refused.
	DiskFull
	// DiskBroken: every batch is refused until the host crashes. The first refused batch may have
	// been written all the same. In the next life the disk works again.
	DiskBroken
)

var (
	errFull   = errors.New("disk full")
	errBroken = errors.New("the disk is broken until the store is opened again")
)

// A disk keeps records across crashes of its host. Batches become durable in the order of their
// commits, each after a random delay. A fault refuses the same batches as it does in the real
// store.
type disk struct {
	host    *Host
	records []record // sorted by key
	pending []batch
	last    int64 // when the last pending batch becomes durable

	fault        DiskFault
	firstRefused *batch // the first batch that a broken disk refused; nil if none
}

type batch struct {
	ops  []env.Op
	done func(error)
}

func (d *disk) commit(ops []env.Op, done func(error)) {
	l := d.host.lane
	d.host.stats.Commits++
	d.last = max(d.last, l.now+uniformBetween(&d.host.ioRNG, syncShortest, syncLongest))
	d.pending = append(d.pending, batch{ops, done})
	l.schedule(d.last, d.host, eventDurable, 0)
}

// sync makes the oldest batch durable, unless the disk refuses it, and calls its done.
func (d *disk) sync() {
	b := d.pending[0]
	d.pending = slices.Delete(d.pending, 0, 1)
	err := d.refuse(&b)
	if err == nil {
		d.write(b.ops)
	} else {
		d.host.stats.RefusedCommits++
	}
	b.done(err)
}

// refuse returns why a batch cannot become durable; nil if it can.
func (d *disk) refuse(b *batch) error {
	switch d.fault {
	case AlmostFull:
		if slices.ContainsFunc(b.ops, func(op env.Op) bool { return op.Body && op.Value != nil }) {
			return errFull
		}
	case DiskFull:
		return errFull
	case DiskBroken:
		if d.firstRefused == nil {
			d.firstRefused = b
		}
		return errBroken
	}
	return nil
}

// crash makes a random number of the oldest pending batches durable and drops the others.
func (d *disk) crash() {
	kept := int(randFloat(&d.host.ioRNG) * float64(len(d.pending)+1))
	for _, b := range d.pending[:kept] {
		if d.refuse(&b) == nil {
			d.write(b.ops)
		}
	}
	if d.fault == DiskBroken {
		if d.firstRefused != nil && randFloat(&d.host.ioRNG) < 0.5 {
			d.write(d.firstRefused.ops)
		}
		d.fault, d.firstRefused = DiskOK, nil
	}
	d.pending, d.last = nil, 0
}

func (d *disk) write(ops []env.Op) {
	for _, op := range ops {
		d.put(string(op.Key), op.Value)
	}
}

// A record is a key and its value. Keys are interned, because a thousand disks hold the same ones,
// such as the addresses of members.
type record struct {
	key   unique.Handle[string]
	value []byte
}

func (d *disk) find(key string) (int, bool) {
	return slices.BinarySearchFunc(d.records, key, func(r record, key string) int { return strings.Compare(r.key.Value(), key) })
}

func (d *disk) get(key string) []byte {
	if i, ok := d.find(key); ok {
		return d.records[i].value
	}
	return nil
}

// put writes a record, or removes it if value is nil.
func (d *disk) put(key string, value []byte) {
	i, ok := d.find(key)
	switch {
	case ok && value == nil:
		d.records = slices.Delete(d.records, i, i+1)
	case ok:
		d.records[i].value = value
	case value != nil:
		if n := len(d.records); n == cap(d.records) { // grow by a quarter only: thousands of disks would waste much memory
			d.records = append(make([]record, 0, n+max(8, n/4)), d.records...)
		}
		d.records = slices.Insert(d.records, i, record{unique.Make(key), value})
	}
}

func (d *disk) scan(prefix string, each func(key, value []byte) bool) {
	first, _ := d.find(prefix)
	end := first
	for end < len(d.records) && strings.HasPrefix(d.records[end].key.Value(), prefix) {
		end++
	}
	for _, r := range slices.Clone(d.records[first:end]) {
		if !each([]byte(r.key.Value()), r.value) {
			return
		}
	}
}
