package table2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// A Kind is a kind of message: its layer, and its field number in the Message of that layer's wire
// specification.
type Kind struct {
	Layer wire.Layer
	Field protowire.Number
}

func (k Kind) String() string { return fmt.Sprintf("%d.%d", k.Layer, k.Field) }

// A Tally counts sent frames by kind.
type Tally map[Kind]Count

// A Count is a number of frames, and the sum of their bytes.
type Count struct{ Frames, Bytes uint64 }

// Kinds returns the kinds of a tally in their order.
func (t Tally) Kinds() []Kind {
	return slices.SortedFunc(maps.Keys(t), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Field, b.Field))
	})
}

// Since returns what was counted after an earlier state of the tally.
func (t Tally) Since(before Tally) Tally {
	d := Tally{}
	for k, c := range t {
		if b := before[k]; c != b {
			d[k] = Count{c.Frames - b.Frames, c.Bytes - b.Bytes}
		}
	}
	return d
}

// A countedNetwork is a member's env.Network that counts frames.
type countedNetwork struct {
	env.Network
	tally Tally
}

func (n countedNetwork) Send(to env.Peer, class env.Class, frame []byte) {
	k := kindOf(frame)
	c := n.tally[k]
	c.Frames++
	c.Bytes += uint64(len(frame))
	n.tally[k] = c
	n.Network.Send(to, class, frame)
}

// kindOf returns the kind of a frame, which must be valid.
func kindOf(frame []byte) Kind {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		panic(fmt.Sprintf("table2: a member sends no frame: %v", err))
	}
	field, _, _ := protowire.ConsumeTag(body)
	return Kind{layer, field}
}
