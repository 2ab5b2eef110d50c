package owner

import (
	"bytes"
	"slices"
)

// Epochs remembers epochs that were opened lately. All owners of a key come across the
// same one: nodes of one goroutine can share an Epochs, and with it their epochs.
type Epochs struct {
	limit int
	young map[Hash]*Epoch
	old   map[Hash]*Epoch // those that were young when young was full
}

// NewEpochs returns an empty memory for at least limit epochs, and at most twice as many.
func NewEpochs(limit int) *Epochs { return &Epochs{limit: limit, young: map[Hash]*Epoch{}} }

// find returns the epoch of a statement with just these signatures, nil if it is not known.
func (p *Epochs) find(h Hash, signatures [][]byte) *Epoch {
	if p == nil {
		return nil
	}
	for _, of := range []map[Hash]*Epoch{p.young, p.old} {
		if e := of[h]; e != nil && slices.EqualFunc(e.signatures, signatures, bytes.Equal) {
			return e
		}
	}
	return nil
}

// keep remembers an epoch, to which nobody adds signatures any more.
func (p *Epochs) keep(e *Epoch) {
	if p == nil {
		return
	}
	if len(p.young) >= p.limit {
		p.old, p.young = p.young, map[Hash]*Epoch{}
	}
	p.young[e.Hash] = e
}
