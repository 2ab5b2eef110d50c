package sim

import (
	"errors"
	"slices"
	"strings"
	"unique"

	"tidings/internal/env"
	"tidings/internal/plant"
)

// A DiskFault is what is wrong with the disk of a host. Whatever it is, what was
// durable stays so and can be read.
type DiskFault uint8

const (
	// Sound: nothing is.
	Sound DiskFault = iota
	// Crowded: there is no room for a body. Batches with one are refused; small
	// records still fit.
	Crowded
	// Full: there is no room at all, and all batches are refused.
	Full
	// Broken: all batches are refused until the host crashes. The first of them
	// may be there all the same in the next life, which finds the disk sound.
	Broken
)

var (
	errFull   = errors.New("disk full")
	errBroken = errors.New("nothing more is written until the store is opened again")
)

// A disk keeps records across crashes of its host. Batches become durable one
// after the other, each a modelled delay after its commit or with the one
// before it. Which of them a fault refuses is as in the real store.
type disk struct {
	host    *Host
	records []record // by key
	pending []batch
	last    int64 // when the last of them becomes durable

	fault DiskFault
	torn  *batch // the first that a broken disk refused
}

type batch struct {
	ops  []env.Op
	done func(error)
}

func (d *disk) commit(ops []env.Op, done func(error)) {
	l := d.host.lane
	d.host.stats.Commits++
	d.last = max(d.last, l.now+between(&d.host.doorDice, syncLeast, syncMost))
	d.pending = append(d.pending, batch{ops, done})
	l.push(d.last, d.host, durable, 0)
}

// sync makes the oldest batch durable, unless the disk refuses it, and says so.
func (d *disk) sync() {
	b := d.pending[0]
	d.pending = slices.Delete(d.pending, 0, 1)
	err := d.refuse(&b)
	if err == nil {
		d.write(b.ops)
	} else {
		d.host.stats.Unwritten++
		if plant.IgnoreDiskErrors {
			err = nil
		}
	}
	b.done(err)
}

// refuse says why a batch does not become durable, nil if it does.
func (d *disk) refuse(b *batch) error {
	switch d.fault {
	case Crowded:
		if slices.ContainsFunc(b.ops, func(op env.Op) bool { return op.Body && op.Value != nil }) {
			return errFull
		}
	case Full:
		return errFull
	case Broken:
		if d.torn == nil {
			d.torn = b
		}
		return errBroken
	}
	return nil
}

// crash makes some of the oldest batches durable, as the dice will, and forgets
// the others.
func (d *disk) crash() {
	kept := int(throw(&d.host.doorDice) * float64(len(d.pending)+1))
	for _, b := range d.pending[:kept] {
		if d.refuse(&b) == nil {
			d.write(b.ops)
		}
	}
	if d.fault == Broken {
		if d.torn != nil && throw(&d.host.doorDice) < 0.5 {
			d.write(d.torn.ops)
		}
		d.fault, d.torn = Sound, nil
	}
	d.pending, d.last = nil, 0
}

func (d *disk) write(ops []env.Op) {
	for _, op := range ops {
		d.put(string(op.Key), op.Value)
	}
}

// A record is what a disk keeps under a key. What a thousand disks have, as the addresses of
// members, has one key for all.
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
		if n := len(d.records); n == cap(d.records) { // thousands of disks are full of spare room otherwise
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
